/*
 * Functions for the benchmarks of this project, for comparisons with other programs and for the command
 * `quire stage`, without any promise of stability. They may be added, changed or removed in any release, and
 * have a symbol version node of their own. No binding contains them, and quire.h does not include this
 * header.
 */
#ifndef QUIRE_EXPERIMENTAL_H
#define QUIRE_EXPERIMENTAL_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Measures how many bytes per second the device reads from a buffer of `working_set_bytes` (1 or more),
 * over and over, with all threads of the runtime. This rate limits a decode step, which reads its weights
 * once. A buffer as large as those weights (quire_model_step_bytes) lies in the same processor caches as
 * they do. The measurement takes some tenths of a second and, for that time, the buffer: at most 512 MiB,
 * which exceeds every processor cache. Other work on the device lowers the result. Returns -1 on failure.
 * Fails with QUIRE_ERROR_UNSUPPORTED for a device that cannot be measured or used, and with
 * QUIRE_ERROR_OUT_OF_MEMORY if the buffer cannot be allocated.
 */
QUIRE_API int64_t quire_runtime_measure_read_rate(quire_runtime* runtime, int32_t device_idx,
                                                  int64_t working_set_bytes, quire_error** error);

/**
 * Measures how many multiplications and additions per second the device does in the inner loop of products
 * with quantized weights, with operands in registers or the nearest cache. This rate limits a step with
 * many tokens. Otherwise like quire_runtime_measure_read_rate, without a buffer.
 */
QUIRE_API int64_t quire_runtime_measure_op_rate(quire_runtime* runtime, int32_t device_idx,
                                                quire_error** error);

/*
 * Minimum cost of a step, to compare with the measured rates of the device. These functions fail with
 * QUIRE_ERROR_UNSUPPORTED if the weights were not loaded. Attention is not included; its cost grows with
 * the context.
 */

/**
 * Returns the bytes of weights that a step of num_tokens tokens (1 or more) reads once, or -1 on failure.
 * This is everything but the embedding table. For MoE layers it counts the average number of distinct
 * experts that the tokens choose, with each token choosing independently and all experts equally likely.
 */
QUIRE_API int64_t quire_model_step_bytes(quire_model* model, int32_t num_tokens, quire_error** error);

/**
 * Returns the multiplications and additions in the matrices of the layers for one token, or -1 on failure.
 */
QUIRE_API int64_t quire_model_token_ops(quire_model* model, quire_error** error);

/**
 * Returns the multiplications and additions in the output matrix for the logits of one token, or -1 on
 * failure. Every decoded token and the last token of a prompt need them.
 */
QUIRE_API int64_t quire_model_logit_ops(quire_model* model, quire_error** error);

/*
 * Logits of the draft network that was loaded with a model (quire_model_options_set_drafter), to compare it
 * with other programs. These functions fail with QUIRE_ERROR_UNSUPPORTED if the model has no draft network,
 * or if only its tokenizer or metadata was loaded.
 */

/**
 * Returns the number of columns of the draft network's logits, or -1 on failure. It may be smaller than
 * quire_model_vocab_size: some networks have a vocabulary of their own.
 */
QUIRE_API int32_t quire_model_drafter_vocab_size(quire_model* model, quire_error** error);

/**
 * Computes the raw logits of the draft network for a text and writes them to out_values: [rows, columns]
 * floats, with columns = quire_model_drafter_vocab_size. A network that reads hidden states of its target
 * (MTP heads, EAGLE-3) has num_tokens - 1 rows: row i reads the state of token i and the id of token i + 1,
 * and predicts token i + 2. A draft model has num_tokens rows: row i predicts token i + 1.
 *
 * Model and network compute on the calling thread, in a cache of their own that counts for no memory budget
 * and goes when the call returns. Other threads may use the model meanwhile. If its weights are not
 * resident, they are loaded; they stay at least until the call returns.
 *
 * Waits (base.h) for the weights and the result, and looks at timeout and cancel before each 64 rows.
 * Returns the number of values, rows * columns, or -1 on failure. A query of the size (base.h, Results)
 * computes nothing. Fails with QUIRE_ERROR_INVALID_ARGUMENT for fewer than two tokens, for more than the
 * context of the model or the network, and for an id that either of them lacks.
 */
QUIRE_API int64_t quire_model_drafter_logits(quire_model* model, const int32_t* tokens, size_t num_tokens,
                                             int64_t timeout_ns, quire_cancel* cancel, float* out_values,
                                             size_t out_capacity, quire_error** error);

/*
 * The role of a stage, for the command `quire stage`.
 */

/**
 * Serves other hosts: this process becomes a stage at the address `listen` ("0.0.0.0:7430", "[::1]:7430";
 * port 0 takes a free one), and has layers of their models on default devices of the runtime. num_shards
 * is the number of shards of each layer (tensor parallelism), 1 to 64. One shard is on the first default
 * device. Several shards are all on that device if it is the only one; otherwise there must be one default
 * device for each shard. Hosts need the key of quire_runtime_options_set_stage_key_file. They find models
 * below the directory `models`; with an empty text only synthetic ones. All hosts together take at most
 * memory_bytes of the devices; 0 means what these have free. The address is logged (QUIRE_LOG_INFO) once it
 * is listened at.
 *
 * Serves until the timeout or the cancel (base.h: waits), which fail with QUIRE_ERROR_TIMEOUT and
 * QUIRE_ERROR_CANCELLED: it returns 0 always. Then all connections are ended and what hosts had is freed.
 * Fails with QUIRE_ERROR_INVALID_ARGUMENT without a key file, for a malformed address or for another number
 * of shards or devices, with QUIRE_ERROR_UNSUPPORTED if a device has no shards, and with QUIRE_ERROR_IO if
 * the address cannot be listened at.
 */
QUIRE_API int32_t quire_runtime_serve_stage(quire_runtime* runtime, const char* listen, size_t listen_len,
                                            const char* models, size_t models_len, int32_t num_shards,
                                            int64_t memory_bytes, int64_t timeout_ns, quire_cancel* cancel,
                                            quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_EXPERIMENTAL_H */
