package quire

import "quire.dev/quire/internal/native"

// withProgress reports the progress of a load to a function. If the function panics, it is not called again,
// and the panic continues after the load, since it cannot pass through the library.
func withProgress(progress func(doneBytes, totalBytes int64), options native.ModelOptionsHandle,
	load func() (native.ModelHandle, error)) (native.ModelHandle, error) {
	if progress == nil {
		return load()
	}
	var panicked any
	told := native.Tell(func(doneBytes, totalBytes int64) {
		if panicked == nil {
			defer func() { panicked = recover() }()
			progress(doneBytes, totalBytes)
		}
	})
	defer native.Forget(told)
	if _, err := call(func(e *native.ErrorHandle) int32 {
		return native.Quire_model_options_set_progress(options, told, e)
	}); err != nil {
		return 0, err
	}
	loaded, err := load()
	if panicked != nil {
		native.Quire_model_free(loaded, nil)
		panic(panicked)
	}
	return loaded, err
}
