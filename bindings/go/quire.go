// Package quire runs large language models inside the process: load a Model with a Runtime, make a Cache for
// it, Submit a Request, and take the events of the Job.
//
// Every type may be used from many goroutines at once, and objects may be closed in any order, also while
// calls on them are under way. What is forgotten is freed with the garbage.
package quire

import "quire.dev/quire/internal/native"

// RuntimeOptions are the settings of a Runtime; the zero value takes every default.
type RuntimeOptions struct {
	NumThreads int    // threads that compute; 0 is one per core
	Device     string // "cpu", "cuda:0"; empty is the CPU
}

// Runtime holds the devices that models are loaded on.
type Runtime struct{ handle *handle[native.RuntimeHandle] }

// NewRuntime makes a runtime; it fails with Version where the library does not fit this package.
func NewRuntime(options RuntimeOptions) (*Runtime, error) {
	settings, err := call(native.Quire_runtime_options_create)
	if err != nil {
		return nil, err
	}
	owned := own(settings, native.Quire_runtime_options_free)
	defer owned.close()
	err = firstError(
		func(e *native.ErrorHandle) int32 {
			return native.Quire_abi_check(native.QUIRE_ABI_MAJOR, native.QUIRE_ABI_MINOR, e)
		},
		func(e *native.ErrorHandle) int32 {
			return native.Quire_runtime_options_set_num_threads(owned.get(), int32(options.NumThreads), e)
		},
		func(e *native.ErrorHandle) int32 {
			if options.Device == "" {
				return 1
			}
			return native.Quire_runtime_options_set_device(owned.get(), options.Device, e)
		})
	if err != nil {
		return nil, err
	}
	created, err := with(owned, native.Quire_runtime_create)
	if err != nil {
		return nil, err
	}
	return &Runtime{own(created, native.Quire_runtime_free)}, nil
}

// Close frees the runtime; models made with it stay usable.
func (r *Runtime) Close() error { return r.handle.close() }

// Model is a loaded model with its tokenizer.
type Model struct{ handle *handle[native.ModelHandle] }

// LoadModel loads a model directory.
func (r *Runtime) LoadModel(path string) (*Model, error) {
	settings, err := call(native.Quire_model_options_create)
	if err != nil {
		return nil, err
	}
	owned := own(settings, native.Quire_model_options_free)
	defer owned.close()
	if err := firstError(func(e *native.ErrorHandle) int32 {
		return native.Quire_model_options_set_path(owned.get(), path, e)
	}); err != nil {
		return nil, err
	}
	loaded, err := with(r.handle, func(runtime native.RuntimeHandle, e *native.ErrorHandle) native.ModelHandle {
		return native.Quire_model_load(runtime, owned.get(), e)
	})
	if err != nil {
		return nil, err
	}
	return &Model{own(loaded, native.Quire_model_free)}, nil
}

// Close frees the model; caches made for it stay usable.
func (m *Model) Close() error { return m.handle.close() }

// Encode turns text into token ids. parseSpecial reads the text of special tokens as those tokens: for
// templates, never for what users wrote.
func (m *Model) Encode(text string, addSpecial, parseSpecial bool) ([]int32, error) {
	return measuredWith(m.handle, func(model native.ModelHandle, out []int32, e *native.ErrorHandle) int64 {
		return native.Quire_model_encode(model, text, asInt(addSpecial), asInt(parseSpecial), out, e)
	})
}

// Decode turns token ids into text.
func (m *Model) Decode(tokens []int32, skipSpecial bool) (string, error) {
	text, err := measuredWith(m.handle, func(model native.ModelHandle, out []byte, e *native.ErrorHandle) int64 {
		return native.Quire_model_decode(model, tokens, asInt(skipSpecial), out, e)
	})
	return string(text), err
}

// CacheOptions are the settings of a Cache; the zero value takes every default.
type CacheOptions struct {
	MaxTokens int64 // tokens that all jobs together can hold; 0 is room for one job of full length
}

// Cache is the key/value cache of a model with the scheduler that batches its jobs.
type Cache struct{ handle *handle[native.CacheHandle] }

// NewCache takes the memory and starts the scheduler.
func (m *Model) NewCache(options CacheOptions) (*Cache, error) {
	settings, err := call(native.Quire_cache_options_create)
	if err != nil {
		return nil, err
	}
	owned := own(settings, native.Quire_cache_options_free)
	defer owned.close()
	if err := firstError(func(e *native.ErrorHandle) int32 {
		return native.Quire_cache_options_set_max_tokens(owned.get(), options.MaxTokens, e)
	}); err != nil {
		return nil, err
	}
	created, err := with(m.handle, func(model native.ModelHandle, e *native.ErrorHandle) native.CacheHandle {
		return native.Quire_cache_create(model, owned.get(), e)
	})
	if err != nil {
		return nil, err
	}
	return &Cache{own(created, native.Quire_cache_free)}, nil
}

// Close frees the cache; its jobs run on.
func (c *Cache) Close() error { return c.handle.close() }
