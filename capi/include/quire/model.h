/*
 * A model: its weights on a device, its tokenizer and its description. It never changes once loaded, so any
 * number of threads may use one model at the same time.
 */
#ifndef QUIRE_MODEL_H
#define QUIRE_MODEL_H

#include <quire/base.h>

/* Tokens with a meaning of their own. */
#define QUIRE_TOKEN_BOS 1 /* begins a text */
#define QUIRE_TOKEN_EOS 2 /* ends a text; the first where there are several */
#define QUIRE_TOKEN_PAD 3 /* fills */
#define QUIRE_TOKEN_UNK 4 /* stands for what the tokenizer cannot express */

/* Where the weights of a model are. A later version may add states. */
#define QUIRE_MODEL_STATE_RESIDENT 1    /* on its devices */
#define QUIRE_MODEL_STATE_STANDING_BY 2 /* off them, its files open: what comes back is what was there */
#define QUIRE_MODEL_STATE_ON_DISK 3     /* off them, its files closed */
#define QUIRE_MODEL_STATE_MOVING 4      /* on the way from one of these to another */

/* What is counted of the weights' moves since the model was loaded. */
#define QUIRE_MODEL_FIGURE_WAITS 1        /* how often jobs of a cache found them away and waited */
#define QUIRE_MODEL_FIGURE_WAKES 2        /* how often they came back; the first load is none */
#define QUIRE_MODEL_FIGURE_FAILED_WAKES 3 /* and could not */
#define QUIRE_MODEL_FIGURE_EVICTIONS 4    /* how often they left */
#define QUIRE_MODEL_FIGURE_LAST_WAKE_NS 5 /* how long their last way back took */
#define QUIRE_MODEL_FIGURE_ALL_WAKES_NS 6 /* and all of them together */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Loads the model that `options` name. Waits (base.h) until it is loaded; a wait that ends early ends the
 * load. Without a tokenizer in its directory a model takes and gives ids alone. The caller owns the result.
 * NULL on failure, and then nothing stays: QUIRE_ERROR_NOT_FOUND, QUIRE_ERROR_IO, QUIRE_ERROR_FORMAT,
 * QUIRE_ERROR_TRUNCATED, QUIRE_ERROR_UNSUPPORTED, QUIRE_ERROR_OUT_OF_MEMORY, each naming the file, field or
 * tensor, QUIRE_ERROR_TIMEOUT, QUIRE_ERROR_CANCELLED.
 */
QUIRE_API quire_model* quire_model_load(quire_runtime* runtime, quire_model_options* options,
                                        int64_t timeout_ns, quire_cancel* cancel, quire_error** error);

/**
 * Frees the handle. Caches made from the model stay usable and keep it alive. NULL does nothing. Returns 1,
 * or 0 on failure; QUIRE_ERROR_REENTRANT inside a callback.
 */
QUIRE_API int32_t quire_model_free(quire_model* handle, quire_error** error);

/*
 * Residency: the weights of a model may leave its devices while its caches, their pages and their jobs stay.
 * Jobs that are submitted meanwhile wait (their deadlines count) until the weights are back, which their
 * first step asks for; where that fails these jobs end with the reason, and the next ones try again. Where
 * memory lacks for another load, models without jobs leave by themselves: those of the lowest priority first,
 * of these the one idle longest; the log tells of it. A wake that finds the room taken by models that have
 * jobs waits until one of them has none. Weights of a card stand by in pinned host memory, where the host and
 * the budget "pinned" (quire_runtime_options_set_memory_budget) have room for them, and come from there; else
 * from their files, as those of the CPU. QUIRE_ERROR_UNSUPPORTED for a model whose scope has no weights.
 */

/** One of QUIRE_MODEL_STATE_*; -1 on failure. */
QUIRE_API int32_t quire_model_state(quire_model* model, quire_error** error);

/**
 * Brings the weights back to their devices and waits (base.h) until they are there, or, from pinned memory,
 * on their way in the order of layers: what computes waits for each. 1: they are; after QUIRE_WAIT_TIMEOUT or
 * QUIRE_WAIT_CANCELLED they come all the same. QUIRE_WAIT_FAILED on failure: what quire_model_load fails
 * with, and QUIRE_ERROR_FORMAT where the files have been exchanged for others.
 */
