package quire

import (
	"context"
	"errors"

	"quire.dev/quire/internal/native"
)

// cancellable makes a native call that waits, and ends it when the context is done.
func cancellable[T any](ctx context.Context, function func(cancel native.CancelHandle) (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	return cancelledBy(ctx, function)
}

// waited makes a native call that waits for an action. The action starts even if the context is done, and
// continues after the context has ended the wait.
func waited(ctx context.Context, function func(cancel native.CancelHandle) (int32, error)) error {
	result, err := cancelledBy(ctx, function)
	if err == nil && result != 1 {
		return ctx.Err()
	}
	return err
}

func cancelledBy[T any](ctx context.Context, function func(cancel native.CancelHandle) (T, error)) (T, error) {
	if ctx.Done() == nil {
		return function(0)
	}
	created, err := call(native.Quire_cancel_create)
	if err != nil {
		var none T
		return none, err
	}
	owned := own(created, native.Quire_cancel_free)
	defer owned.close()
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ctx.Done():
			_, _ = with(owned, native.Quire_cancel_trigger)
		case <-over:
		}
	}()
	defer func() { // also runs if the progress function of the call panics
		close(over)
		<-watched
	}()
	result, err := function(owned.get())
	if errors.Is(err, CodeCancelled) && ctx.Err() != nil {
		err = ctx.Err()
	}
	return result, err
}
