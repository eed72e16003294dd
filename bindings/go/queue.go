package quire

import (
	"context"

	"quire.dev/quire/internal/native"
)

// Next takes the next event. The failure of a job is in Event.Err; the error of Next is that of the queue:
// CodeClosed once it is shut down and empty. The wait ends when the context is done.
func (q *Queue) Next(ctx context.Context) (Event, error) {
	events, err := q.Drain(ctx, 1)
	if err != nil {
		return Event{}, err
	}
	return events[0], nil
}

// Maximum number of events that one call of Drain takes.
const maxDrained = 1024

// Drain waits for an event and takes up to maxEvents events that are there, otherwise like Next. An empty
// result always comes with an error.
func (q *Queue) Drain(ctx context.Context, maxEvents int) ([]Event, error) {
	var taken []native.EventHandle
	if maxEvents > maxDrained {
		maxEvents = maxDrained
	}
	if maxEvents > 0 {
		taken = make([]native.EventHandle, maxEvents)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n, err := cancellable(ctx, func(cancel native.CancelHandle) (int64, error) {
		return with(q.handle, func(queue native.QueueHandle, e *native.ErrorHandle) int64 {
			return native.Quire_queue_drain(queue, forever, cancel, taken, e)
		})
	})
	switch {
	case err != nil:
		return nil, err
	case n == waitEnd:
		return nil, closed("the queue was shut down")
	case n <= 0:
		return nil, ctx.Err()
	}
	return readEvents(taken[:n])
}

// readEvents copies events and frees all of them.
func readEvents(taken []native.EventHandle) ([]Event, error) {
	events := make([]Event, len(taken))
	var first error
	for i, handle := range taken {
		event, err := takeEvent(handle)
		events[i], first = event, firstOf(first, err)
	}
	return events, first
}
