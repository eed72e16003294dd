/*
 * The runtime: devices, memory budget and log sink of all models made from it. There is no global state: two
 * runtimes in one process do not know each other.
 *
 * Any number of threads may use one runtime at the same time.
 */
#ifndef QUIRE_RUNTIME_H
#define QUIRE_RUNTIME_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Makes a runtime. `options` are copied; NULL takes every default. The caller owns the result. NULL on
 * failure: QUIRE_ERROR_NOT_FOUND where the device does not exist, QUIRE_ERROR_UNSUPPORTED with the reason
 * where it cannot be used.
 */
QUIRE_API quire_runtime* quire_runtime_create(quire_runtime_options* options, quire_error** error);

/**
 * Gives the handle back. Models made from it stay usable and keep what they need alive; the log sink is not
 * called any more once this returns, and for that it waits for a call of the sink in progress. Its last line,
 * a warning, tells how many models, caches, jobs and queues made from the runtime are not freed yet: where
 * nobody is going to, they are leaks. NULL does nothing. Returns 1, or 0 on failure; QUIRE_ERROR_REENTRANT
 * inside a callback.
 */
QUIRE_API int32_t quire_runtime_free(quire_runtime* handle, quire_error** error);

/**
 * How many devices the runtime knows, those that cannot be used included. They are numbered from 0 in an
 * order that does not change; device 0 is the CPU. -1 on failure.
 */
QUIRE_API int32_t quire_runtime_num_devices(quire_runtime* runtime, quire_error** error);

/**
 * The name by which options choose a device: "cpu", "cuda:0". Returns its bytes (base.h: results), -1 on
 * failure; QUIRE_ERROR_INVALID_ARGUMENT for an index out of range, here and below.
 */
QUIRE_API int64_t quire_runtime_device_name(quire_runtime* runtime, int32_t device_idx, char* out_text,
                                            size_t out_capacity, quire_error** error);

/**
 * What the device is, for a person: model, instruction sets or compute capability. Returns its bytes, -1 on
 * failure.
 */
QUIRE_API int64_t quire_runtime_device_description(quire_runtime* runtime, int32_t device_idx, char* out_text,
                                                   size_t out_capacity, quire_error** error);

/**
 * Why the device cannot be used, in one line: a missing library, driver or instruction set. Empty (0 bytes)
 * where it can. Returns its bytes, -1 on failure.
 */
QUIRE_API int64_t quire_runtime_device_refusal(quire_runtime* runtime, int32_t device_idx, char* out_text,
                                               size_t out_capacity, quire_error** error);

/** Memory of the device in bytes; 0 where it cannot be used; -1 on failure. */
QUIRE_API int64_t quire_runtime_device_memory_bytes(quire_runtime* runtime, int32_t device_idx,
                                                    quire_error** error);

/** Memory of the device that is free at this moment, in bytes; 0 where it cannot be used; -1 on failure. */
QUIRE_API int64_t quire_runtime_device_free_bytes(quire_runtime* runtime, int32_t device_idx,
                                                  quire_error** error);

/**
 * Changes quire_runtime_options_set_memory_budget of a runtime in use; what is taken beyond it already stays.
 * Returns 1, or 0 on failure; QUIRE_ERROR_NOT_FOUND for a name that is neither a device nor "pinned".
 */
QUIRE_API int32_t quire_runtime_set_memory_budget(quire_runtime* runtime, const char* text, size_t text_len,
                                                  int64_t bytes, quire_error** error);

/**
 * The metrics of all live caches of the runtime as one page in the Prometheus text format, each family once;
 * the label "cache" is the name of each (quire_cache_options_set_name), else its number in the runtime. With
 * them where the weights of each model are, how often and for how long they moved, and who holds the bytes.
 * Returns its bytes, which grow with time: pass room to spare. -1 on failure.
 */
QUIRE_API int64_t quire_runtime_metrics(quire_runtime* runtime, char* out_text, size_t out_capacity,
                                        quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_RUNTIME_H */