QUIRE_API int32_t quire_model_wake(quire_model* model, int64_t timeout_ns, quire_cancel* cancel,
                                   quire_error** error);

/**
 * Takes the weights off their devices, to QUIRE_MODEL_STATE_STANDING_BY or QUIRE_MODEL_STATE_ON_DISK, once no
 * cache of the model has jobs, and waits (base.h) for that. 1: they are off; after QUIRE_WAIT_TIMEOUT or
 * QUIRE_WAIT_CANCELLED they stay where they are. QUIRE_WAIT_FAILED on failure.
 */
QUIRE_API int32_t quire_model_evict(quire_model* model, int32_t state, int64_t timeout_ns,
                                    quire_cancel* cancel, quire_error** error);

/**
 * How much the weights are to stay where another model needs their room: -1000 to 1000. Default: 0. Returns
 * 1, or 0 on failure, here and below.
 */
QUIRE_API int32_t quire_model_set_priority(quire_model* model, int32_t priority, quire_error** error);

/**
 * After so long without jobs the weights stand by; 0, the default: never. The threads of its caches look
 * after it, so a model without a cache stays.
 */
QUIRE_API int32_t quire_model_set_idle_timeout_ns(quire_model* model, int64_t idle_timeout_ns,
                                                  quire_error** error);

/** One of QUIRE_MODEL_FIGURE_*; -1 on failure. */
QUIRE_API int64_t quire_model_figure(quire_model* model, int32_t figure, quire_error** error);

/* Tokenizer; QUIRE_ERROR_UNSUPPORTED for a model without one. */

/**
 * Text to token ids. add_special: 1 puts before and after it the tokens that the model's own tokenizer puts
 * there. parse_special: 1 reads the text of special tokens in `text` as those tokens, for templates; 0 leaves
 * it ordinary text, for what users wrote. Time is linear in the text. Returns the number of ids (base.h:
 * results), -1 on failure; QUIRE_ERROR_ENCODING where the text is not UTF-8.
 */
QUIRE_API int64_t quire_model_encode(quire_model* model, const char* text, size_t text_len,
                                     int32_t add_special, int32_t parse_special, int32_t* out_tokens,
                                     size_t out_capacity, quire_error** error);

/**
 * Token ids to text. skip_special: 1 leaves special tokens out. Bytes that are no character become U+FFFD, so
 * the text is always UTF-8. Returns its bytes (base.h: results), -1 on failure; QUIRE_ERROR_INVALID_ARGUMENT
 * with the position of an id that is out of range.
 */
QUIRE_API int64_t quire_model_decode(quire_model* model, const int32_t* tokens, size_t num_tokens,
                                     int32_t skip_special, char* out_text, size_t out_capacity,
                                     quire_error** error);

/**
 * The bytes that one token stands for; they may be a part of a character. Returns their number, -1 on
 * failure.
 */
QUIRE_API int64_t quire_model_token_bytes(quire_model* model, int32_t token, uint8_t* out_bytes,
                                          size_t out_capacity, quire_error** error);

/**
 * The token that the tokenizer's file spells `text`, such as "<|im_end|>"; -1 where there is none, and -1
 * with an error on failure.
 */
QUIRE_API int32_t quire_model_find_token(quire_model* model, const char* text, size_t text_len,
                                         quire_error** error);

/** Whether a token is special: 1 or 0; -1 on failure. */
QUIRE_API int32_t quire_model_is_special(quire_model* model, int32_t token, quire_error** error);

/** The id of a QUIRE_TOKEN_*; -1 where the model has none, and -1 with an error on failure. */
QUIRE_API int32_t quire_model_special_token(quire_model* model, int32_t kind, quire_error** error);

/** Every token that ends a text. Returns their number (base.h: results), -1 on failure. */
QUIRE_API int64_t quire_model_eos_tokens(quire_model* model, int32_t* out_tokens, size_t out_capacity,
                                         quire_error** error);

