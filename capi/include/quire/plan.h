/*
 * The memory that a model and a cache will take on each device, and the split of the layers over the
 * devices, computed before any weight is read. A plan never changes, so any number of threads may read one.
 *
 * Bytes are reported by kind, for all devices together or for one: embedding, layers, head and drafter
 * (weights), kv (pages of keys and values), workspace (activations, logits and scratch), and staging (host
 * memory for copies). The pages and the workspace of a draft network are part of kv and workspace. A later
 * version may add kinds: total_bytes always includes all device memory and no staging. Each getter returns -1
 * on failure, and fails with QUIRE_ERROR_INVALID_ARGUMENT if an index is out of range.
 */
#ifndef QUIRE_PLAN_H
#define QUIRE_PLAN_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Plans the model of `model` with a cache of `cache` (NULL: every default) on the devices that `model`
 * names. Reads the configuration, the headers and the row orders. The caller owns the result. Returns NULL
 * on failure. Fails like quire_model_load. Also fails with QUIRE_ERROR_OUT_OF_MEMORY, with the bytes needed
 * and free, if a split over several devices, automatic or by bytes, does not fit.
 */
QUIRE_API quire_plan* quire_plan_create(quire_runtime* runtime, quire_model_options* model,
                                        quire_cache_options* cache, quire_error** error);

/** Frees a plan. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_plan_free(quire_plan* handle, quire_error** error);

/**
 * Writes the path of the model to out_text; of several precisions, that of the chosen one. Returns its
 * length in bytes (base.h, Results).
 */
QUIRE_API int64_t quire_plan_model_path(quire_plan* plan, char* out_text, size_t out_capacity,
                                        quire_error** error);

/**
 * Writes what the draft network of the model is to out_text, as quire_model_drafter does after the load; an
 * empty text if there is none. Returns its length in bytes (base.h, Results).
 */
QUIRE_API int64_t quire_plan_drafter(quire_plan* plan, char* out_text, size_t out_capacity,
                                     quire_error** error);

/**
 * Returns the storage format of keys and values in the planned cache: one of QUIRE_KV_*, never
 * QUIRE_KV_AUTO. Returns -1 on failure.
 */
QUIRE_API int32_t quire_plan_kv_format(quire_plan* plan, quire_error** error);

/** Returns the device memory of all kinds on all devices, in bytes. */
QUIRE_API int64_t quire_plan_total_bytes(quire_plan* plan, quire_error** error);

/** Returns the bytes of the embedding table. */
QUIRE_API int64_t quire_plan_embedding_bytes(quire_plan* plan, quire_error** error);

/** Returns the bytes of the weights of the layers. */
QUIRE_API int64_t quire_plan_layer_bytes(quire_plan* plan, quire_error** error);

/** Returns the bytes of the weights of the head. */
QUIRE_API int64_t quire_plan_head_bytes(quire_plan* plan, quire_error** error);

/** Returns the bytes of the weights of the draft network; 0 if there is none. */
QUIRE_API int64_t quire_plan_drafter_bytes(quire_plan* plan, quire_error** error);

/** Returns the bytes of the pages of keys and values, and of the slots of recurrent states. */
QUIRE_API int64_t quire_plan_kv_bytes(quire_plan* plan, quire_error** error);

/** Returns the bytes of activations, logits and scratch. */
QUIRE_API int64_t quire_plan_workspace_bytes(quire_plan* plan, quire_error** error);

/** Returns the bytes of host memory that copies need; not part of the total. */
QUIRE_API int64_t quire_plan_staging_bytes(quire_plan* plan, quire_error** error);

/**
 * Returns the number of devices: those that the model names, and cpu as the last one if it is added for
 * experts (quire_model_options_set_host_experts).
 */
QUIRE_API int32_t quire_plan_num_devices(quire_plan* plan, quire_error** error);

/**
 * Writes the name of a device to out_text; device_idx counts from 0 in the order of the options. Returns
 * its length in bytes (base.h, Results).
 */
QUIRE_API int64_t quire_plan_device_name(quire_plan* plan, int32_t device_idx, char* out_text,
                                         size_t out_capacity, quire_error** error);

