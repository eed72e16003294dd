package quire

import (
	"context"

	"quire.dev/quire/internal/native"
)

// NewAlias makes an alias without a cache; messages and lines of the log call it by the name. As long as it is open the
// dispatcher of the runtime waits for its jobs, those to come included.
func (r *Runtime) NewAlias(name string) (*Alias, error) {
	if _, err := r.dispatcher.acquire(func() (native.QueueHandle, error) { return with(r.handle, native.Quire_queue_create) }); err != nil {
		return nil, err
	}
	created, err := with(r.handle, func(runtime native.RuntimeHandle, e *native.ErrorHandle) native.AliasHandle {
		return native.Quire_alias_create(runtime, name, e)
	})
	if err != nil {
		r.dispatcher.release()
		return nil, err
	}
	d := r.dispatcher
	return &Alias{own(created, func(alias native.AliasHandle, e *native.ErrorHandle) int32 {
		d.release()
		return native.Quire_alias_free(alias, e)
	}), d}, nil
}

// Submit hands a request to the cache behind the alias, else to the first of its fallbacks that takes it.
func (a *Alias) Submit(request Request) (*Job, error) {
	return a.SubmitContext(context.Background(), request)
}

// SubmitContext does the same; once the context is done the job is cancelled.
func (a *Alias) SubmitContext(ctx context.Context, request Request) (*Job, error) {
	noQueue := func() (native.QueueHandle, error) { return 0, errClosed }
	return a.dispatcher.job(ctx, &request, noQueue, submitting(a.handle, native.Quire_alias_submit))
}
