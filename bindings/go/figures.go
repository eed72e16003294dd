package quire

import (
	"runtime"

	"quire.dev/quire/internal/native"
)

// figures reads getters of a native object, until one fails.
type figures[H ~uintptr] struct {
	source H
	err    error
}

func get[H ~uintptr, T any](f *figures[H], getter func(H, *native.ErrorHandle) T) T {
	var none T
	if f.err != nil {
		return none
	}
	value, err := call(func(e *native.ErrorHandle) T { return getter(f.source, e) })
	f.err = err
	return value
}

func getText[H ~uintptr](f *figures[H], getter func(H, []byte, *native.ErrorHandle) int64) string {
	return string(getAll(f, getter))
}

func getAll[H ~uintptr, E any](f *figures[H], getter func(H, []E, *native.ErrorHandle) int64) []E {
	if f.err != nil {
		return nil
	}
	values, err := measured(func(out []E, e *native.ErrorHandle) int64 { return getter(f.source, out, e) })
	f.err = err
	return values
}

// numbered and indexed bind the index of a getter.
func numbered[H ~uintptr, T any](getter func(H, int32, *native.ErrorHandle) T,
	idx int32) func(H, *native.ErrorHandle) T {
	return func(source H, e *native.ErrorHandle) T { return getter(source, idx, e) }
}

func indexed[H ~uintptr, E any](getter func(H, int32, []E, *native.ErrorHandle) int64,
	idx int32) func(H, []E, *native.ErrorHandle) int64 {
	return func(source H, out []E, e *native.ErrorHandle) int64 { return getter(source, idx, out, e) }
}

// read calls a function with the figures of an owned object.
func read[H ~uintptr](owner *handle[H], function func(f *figures[H])) error {
	defer runtime.KeepAlive(owner)
	f := figures[H]{source: owner.get()}
	if f.source == 0 {
		return errClosed
	}
	function(&f)
	return f.err
}

func failureOf(f *figures[native.EventHandle]) error {
	return &Error{Code: Code(get(f, native.Quire_event_error_code)), Message: get(f, native.Quire_event_error_message),
		Parameter: get(f, native.Quire_event_error_parameter)}
}
