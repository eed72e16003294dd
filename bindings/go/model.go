package quire

import (
	"context"
	"errors"

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

// RecommendsSampling reports whether the authors of the model recommend sampling settings. If they do not, a
// request with SamplingOfModel is refused.
func (m *Model) RecommendsSampling() (bool, error) {
	request := Request{SamplingOfModel: m}
	filled, err := request.native()
	switch {
	case err == nil:
		return true, filled.close()
	case errors.Is(err, CodeNotFound):
		return false, nil
	}
	return false, err
}
