/*
 * What a model and a cache will take of the memory of each device, and which layers go to which, told before
 * a weight is read. A plan never changes, so any number of threads may read one.
 *
 * Bytes by kind, of all devices or of one: embedding, layers and head (weights), kv (pages of keys and
 * values), workspace (activations, logits and scratch), and staging, host memory that copies need. A later
 * version may know further kinds: total_bytes has all of device memory, staging has none of it. Each getter
 * returns -1 on failure, and QUIRE_ERROR_INVALID_ARGUMENT for an index out of range.
 */
#ifndef QUIRE_PLAN_H
#define QUIRE_PLAN_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Plans the model of `model` with a cache of `cache` (NULL: every default) on the devices that `model` names.
 * Reads the configuration, the headers and the orders of rows. The caller owns the result. NULL on failure:
 * as quire_model_load, and QUIRE_ERROR_OUT_OF_MEMORY with the bytes needed and free where a split over
 * several devices, automatic or by bytes, does not go.
 */
QUIRE_API quire_plan* quire_plan_create(quire_runtime* runtime, quire_model_options* model,
                                        quire_cache_options* cache, quire_error** error);

/** Frees a plan. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_plan_free(quire_plan* handle, quire_error** error);

/** The path of the model, of several precisions that of the chosen one. Returns its bytes (base.h: results).
 */
QUIRE_API int64_t quire_plan_model_path(quire_plan* plan, char* out_text, size_t out_capacity,
                                        quire_error** error);

/** How the planned cache stores keys and values: one of QUIRE_KV_*, never QUIRE_KV_AUTO; -1 on failure. */
QUIRE_API int32_t quire_plan_kv_format(quire_plan* plan, quire_error** error);

/** Device memory of all devices. */
QUIRE_API int64_t quire_plan_total_bytes(quire_plan* plan, quire_error** error);

/** The embedding table. */
QUIRE_API int64_t quire_plan_embedding_bytes(quire_plan* plan, quire_error** error);

/** Weights of the layers. */
QUIRE_API int64_t quire_plan_layer_bytes(quire_plan* plan, quire_error** error);

/** Weights of the head. */
QUIRE_API int64_t quire_plan_head_bytes(quire_plan* plan, quire_error** error);

/** Pages of keys and values. */
QUIRE_API int64_t quire_plan_kv_bytes(quire_plan* plan, quire_error** error);

/** Activations, logits and scratch. */
QUIRE_API int64_t quire_plan_workspace_bytes(quire_plan* plan, quire_error** error);

/** Host memory that copies need; no part of the total. */
QUIRE_API int64_t quire_plan_staging_bytes(quire_plan* plan, quire_error** error);

/** How many devices the model names. */
QUIRE_API int32_t quire_plan_num_devices(quire_plan* plan, quire_error** error);

/** The name of a device, device_idx from 0 in the order of the options. Returns its bytes (base.h: results).
 */
QUIRE_API int64_t quire_plan_device_name(quire_plan* plan, int32_t device_idx, char* out_text,
                                         size_t out_capacity, quire_error** error);

/** Layers that go to the device. */
QUIRE_API int32_t quire_plan_device_num_layers(quire_plan* plan, int32_t device_idx, quire_error** error);

/** Bytes that the device has free beside the reserve and within the split. */
QUIRE_API int64_t quire_plan_device_usable_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/** Memory of the device. */
QUIRE_API int64_t quire_plan_device_total_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/** The embedding table on the device. */
QUIRE_API int64_t quire_plan_device_embedding_bytes(quire_plan* plan, int32_t device_idx,
                                                    quire_error** error);

/** Weights of the layers of the device. */
QUIRE_API int64_t quire_plan_device_layer_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/** Weights of the head on the device. */
QUIRE_API int64_t quire_plan_device_head_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/** Pages of keys and values on the device. */
QUIRE_API int64_t quire_plan_device_kv_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/** Activations, logits and scratch on the device. */
QUIRE_API int64_t quire_plan_device_workspace_bytes(quire_plan* plan, int32_t device_idx,
                                                    quire_error** error);

/** Host memory that copies from and to the device need. */
QUIRE_API int64_t quire_plan_device_staging_bytes(quire_plan* plan, int32_t device_idx, quire_error** error);

/** How many layers the model has. */
QUIRE_API int32_t quire_plan_num_layers(quire_plan* plan, quire_error** error);

/** The device_idx of the device that a layer goes to, layer_idx from 0. */
QUIRE_API int32_t quire_plan_layer_device(quire_plan* plan, int32_t layer_idx, quire_error** error);

/** Weights and pages of the layer. */
QUIRE_API int64_t quire_plan_bytes_of_layer(quire_plan* plan, int32_t layer_idx, quire_error** error);

/**
 * How many cache groups there are: layers that see back equally far share pages of one kind. The first group
 * is that of layers without a window, and may have no layer; the others follow by rising window. group_idx
 * counts from 0.
 */
QUIRE_API int32_t quire_plan_num_cache_groups(quire_plan* plan, quire_error** error);

/** Tokens that a token of the group's layers sees, itself included; 0: all. */
QUIRE_API int32_t quire_plan_cache_group_window(quire_plan* plan, int32_t group_idx, quire_error** error);

/** Pages that each layer of the group has, of as many tokens as the cache's pages have. */
QUIRE_API int32_t quire_plan_cache_group_num_pages(quire_plan* plan, int32_t group_idx, quire_error** error);

/** Layers of the group that have pages of their own. */
QUIRE_API int32_t quire_plan_cache_group_num_layers(quire_plan* plan, int32_t group_idx, quire_error** error);

/** Pages of all layers of the group, on all devices; the groups together are quire_plan_kv_bytes. */
QUIRE_API int64_t quire_plan_cache_group_bytes(quire_plan* plan, int32_t group_idx, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_PLAN_H */