/** How many ids the tokenizer knows: ids are smaller than this; -1 on failure. */
QUIRE_API int32_t quire_model_tokenizer_size(quire_model* model, quire_error** error);

/* Description; QUIRE_ERROR_UNSUPPORTED for a model that is a tokenizer alone. */

/** How many logits the model computes; may exceed quire_model_tokenizer_size. -1 on failure. */
QUIRE_API int32_t quire_model_vocab_size(quire_model* model, quire_error** error);

/** The path that it was loaded from, of several precisions that of the chosen one. Returns its bytes, -1 on
 * failure. */
QUIRE_API int64_t quire_model_path(quire_model* model, char* out_text, size_t out_capacity,
                                   quire_error** error);

/** The name of the architecture as config.json has it. Returns its bytes, -1 on failure. */
QUIRE_API int64_t quire_model_architecture(quire_model* model, char* out_text, size_t out_capacity,
                                           quire_error** error);

/** Layers of the decoder; -1 on failure. */
QUIRE_API int32_t quire_model_num_layers(quire_model* model, quire_error** error);

/** Width of the residual stream; -1 on failure. */
QUIRE_API int32_t quire_model_hidden_size(quire_model* model, quire_error** error);

/** Attention heads of a layer; -1 on failure. */
QUIRE_API int32_t quire_model_num_heads(quire_model* model, quire_error** error);

/** Heads of keys and values of a layer; -1 on failure. */
QUIRE_API int32_t quire_model_num_kv_heads(quire_model* model, quire_error** error);

/** Tokens that the model was made to see at once; -1 on failure. */
QUIRE_API int64_t quire_model_max_context(quire_model* model, quire_error** error);

/** Bits per weight over all matrices of the model, as stored on disk; NaN on failure. */
QUIRE_API double quire_model_bits_per_weight(quire_model* model, quire_error** error);

/**
 * Bytes of all weights: for the full scope those that they take of the devices when they are there, else
 * those on disk. -1 on failure.
 */
QUIRE_API int64_t quire_model_weight_bytes(quire_model* model, quire_error** error);

/** Into how many shards each layer is cut (quire_model_options_set_num_shards); -1 on failure. */
QUIRE_API int32_t quire_model_num_shards(quire_model* model, quire_error** error);

/**
 * Of quire_model_weight_bytes, what a shard takes, shard_idx from 0. -1 on failure;
 * QUIRE_ERROR_UNSUPPORTED for a model whose scope has no weights.
 */
QUIRE_API int64_t quire_model_shard_weight_bytes(quire_model* model, int32_t shard_idx, quire_error** error);

/* Tensors, as the files have them; indices from 0, in an order that does not change. */

/** How many tensors the model has; a quantized matrix is one. -1 on failure. */
QUIRE_API int32_t quire_model_num_tensors(quire_model* model, quire_error** error);

/**
 * The name of a tensor. Returns its bytes, -1 on failure; QUIRE_ERROR_INVALID_ARGUMENT for an index out of
 * range, here and below.
 */
QUIRE_API int64_t quire_model_tensor_name(quire_model* model, int32_t tensor_idx, char* out_text,
                                          size_t out_capacity, quire_error** error);

/** How it is stored: "exl2", "gptq", "fp8", "f16", "bf16", "f32". Returns its bytes, -1 on failure. */
QUIRE_API int64_t quire_model_tensor_format(quire_model* model, int32_t tensor_idx, char* out_text,
                                            size_t out_capacity, quire_error** error);

/**
 * Its shape, outermost first; of a matrix [outputs, inputs]. Returns the number of dimensions, -1 on failure.
 */
QUIRE_API int64_t quire_model_tensor_shape(quire_model* model, int32_t tensor_idx, int64_t* out_sizes,
                                           size_t out_capacity, quire_error** error);

/** Its bytes on disk, scales and orders included; -1 on failure. */
QUIRE_API int64_t quire_model_tensor_bytes(quire_model* model, int32_t tensor_idx, quire_error** error);

/** Its layer, from 0; -1 where it belongs to none, and -1 with an error on failure. */
QUIRE_API int32_t quire_model_tensor_layer(quire_model* model, int32_t tensor_idx, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_MODEL_H */
