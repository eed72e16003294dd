/*
 * The runtime: devices, memory budget and log sink of all models created from it. There is no global state:
 * two runtimes in one process are independent.
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
 * Creates a runtime. `options` are copied; NULL takes every default. The caller owns the result. Returns
 * NULL on failure. Fails with QUIRE_ERROR_NOT_FOUND if the device does not exist, and with
 * QUIRE_ERROR_UNSUPPORTED and the reason if it cannot be used.
 */
QUIRE_API quire_runtime* quire_runtime_create(quire_runtime_options* options, quire_error** error);

/**
 * Frees the handle. Models created from the runtime stay usable and keep its internal state alive. The log
 * sink is not called after this returns; the function waits for a sink call in progress. The last log line,
 * a warning, counts the models, caches, jobs and queues of the runtime that are not freed yet; any that stay
 * so are leaks. NULL does nothing. Returns 1, or 0 on failure. Fails with QUIRE_ERROR_REENTRANT inside a
 * callback.
 */
QUIRE_API int32_t quire_runtime_free(quire_runtime* handle, quire_error** error);

/**
 * Returns the number of devices, including those that cannot be used, or -1 on failure. Devices are
 * numbered from 0 in an order that does not change; device 0 is the CPU, and the stages of other hosts come
 * last. The functions below connect to a stage that was not used before, or was lost; they then wait for it,
 * at most two seconds and the time to look its name up.
 */
QUIRE_API int32_t quire_runtime_num_devices(quire_runtime* runtime, quire_error** error);

/**
 * Writes the name of a device, as options use it, to out_text: "cpu", "cuda:0", "tcp://10.0.0.2:7430".
 * Returns its length in bytes (base.h, Results), or -1 on failure. This function and those below fail with
 * QUIRE_ERROR_INVALID_ARGUMENT if the index is out of range.
 */
QUIRE_API int64_t quire_runtime_device_name(quire_runtime* runtime, int32_t device_idx, char* out_text,
                                            size_t out_capacity, quire_error** error);

/**
 * Writes a description of the device for a person to out_text: model, instruction sets or compute
 * capability. Returns its length in bytes, or -1 on failure.
 */
QUIRE_API int64_t quire_runtime_device_description(quire_runtime* runtime, int32_t device_idx, char* out_text,
                                                   size_t out_capacity, quire_error** error);

/**
 * Writes the reason why the device cannot be used to out_text, in one line: a missing library, driver or
 * instruction set, or a stage that does not answer. The text is empty (0 bytes) if the device can be used.
 * Returns its length in bytes, or -1 on failure.
 */
QUIRE_API int64_t quire_runtime_device_refusal(quire_runtime* runtime, int32_t device_idx, char* out_text,
                                               size_t out_capacity, quire_error** error);

/** Returns the memory of the device in bytes, or -1 on failure. Returns 0 if the device cannot be used. */
QUIRE_API int64_t quire_runtime_device_memory_bytes(quire_runtime* runtime, int32_t device_idx,
                                                    quire_error** error);

/**
 * Returns the memory of the device that is free now, in bytes, or -1 on failure. Returns 0 if the device
 * cannot be used.
 */
QUIRE_API int64_t quire_runtime_device_free_bytes(quire_runtime* runtime, int32_t device_idx,
                                                  quire_error** error);

/**
 * Changes quire_runtime_options_set_memory_budget of a runtime in use. Memory already taken beyond the new
 * budget stays. Returns 1, or 0 on failure. Fails with QUIRE_ERROR_NOT_FOUND for a name that is neither a
 * device nor "pinned".
 */
QUIRE_API int32_t quire_runtime_set_memory_budget(quire_runtime* runtime, const char* text, size_t text_len,
                                                  int64_t bytes, quire_error** error);

/**
 * Writes the metrics of all live caches of the runtime to out_text, as one page in the Prometheus text
 * format with each metric family once. The label "cache" is the name of the cache
 * (quire_cache_options_set_name), or its number in the runtime if it has no name. The page also reports
 * where the weights of each model are, how often and for how long they moved, and which objects hold how
 * many bytes. Returns its length in bytes, or -1 on failure. The length grows with time: pass a larger
 * buffer than the queried size.
 */
QUIRE_API int64_t quire_runtime_metrics(quire_runtime* runtime, char* out_text, size_t out_capacity,
                                        quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_RUNTIME_H */
