/*
 * A model: its weights on a device, its tokenizer and its description. It never changes once loaded, so any
 * number of threads may use one model at the same time.
 */
#ifndef QUIRE_MODEL_H
#define QUIRE_MODEL_H

#include <quire/base.h>

/* Special tokens that a tokenizer may define. */
#define QUIRE_TOKEN_BOS 1 /* beginning of a text */
#define QUIRE_TOKEN_EOS 2 /* end of a text; the first one if there are several */
#define QUIRE_TOKEN_PAD 3 /* padding */
#define QUIRE_TOKEN_UNK 4 /* replacement for input that the tokenizer cannot represent */

/* Place where the weights of a model are. A later version may add states. */
#define QUIRE_MODEL_STATE_RESIDENT 1    /* on the devices of the model */
#define QUIRE_MODEL_STATE_STANDING_BY 2 /* off the devices, files open: the same weights come back */
#define QUIRE_MODEL_STATE_ON_DISK 3     /* off the devices, files closed */
#define QUIRE_MODEL_STATE_MOVING 4      /* between two of these states */

/* Counters of the movements of the weights since the model was loaded. */
#define QUIRE_MODEL_FIGURE_WAITS 1 /* times that jobs found the weights away and waited */
#define QUIRE_MODEL_FIGURE_WAKES 2 /* times that the weights came back; the first load does not count */
#define QUIRE_MODEL_FIGURE_FAILED_WAKES 3 /* attempts to bring the weights back that failed */
#define QUIRE_MODEL_FIGURE_EVICTIONS 4    /* times that the weights left the devices */
#define QUIRE_MODEL_FIGURE_LAST_WAKE_NS 5 /* duration of the last wake */
#define QUIRE_MODEL_FIGURE_ALL_WAKES_NS 6 /* total duration of all wakes */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Loads the model that `options` name. Waits (base.h) until it is loaded; a wait that ends early ends the
 * load. A model without a tokenizer accepts and produces token ids only. The caller owns the
 * result. Returns NULL on failure, and then nothing stays allocated. Fails with QUIRE_ERROR_NOT_FOUND,
 * QUIRE_ERROR_IO, QUIRE_ERROR_FORMAT, QUIRE_ERROR_TRUNCATED, QUIRE_ERROR_UNSUPPORTED or
 * QUIRE_ERROR_OUT_OF_MEMORY, each naming the file, field or tensor, or with QUIRE_ERROR_TIMEOUT or
 * QUIRE_ERROR_CANCELLED.
 */
QUIRE_API quire_model* quire_model_load(quire_runtime* runtime, quire_model_options* options,
                                        int64_t timeout_ns, quire_cancel* cancel, quire_error** error);

/**
 * Frees the handle. Caches created from the model stay usable and keep it alive. NULL does nothing. Returns
 * 1, or 0 on failure. Fails with QUIRE_ERROR_REENTRANT inside a callback.
 */
QUIRE_API int32_t quire_model_free(quire_model* handle, quire_error** error);

/*
 * Residency: the weights of a model may leave its devices while its caches, their pages and their jobs
 * stay. Jobs submitted in that time wait until the weights are back; their deadlines count during
 * this time. The first step of such a job requests the wake. If the wake fails, these jobs end with the
 * reason, and later jobs try again.
 *
 * If another load lacks memory, models without jobs are evicted automatically: the lowest priority first,
 * and among equals the one idle longest. The log reports each eviction. A wake that needs memory of models
 * with running jobs waits until one of them has none.
 *
 * The weights of a CUDA device stand by in pinned host memory, if the host and the budget "pinned"
 * (quire_runtime_options_set_memory_budget) have room, and are copied back from there. Otherwise, and
 * always for the CPU, they are read from their files again. All these functions fail with
 * QUIRE_ERROR_UNSUPPORTED for a model whose scope has no weights.
 */

/** Returns one of QUIRE_MODEL_STATE_*, or -1 on failure. */
QUIRE_API int32_t quire_model_state(quire_model* model, quire_error** error);

/**
 * Brings the weights back to their devices. Waits (base.h) until they are there. Weights in pinned memory
 * are copied in the order of the layers, and the call may return while these copies are queued; computation
 * waits for each layer. Returns 1 when they are back, otherwise one of QUIRE_WAIT_*, and QUIRE_WAIT_FAILED on
 * failure. After QUIRE_WAIT_TIMEOUT or QUIRE_WAIT_CANCELLED the wake continues. Fails like
 * quire_model_load, and with QUIRE_ERROR_FORMAT if the files were replaced by others.
 */
QUIRE_API int32_t quire_model_wake(quire_model* model, int64_t timeout_ns, quire_cancel* cancel,
                                   quire_error** error);

