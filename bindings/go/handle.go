package quire

import (
	"runtime"
	"sync/atomic"

	"quire.dev/quire/internal/native"
)

// handle owns a native object. The library checks every handle, so a call that races with close fails
// cleanly. This type only ensures that the object is freed once, and also if it is never closed.
type handle[H ~uintptr] struct {
	value uintptr
	free  func(H, *native.ErrorHandle) int32
}

// own takes ownership of a new native object.
func own[H ~uintptr](value H, free func(H, *native.ErrorHandle) int32) *handle[H] {
	owned := &handle[H]{uintptr(value), free}
	runtime.SetFinalizer(owned, func(forgotten *handle[H]) { _ = forgotten.close() })
	return owned
}

var errClosed = closed("the object was closed by its Close method")

// get returns 0 once the handle is closed. The caller must keep the handle reachable until its call has
// returned.
func (h *handle[H]) get() H { return H(atomic.LoadUintptr(&h.value)) }

func (h *handle[H]) close() error {
	value := atomic.SwapUintptr(&h.value, 0)
	if value == 0 {
		return nil
	}
	runtime.SetFinalizer(h, nil)
	_, err := call(func(failure *native.ErrorHandle) int32 { return h.free(H(value), failure) })
	return err
}

// with makes a call on an owned object, which is kept alive until the call has returned.
func with[H ~uintptr, T any](owner *handle[H], function func(value H, failure *native.ErrorHandle) T) (T, error) {
	defer runtime.KeepAlive(owner)
	value := owner.get()
	if value == 0 {
		var none T
		return none, errClosed
	}
	return call(func(failure *native.ErrorHandle) T { return function(value, failure) })
}

// measuredWith does the same as measured, on an owned object.
func measuredWith[H ~uintptr, E any](owner *handle[H],
	function func(value H, out []E, failure *native.ErrorHandle) int64) ([]E, error) {
	defer runtime.KeepAlive(owner)
	value := owner.get()
	if value == 0 {
		return nil, errClosed
	}
	return measured(func(out []E, failure *native.ErrorHandle) int64 { return function(value, out, failure) })
}

func asInt(value bool) int32 {
	if value {
		return 1
	}
	return 0
}
