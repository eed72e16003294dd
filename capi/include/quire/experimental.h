/*
 * What exists for benchmarks of this project: promised nothing. Functions here come, change and go with any
 * release, and have a symbol node of their own. No binding has them; quire.h does not include them.
 */
#ifndef QUIRE_EXPERIMENTAL_H
#define QUIRE_EXPERIMENTAL_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Measures how many bytes per second the device reads from a buffer of `working_set_bytes` (1 or more), over
 * and over, with all threads of the runtime: the limit of a decoding step, which reads its weights once. A
 * buffer as large as they are (quire_model_step_bytes) lies in the same caches. Takes some tenths of a second
 * and, for that time, the buffer: at most 512 MiB, enough to lie in no cache. Work in progress makes the
 * result smaller. -1 on failure; QUIRE_ERROR_UNSUPPORTED for a device that cannot be measured or used,
 * QUIRE_ERROR_OUT_OF_MEMORY where there is no such buffer.
 */
QUIRE_API int64_t quire_runtime_measure_read_rate(quire_runtime* runtime, int32_t device_idx,
                                                  int64_t working_set_bytes, quire_error** error);

/**
 * Measures how many multiplications and additions per second the device does of the kind that products with
 * quantized weights are made of, with operands at hand: the limit of a step with many tokens. Otherwise as
 * above, without a buffer.
 */
QUIRE_API int64_t quire_runtime_measure_op_rate(quire_runtime* runtime, int32_t device_idx,
                                                quire_error** error);

/*
 * What a step costs at least, for a ratio to what the device does at best: QUIRE_ERROR_UNSUPPORTED where the
 * weights were not loaded. Attention comes on top and grows with the context.
 */

/**
 * Bytes of weights that a step of so many tokens, 1 or more, reads once: all but the embedding table. Of
 * experts as many as are chosen on average where each token chooses by itself, any as likely. -1 on failure.
 */
QUIRE_API int64_t quire_model_step_bytes(quire_model* model, int32_t num_tokens, quire_error** error);

/** Multiplications and additions in the matrices of the layers for one token. -1 on failure. */
QUIRE_API int64_t quire_model_token_ops(quire_model* model, quire_error** error);

/**
 * Multiplications and additions in the last matrix for the logits of one token: every decoded token, the last
 * one of a prompt. -1 on failure.
 */
QUIRE_API int64_t quire_model_logit_ops(quire_model* model, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_EXPERIMENTAL_H */