/**
 * Takes the weights off their devices, to QUIRE_MODEL_STATE_STANDING_BY or QUIRE_MODEL_STATE_ON_DISK. Waits
 * (base.h) until no cache of the model has jobs and the weights are off. Returns 1 when they are off,
 * otherwise one of QUIRE_WAIT_*, and QUIRE_WAIT_FAILED on failure. After QUIRE_WAIT_TIMEOUT or
 * QUIRE_WAIT_CANCELLED the weights stay where they are.
 */
QUIRE_API int32_t quire_model_evict(quire_model* model, int32_t state, int64_t timeout_ns,
                                    quire_cancel* cancel, quire_error** error);

/**
 * Sets the eviction priority, -1000 to 1000: if another model needs memory, models of lower priority leave
 * first. Default: 0. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_model_set_priority(quire_model* model, int32_t priority, quire_error** error);

/**
 * Sets the time without jobs after which the weights move to standby; 0, the default, means never. The
 * threads of its caches check this time, so a model without a cache is not moved. Returns 1, or 0 on
 * failure.
 */
QUIRE_API int32_t quire_model_set_idle_timeout_ns(quire_model* model, int64_t idle_timeout_ns,
                                                  quire_error** error);

/** Returns the value of one of QUIRE_MODEL_FIGURE_*, or -1 on failure. */
QUIRE_API int64_t quire_model_figure(quire_model* model, int32_t figure, quire_error** error);

/* Tokenizer. These functions fail with QUIRE_ERROR_UNSUPPORTED for a model without one. */

/**
 * Converts text to token ids and writes them to out_tokens. If add_special is 1, it adds the tokens that
 * the model's tokenizer puts before and after a text. If parse_special is 1, the text of special tokens in
 * `text` becomes those tokens, as templates need; if it is 0, it stays ordinary text, as user input needs.
 * The time is linear in the length of the text. Returns the number of ids (base.h, Results), or -1 on
 * failure. Fails with QUIRE_ERROR_ENCODING if the text is not UTF-8.
 */
QUIRE_API int64_t quire_model_encode(quire_model* model, const char* text, size_t text_len,
                                     int32_t add_special, int32_t parse_special, int32_t* out_tokens,
                                     size_t out_capacity, quire_error** error);

/**
 * Converts token ids to text and writes it to out_text. If skip_special is 1, special tokens are left out.
 * Bytes that form no character become U+FFFD, so the text is always UTF-8. Returns its length in bytes
 * (base.h, Results), or -1 on failure. Fails with QUIRE_ERROR_INVALID_ARGUMENT and the position if an id is
 * out of range.
 */
QUIRE_API int64_t quire_model_decode(quire_model* model, const int32_t* tokens, size_t num_tokens,
                                     int32_t skip_special, char* out_text, size_t out_capacity,
                                     quire_error** error);

/**
 * Writes the bytes of one token to out_bytes; they may be part of a character. Returns their number, or -1
 * on failure.
 */
QUIRE_API int64_t quire_model_token_bytes(quire_model* model, int32_t token, uint8_t* out_bytes,
                                          size_t out_capacity, quire_error** error);

/**
 * Returns the token that the tokenizer's file spells `text`, such as "<|im_end|>", or -1 if there is none.
 * Also returns -1, with an error, on failure.
 */
QUIRE_API int32_t quire_model_find_token(quire_model* model, const char* text, size_t text_len,
                                         quire_error** error);

/** Returns 1 if a token is special, otherwise 0, or -1 on failure. */
QUIRE_API int32_t quire_model_is_special(quire_model* model, int32_t token, quire_error** error);

/**
 * Returns the id of a QUIRE_TOKEN_*, or -1 if the model has none. Also returns -1, with an error, on
 * failure.
 */
QUIRE_API int32_t quire_model_special_token(quire_model* model, int32_t kind, quire_error** error);

/**
 * Writes every token that ends a text to out_tokens. Returns their number (base.h, Results), or -1 on
 * failure.
 */
QUIRE_API int64_t quire_model_eos_tokens(quire_model* model, int32_t* out_tokens, size_t out_capacity,
                                         quire_error** error);

/** Returns the number of ids of the tokenizer: every id is smaller than this. Returns -1 on failure. */
QUIRE_API int32_t quire_model_tokenizer_size(quire_model* model, quire_error** error);

/* Description. These functions fail with QUIRE_ERROR_UNSUPPORTED for a model loaded as a tokenizer only. */

/**
 * Returns the number of logits that the model computes, which may exceed quire_model_tokenizer_size.
 * Returns -1 on failure.
 */
QUIRE_API int32_t quire_model_vocab_size(quire_model* model, quire_error** error);

/**
 * Writes the path that the model was loaded from to out_text; of several precisions, that of the chosen
 * one. Returns its length in bytes, or -1 on failure.
 */
