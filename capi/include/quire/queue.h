/*
 * A queue: one waitable stream of the events of many jobs, with a file descriptor for event loops. A service
 * waits in one place for all its jobs and tells them apart by quire_event_user_data.
 *
 * The events of a job come here when its request names the queue (quire_job_request_set_queue): in order,
 * jobs taking turns. quire_job_poll may still take some; each event is given once. The queue keeps no job
 * alive: what a freed job left untaken is gone. Any number of threads may wait in one queue at the same time;
 * each event is given to exactly one of them. The events of a step come together: one drain has those of all
 * jobs that took part. Lines of the log come here too where quire_queue_set_log_level asks for them, and what
 * becomes of the pages of a cache where quire_cache_follow_pages does.
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
 * Waits for the next event and takes it (base.h: waits). 1: *out_event has it, and the caller owns it
 * (quire_event_free). QUIRE_WAIT_END: the queue is closed, perhaps while this call waited, and nothing is
 * left in it. *out_event is NULL where none was taken.
 */
QUIRE_API int32_t quire_queue_poll(quire_queue* queue, int64_t timeout_ns, quire_cancel* cancel,
                                   quire_event** out_event, quire_error** error);

/**
 * Takes up to max_events events at once, 1 or more, waiting for the first and not for the others: in the
 * order in which quire_queue_poll would give them. They go to out_events, [max_events]; the caller owns each
 * (quire_event_free). Returns how many there are, else as quire_queue_poll.
 */
QUIRE_API int64_t quire_queue_drain(quire_queue* queue, int64_t timeout_ns, quire_cancel* cancel,
                                    quire_event** out_events, size_t max_events, quire_error** error);

/**
 * Tells which jobs have events, and takes none: for programs in which many threads or tasks each read one job
 * and one thread is to wait for all of them. Each job is told once, and once more after it got further
 * events; whoever is told takes them with quire_job_drain and a timeout of 0. Waits (base.h) for the first
 * job and not for the others. Writes up to max_ids ids of jobs (quire_job_id) to out_ids, 1 to 4096. Returns
 * how many there are, else as quire_queue_poll.
 */
QUIRE_API int64_t quire_queue_ready(quire_queue* queue, int64_t timeout_ns, quire_cancel* cancel,
                                    int64_t* out_ids, size_t max_ids, quire_error** error);

/**
 * From now on the log of the runtime comes to the queue too, lines up to this QUIRE_LOG_*, as
 * QUIRE_EVENT_LOG; QUIRE_LOG_OFF, the default, ends that. 1024 lines that nobody took are kept at most
 * (quire_event_lost_lines). Returns 1, or 0 on failure.
 */
QUIRE_API int32_t quire_queue_set_log_level(quire_queue* queue, int32_t level, quire_error** error);

/**
 * Where the system has such: a file descriptor that polls as readable (level-triggered: poll, select, epoll)
 * as long as an event is waiting or the queue is closed. Take events with quire_queue_drain and a timeout of
 * 0. It belongs to the queue and is closed with it: do not read, write or close it. -1 on failure;
 * QUIRE_ERROR_UNSUPPORTED on a system without: wait in a thread there.
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
