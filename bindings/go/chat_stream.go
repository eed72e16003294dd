//go:build go1.23

package quire

import (
	"context"
	"iter"
)

// Stream submits a conversation and yields the events of its job, and its failure last. The job is cancelled
// when the context is done or the loop ends early.
func (e *ChatEngine) Stream(ctx context.Context, conversation Conversation, request Request) iter.Seq2[Event, error] {
	return stream(ctx, request, func(ctx context.Context, request Request) (*Job, error) {
		return e.Submit(ctx, conversation, request)
	})
}