QUIRE_API int64_t quire_model_path(quire_model* model, char* out_text, size_t out_capacity,
                                   quire_error** error);

/**
 * Writes the name of the architecture, as in config.json, to out_text. Returns its length in bytes, or -1
 * on failure.
 */
QUIRE_API int64_t quire_model_architecture(quire_model* model, char* out_text, size_t out_capacity,
                                           quire_error** error);

/** Returns the number of decoder layers, or -1 on failure. */
QUIRE_API int32_t quire_model_num_layers(quire_model* model, quire_error** error);

/** Returns the width of the residual stream, or -1 on failure. */
QUIRE_API int32_t quire_model_hidden_size(quire_model* model, quire_error** error);

/** Returns the number of attention heads of a layer, or -1 on failure. */
QUIRE_API int32_t quire_model_num_heads(quire_model* model, quire_error** error);

/** Returns the number of key/value heads of a layer, or -1 on failure. */
QUIRE_API int32_t quire_model_num_kv_heads(quire_model* model, quire_error** error);

/** Returns the context length that the model was made for, in tokens, or -1 on failure. */
QUIRE_API int64_t quire_model_max_context(quire_model* model, quire_error** error);

/** Returns the bits per weight over all matrices of the model, as stored on disk, or NaN on failure. */
QUIRE_API double quire_model_bits_per_weight(quire_model* model, quire_error** error);

/**
 * Returns the bytes of all weights, those of the draft network included, or -1 on failure. For the full scope
 * this is the device memory that they take when resident; otherwise it is their size on disk.
 */
QUIRE_API int64_t quire_model_weight_bytes(quire_model* model, quire_error** error);

/**
 * Writes what the draft network of the model is to out_text, for people to read: "multi-token prediction of
 * the checkpoint", "EAGLE-3 network PATH" or "draft model PATH"; an empty text if the model was loaded
 * without one (quire_model_options_set_drafter). A later version may add kinds. Returns its length in bytes,
 * or -1 on failure.
 */
QUIRE_API int64_t quire_model_drafter(quire_model* model, char* out_text, size_t out_capacity,
                                      quire_error** error);

/**
 * Returns the part of quire_model_weight_bytes that the draft network takes, or -1 on failure. This is 0 if
 * the model was loaded without one, or without weights: a plan has the bytes of every network.
 */
QUIRE_API int64_t quire_model_drafter_bytes(quire_model* model, quire_error** error);

/**
 * Returns the number of shards that each layer is cut into (quire_model_options_set_num_shards), or -1 on
 * failure.
 */
QUIRE_API int32_t quire_model_num_shards(quire_model* model, quire_error** error);

/**
 * Returns the part of quire_model_weight_bytes that one shard takes, or -1 on failure. shard_idx counts
 * from 0. Fails with QUIRE_ERROR_UNSUPPORTED for a model whose scope has no weights.
 */
QUIRE_API int64_t quire_model_shard_weight_bytes(quire_model* model, int32_t shard_idx, quire_error** error);

/* Tensors as stored in the files. Indices count from 0, in an order that does not change. */

/** Returns the number of tensors of the model, or -1 on failure; a quantized matrix counts as one. */
QUIRE_API int32_t quire_model_num_tensors(quire_model* model, quire_error** error);

/**
 * Writes the name of a tensor to out_text. Returns its length in bytes, or -1 on failure. This function and
 * those below fail with QUIRE_ERROR_INVALID_ARGUMENT if the index is out of range.
 */
QUIRE_API int64_t quire_model_tensor_name(quire_model* model, int32_t tensor_idx, char* out_text,
                                          size_t out_capacity, quire_error** error);

/**
 * Writes the storage format of a tensor to out_text: "exl2", "gptq", "fp8", "f16", "bf16", "f32". Returns
 * its length in bytes, or -1 on failure.
 */
QUIRE_API int64_t quire_model_tensor_format(quire_model* model, int32_t tensor_idx, char* out_text,
                                            size_t out_capacity, quire_error** error);

/**
 * Writes the shape of a tensor to out_sizes, outermost dimension first; a matrix is [outputs, inputs].
 * Returns the number of dimensions, or -1 on failure.
 */
QUIRE_API int64_t quire_model_tensor_shape(quire_model* model, int32_t tensor_idx, int64_t* out_sizes,
                                           size_t out_capacity, quire_error** error);

/** Returns the bytes of a tensor on disk, including scales and row orders, or -1 on failure. */
QUIRE_API int64_t quire_model_tensor_bytes(quire_model* model, int32_t tensor_idx, quire_error** error);

/**
 * Returns the layer of a tensor, from 0, or -1 if it belongs to none. Also returns -1, with an error, on
 * failure.
 */
QUIRE_API int32_t quire_model_tensor_layer(quire_model* model, int32_t tensor_idx, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_MODEL_H */
