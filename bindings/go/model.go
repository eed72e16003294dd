package quire

import (
	"context"

	"quire.dev/quire/internal/native"
)

// LoadModel loads a model directory with every default.
func (r *Runtime) LoadModel(path string) (*Model, error) {
	return r.LoadModelContext(context.Background(), path, ModelOptions{})
}

// LoadModelContext loads a model directory. The context ends the load, which leaves nothing behind then.
func (r *Runtime) LoadModelContext(ctx context.Context, path string, options ModelOptions) (*Model, error) {
	owned, err := options.of(path)
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

// of makes the native settings for the model of a directory.
func (o *ModelOptions) of(path string) (*handle[native.ModelOptionsHandle], error) {
	return filled(native.Quire_model_options_create, native.Quire_model_options_free,
		func(s *settings[native.ModelOptionsHandle]) {
			s.apply(func(options native.ModelOptionsHandle, e *native.ErrorHandle) int32 {
				return native.Quire_model_options_set_path(options, path, e)
			})
			o.fill(s)
		})
}

// Plan tells what a model directory and a cache will take, before a weight is read. It fails as a load does, and
// with OutOfMemory where an automatic split does not go.
func (r *Runtime) Plan(path string, model ModelOptions, cache CacheOptions) (*Plan, error) {
	modelOptions, err := model.of(path)
	if err != nil {
		return nil, err
	}
	defer modelOptions.close()
	cacheOptions, err := cache.native()
	if err != nil {
		return nil, err
	}
	defer cacheOptions.close()
	made, err := with(r.handle, func(runtime native.RuntimeHandle, e *native.ErrorHandle) native.PlanHandle {
		return native.Quire_plan_create(runtime, modelOptions.get(), cacheOptions.get(), e)
	})
	if err != nil {
		return nil, err
	}
	plan, err := takePlan(made)
	return &plan, err
}
