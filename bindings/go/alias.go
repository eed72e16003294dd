package quire

import "quire.dev/quire/internal/native"

// NewAlias creates an alias without a cache; messages and log lines use its name. The dispatcher of the
// runtime waits for its current and later jobs until the alias is closed.
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
