package quire

import (
	"context"

	"quire.dev/quire/internal/native"
)

// Queue is one stream of the events of many jobs, those whose Request names it: a service waits in one place and
// tells its jobs apart by Event.UserData or Event.JobID. It keeps no job alive.
type Queue struct{ handle *handle[native.QueueHandle] }

// NewQueue makes an empty queue for jobs of caches of this runtime.
func (r *Runtime) NewQueue() (*Queue, error) {
	created, err := with(r.handle, native.Quire_queue_create)
	if err != nil {
		return nil, err
	}
	return &Queue{own(created, native.Quire_queue_free)}, nil
}

// Next takes the next event. The failure of a job is its Event.Err; the error of Next is the queue's own: Closed
// once it is shut down and empty. The context ends the wait.
func (q *Queue) Next(ctx context.Context) (Event, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Event{}, err
		}
		taken, err := with(q.handle, func(queue native.QueueHandle, e *native.ErrorHandle) native.EventHandle {
			return native.Quire_queue_wait(queue, int64(waitSlice), e)
		})
		if err != nil {
			return Event{}, err
		}
		if taken != 0 {
			return readEvent(taken)
		}
	}
}

// The most that one call of Drain takes.
const maxDrained = 1024

// Drain takes up to maxEvents events in one call, waiting for the first and not for the others; otherwise as
// Next. An empty result never comes without an error.
func (q *Queue) Drain(ctx context.Context, maxEvents int) ([]Event, error) {
	var taken []native.EventHandle
	if maxEvents > maxDrained {
		maxEvents = maxDrained
	}
	if maxEvents > 0 {
		taken = make([]native.EventHandle, maxEvents)
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := with(q.handle, func(queue native.QueueHandle, e *native.ErrorHandle) int64 {
			return native.Quire_queue_drain(queue, int64(waitSlice), taken, e)
		})
		if err != nil {
			return nil, err
		}
		if n > 0 {
			return readEvents(taken[:n])
		}
	}
}

// readEvents copies events and frees all of them.
func readEvents(taken []native.EventHandle) ([]Event, error) {
	events := make([]Event, len(taken))
	var first error
	for i, handle := range taken {
		event, err := readEvent(handle)
		events[i], first = event, firstOf(first, err)
	}
	return events, first
}

// Shutdown wakes all that wait. Events that are in the queue can still be taken; later ones stay with their jobs,
// which run on.
func (q *Queue) Shutdown() error {
	_, err := with(q.handle, native.Quire_queue_close)
	return err
}

// Close shuts the queue down and frees it. It never waits.
func (q *Queue) Close() error { return q.handle.close() }
