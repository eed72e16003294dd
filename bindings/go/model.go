package quire

import (
	"context"

	"quire.dev/quire/internal/native"
)

// LoadModel loads a model directory with every default.
func (r *Runtime) LoadModel(path string) (*Model, error) {
	return r.LoadModelContext(context.Background(), path, ModelOptions{})
}

// LoadModelContext loads a model directory. A done context ends the load and frees everything it has allocated.
func (r *Runtime) LoadModelContext(ctx context.Context, path string, options ModelOptions) (*Model, error) {
	owned, err := options.native(path)
	if err != nil {
		return nil, err
	}
	defer owned.close()
	loaded, err := cancellable(ctx, func(cancel native.CancelHandle) (native.ModelHandle, error) {
		return withProgress(options.Progress, owned.get(), func() (native.ModelHandle, error) {
			return with(r.handle, func(runtime native.RuntimeHandle, e *native.ErrorHandle) native.ModelHandle {
				return native.Quire_model_load(runtime, owned.get(), forever, cancel, e)
			})
		})
	})
	if err != nil {
		return nil, err
	}
	return &Model{own(loaded, native.Quire_model_free), r.dispatcher}, nil
}
