/*
 * A switch that ends a waiting call: a load, a score, a wait for events or for an end.
 *
 * It is triggered once and stays triggered. Any number of threads and calls may share one switch. A call
 * that uses it keeps it alive. A call that is given a triggered switch fails at once.
 */
#ifndef QUIRE_CANCEL_H
#define QUIRE_CANCEL_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Creates a switch that is not triggered. The caller owns it. Returns NULL on failure. */
QUIRE_API quire_cancel* quire_cancel_create(quire_error** error);

/**
 * Triggers the switch: calls that use it end soon with QUIRE_ERROR_CANCELLED and leave no partial result.
 * Does not wait for them. May be called again. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_cancel_trigger(quire_cancel* cancel, quire_error** error);

/** Returns 1 if the switch was triggered, otherwise 0, or -1 on failure. */
QUIRE_API int32_t quire_cancel_is_triggered(quire_cancel* cancel, quire_error** error);

/** Frees the handle without triggering it. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_cancel_free(quire_cancel* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_CANCEL_H */
