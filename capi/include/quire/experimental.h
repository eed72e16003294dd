/*
 * Functions for the benchmarks of this project, without any promise of stability. They may be added,
 * changed or removed in any release, and have a symbol version node of their own. No binding contains them,
 * and quire.h does not include this header.
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

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_EXPERIMENTAL_H */
