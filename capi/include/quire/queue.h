/*
 * A queue: one waitable stream of the events of many jobs, with a file descriptor for event loops. A service
 * waits in one place for all its jobs and tells them apart by quire_event_user_data.
 *
 * The events of a job come here when its request names the queue (quire_job_request_set_queue): in order,
 * jobs taking turns. quire_job_poll may still take some; each event is given once. The queue keeps no job
 * alive: what a freed job left untaken is gone. Any number of threads may wait in one queue at the same time;
 * each event is given to exactly one of them.
 */
#ifndef QUIRE_QUEUE_H
#define QUIRE_QUEUE_H

#include <quire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Makes an empty queue for jobs of caches of this runtime. The caller owns it. NULL on failure. */
QUIRE_API quire_queue* quire_queue_create(quire_runtime* runtime, quire_error** error);

/**
 * Takes the next event, waiting up to timeout_ns for one. The caller owns the event (quire_event_free). NULL
 * with *error NULL: the timeout passed. NULL with QUIRE_ERROR_CLOSED: the queue is closed, perhaps while this
 * call waited, and nothing is left in it.
 */
QUIRE_API quire_event* quire_queue_wait(quire_queue* queue, int64_t timeout_ns, quire_error** error);

/**
 * Takes up to max_events events at once, 1 or more, waiting up to timeout_ns for the first and not for the
 * others: in the order in which quire_queue_wait would give them. They go to out_events, [max_events]; the
 * caller owns each (quire_event_free). Returns how many there are; 0: the timeout passed. -1 on failure, and
 * then no event is taken: as quire_queue_wait.
 */
QUIRE_API int64_t quire_queue_drain(quire_queue* queue, int64_t timeout_ns, quire_event** out_events,
                                    size_t max_events, quire_error** error);

/**
 * A file descriptor that polls as readable (level-triggered: poll, select, epoll) as long as an event is
 * waiting or the queue is closed. Take events with quire_queue_drain and a timeout of 0. It belongs to the
 * queue and is closed with it: do not read, write or close it. -1 on failure.
 */
QUIRE_API int32_t quire_queue_fd(quire_queue* queue, quire_error** error);

/**
 * Closes the queue and wakes every waiting thread. Events that wait can still be taken; later ones stay with
 * their jobs, which run on. May be called again. Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_queue_close(quire_queue* queue, quire_error** error);

/** Closes the queue and frees the handle; never waits. NULL does nothing. Returns 1, or 0 on failure. */
QUIRE_API int32_t quire_queue_free(quire_queue* handle, quire_error** error);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_QUEUE_H */
