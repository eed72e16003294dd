//go:build go1.23

package quire

import (
	"context"
	"io"
	"iter"
)

// Stream submits a request and yields the events of its job, its failure last. The job is cancelled with the
// context, and where the loop is left.
func (c *Cache) Stream(ctx context.Context, request Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		job, err := c.SubmitContext(ctx, request)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer job.Close()
		for {
			event, err := job.Next(ctx)
			if err == io.EOF || !yield(event, err) || err != nil {
				return
			}
		}
	}
}
