/*
 * A queue: one stream of the events of many jobs, with a file descriptor for event loops. A service waits
 * in one place for all its jobs and distinguishes them by quire_event_user_data.
 *
 * The events of a job go to the queue that its request names (quire_job_request_set_queue). The events of
 * one job stay in order; jobs alternate. quire_job_poll may also take some of them; each event is delivered
 * once. The queue keeps no job alive: freeing a job discards its events that were not taken.
 *
 * Any number of threads may wait in one queue at the same time; each event is delivered to exactly one of
 * them. The events of a step arrive together, so one drain returns those of all jobs of the step. The queue
 * also receives log lines after quire_queue_set_log_level, and page events after quire_cache_follow_pages.
 */
#ifndef QUIRE_QUEUE_H
#define QUIRE_QUEUE_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Creates an empty queue for jobs of caches of this runtime. The caller owns it. Returns NULL on failure.
 */
QUIRE_API quire_queue* quire_queue_create(quire_runtime* runtime, quire_error** error);

/**
 * Waits for the next event and takes it (base.h, Waits). Returns 1 and writes the event to *out_event; the
 * caller owns it (quire_event_free). Otherwise *out_event is NULL and one of QUIRE_WAIT_* is returned.
 * QUIRE_WAIT_END means that the queue is closed, perhaps during this call, and empty.
 */
QUIRE_API int32_t quire_queue_poll(quire_queue* queue, int64_t timeout_ns, quire_cancel* cancel,
                                   quire_event** out_event, quire_error** error);

/**
 * Waits for an event and takes up to max_events (1 or more) available events, in the order of
 * quire_queue_poll. Writes them to out_events, [max_events]; the caller owns each (quire_event_free).
 * Returns their number, otherwise one of QUIRE_WAIT_* like quire_queue_poll.
 */
QUIRE_API int64_t quire_queue_drain(quire_queue* queue, int64_t timeout_ns, quire_cancel* cancel,
                                    quire_event** out_events, size_t max_events, quire_error** error);

/**
 * Reports which jobs have events, without taking any. Use it if many threads or tasks each read one job and
 * one thread waits for all of them. Waits (base.h) for the first job only. Writes up to max_ids (1 to 4096)
 * job ids (quire_job_id) to out_ids. A job is reported once, and again after it got further events. Take
 * the events of a reported job with quire_job_drain and a timeout of 0. Returns the number of ids,
 * otherwise one of QUIRE_WAIT_* like quire_queue_poll.
 */
QUIRE_API int64_t quire_queue_ready(quire_queue* queue, int64_t timeout_ns, quire_cancel* cancel,
                                    int64_t* out_ids, size_t max_ids, quire_error** error);

/**
 * Subscribes the queue to the log of the runtime, up to this QUIRE_LOG_*, as QUIRE_EVENT_LOG events.
 * QUIRE_LOG_OFF, the default, ends the subscription. At most 1024 lines that were not taken are kept
 * (quire_event_lost_lines). Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_queue_set_log_level(quire_queue* queue, int32_t level, quire_error** error);

/**
 * Returns a file descriptor that polls as readable (level-triggered: poll, select, epoll) while an event is
 * waiting or the queue is closed, or -1 on failure. Take events with quire_queue_drain and a timeout of 0.
 * The descriptor belongs to the queue and is closed with it: do not read, write or close it. Fails with
 * QUIRE_ERROR_UNSUPPORTED on a system without such descriptors: wait in a thread there.
 */
QUIRE_API int32_t quire_queue_fd(quire_queue* queue, quire_error** error);

/**
 * Closes the queue and wakes every waiting thread. Waiting events can still be taken. Later events stay
 * with their jobs, which continue. May be called again. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_queue_close(quire_queue* queue, quire_error** error);

/** Closes the queue and frees the handle. Never waits. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_queue_free(quire_queue* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_QUEUE_H */
