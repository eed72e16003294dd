/*
 * A switch that ends the wait of a call: a load, a score, a wait for events or for an end.
 *
 * It is triggered once and stays triggered. Any number of threads and of calls may share one; a call that
 * uses it keeps it alive. A call given a triggered one fails at once.
 */
#ifndef QUIRE_CANCEL_H
#define QUIRE_CANCEL_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a switch that is off. The caller owns it. NULL on failure. */
QUIRE_API quire_cancel* quire_cancel_create(quire_error** error);

/**
 * Switches it on: calls that use it end soon with QUIRE_ERROR_CANCELLED and leave nothing. Does not
 * wait for them. May be called again. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_cancel_trigger(quire_cancel* cancel, quire_error** error);

/** Whether it was triggered: 1 or 0; -1 on failure. */
QUIRE_API int32_t quire_cancel_is_triggered(quire_cancel* cancel, quire_error** error);

/** Frees the handle without triggering it. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_cancel_free(quire_cancel* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_CANCEL_H */
