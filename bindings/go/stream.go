//go:build go1.23

package quire

import (
	"context"
	"io"
	"iter"
)

// Stream submits a request and yields the events of its job, and its failure last. The job is cancelled when
// the context is done or the loop ends early.
func (c *Cache) Stream(ctx context.Context, request Request) iter.Seq2[Event, error] {
	return stream(ctx, request, c.SubmitContext)
}

// Stream does the same with the cache of the alias.
func (a *Alias) Stream(ctx context.Context, request Request) iter.Seq2[Event, error] {
	return stream(ctx, request, a.SubmitContext)
}

func stream(ctx context.Context, request Request,
	submit func(context.Context, Request) (*Job, error)) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		job, err := submit(ctx, request)
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