/** Returns the number of layers on the device, whole or a shard of them. */
QUIRE_API int32_t quire_plan_device_num_layers(quire_plan* plan, int32_t device_idx, quire_error** error);

/** Returns the number of layers whose experts are on the device while the layer is on another one. */
QUIRE_API int32_t quire_plan_device_num_host_experts(quire_plan* plan, int32_t device_idx,
                                                     quire_error** error);

/** Returns the bytes that the device has free, without the reserve and within the limit of the split. */
QUIRE_API int64_t quire_plan_device_usable_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/** Returns the device memory of all kinds on the device, in bytes. */
QUIRE_API int64_t quire_plan_device_total_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/** Returns the bytes of the embedding table on the device. */
QUIRE_API int64_t quire_plan_device_embedding_bytes(quire_plan* plan, int32_t device_idx,
                                                    quire_error** error);

/** Returns the bytes of the weights of the device's layers. */
QUIRE_API int64_t quire_plan_device_layer_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/** Returns the bytes of the weights of the head on the device. */
QUIRE_API int64_t quire_plan_device_head_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/** Returns the bytes of the weights of the draft network on the device. */
QUIRE_API int64_t quire_plan_device_drafter_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/** Returns the bytes of the pages of keys and values on the device, and of the slots of recurrent states. */
QUIRE_API int64_t quire_plan_device_kv_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/** Returns the bytes of activations, logits and scratch on the device. */
QUIRE_API int64_t quire_plan_device_workspace_bytes(quire_plan* plan, int32_t device_idx,
                                                    quire_error** error);

/** Returns the bytes of host memory that copies from and to the device need. */
QUIRE_API int64_t quire_plan_device_staging_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/**
 * Returns the bytes of weights that a step of one token reads on the device: of experts those that one token
 * chooses, of the embedding nothing. Experts that stay on a card (quire_cache_options_set_card_expert_bytes)
 * are read there as if all were chosen equally often; those chosen more often are read there more. The time
 * of a step is at least the sum over the devices of these bytes divided by the bytes per second that the
 * device reads.
 */
QUIRE_API int64_t quire_plan_device_step_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/** Returns the number of layers of the model. */
QUIRE_API int32_t quire_plan_num_layers(quire_plan* plan, quire_error** error);

/** Returns the device_idx of the device that holds a layer; layer_idx counts from 0. */
QUIRE_API int32_t quire_plan_layer_device(quire_plan* plan, int32_t layer_idx, quire_error** error);

/** Returns the device_idx of the device that holds the feed-forward block of a layer. */
QUIRE_API int32_t quire_plan_layer_experts_device(quire_plan* plan, int32_t layer_idx, quire_error** error);

/** Returns the bytes of the weights and pages of the layer, on all devices. */
QUIRE_API int64_t quire_plan_bytes_of_layer(quire_plan* plan, int32_t layer_idx, quire_error** error);

/**
 * Returns the number of cache groups. Layers with the same attention window form a group and share pages of
 * one kind. The first group contains the layers without a window, and may be empty; the others follow in
 * order of increasing window. group_idx counts from 0.
 */
QUIRE_API int32_t quire_plan_num_cache_groups(quire_plan* plan, quire_error** error);

/**
 * Returns the number of tokens that a token sees in the layers of the group, itself included; 0 means all.
 */
QUIRE_API int32_t quire_plan_cache_group_window(quire_plan* plan, int32_t group_idx, quire_error** error);

/**
 * Returns the number of pages of each layer of the group. These pages hold as many tokens as the pages of
 * the cache.
 */
QUIRE_API int32_t quire_plan_cache_group_num_pages(quire_plan* plan, int32_t group_idx, quire_error** error);

/** Returns the number of layers of the group that have pages of their own. */
QUIRE_API int32_t quire_plan_cache_group_num_layers(quire_plan* plan, int32_t group_idx, quire_error** error);

/**
 * Returns the bytes of the pages of all layers of the group, on all devices. All groups together give
 * quire_plan_kv_bytes.
 */
QUIRE_API int64_t quire_plan_cache_group_bytes(quire_plan* plan, int32_t group_idx, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_PLAN_H */
