package quire

import (
	"context"

	"quire.dev/quire/internal/native"
)

// ModelScope says how much of a model is loaded.
type ModelScope int32

// The scopes of the C interface (quire/options.h).
const (
	ScopeFull      = ModelScope(native.QUIRE_MODEL_SCOPE_FULL)
	ScopeTokenizer = ModelScope(native.QUIRE_MODEL_SCOPE_TOKENIZER) // Encode and Decode work, nothing else
	ScopeMetadata  = ModelScope(native.QUIRE_MODEL_SCOPE_METADATA)  // all but the weights: no caches
)

// ModelOptions are the settings of a Model; the zero value takes every default.
type ModelOptions struct {
	Device       string        // "cuda:0", or several that share the layers: "cpu,cuda:0"; empty is the runtime's
	Split        string        // layers of each device, "20,12", or bytes of each at most, "24G,512M"; empty is by free memory
	Reserve      string        // memory that is left alone on all devices, "512M", or on each, "512M,2G"; empty is 256M
	PlannedCache *CacheOptions // the cache that the load leaves room for
	Scope        ModelScope    // the zero value is ScopeFull

	// Progress is called as a load goes on, by the goroutine that loads and the last time with doneBytes ==
	// totalBytes, in bytes of the files. In it, calls that wait, load, create or close fail with Reentrant.
	Progress func(doneBytes, totalBytes int64)
}

func (o *ModelOptions) native(path string) (*handle[native.ModelOptionsHandle], error) {
	return filled(native.Quire_model_options_create, native.Quire_model_options_free,
		func(s *settings[native.ModelOptionsHandle]) { o.fill(s, path) })
}

func (o *ModelOptions) fill(s *settings[native.ModelOptionsHandle], path string) {
	s.apply(func(options native.ModelOptionsHandle, e *native.ErrorHandle) int32 {
		return native.Quire_model_options_set_path(options, path, e)
	})
	s.text(native.Quire_model_options_set_device, o.Device)
	s.text(native.Quire_model_options_set_split, o.Split)
	s.text(native.Quire_model_options_set_reserve, o.Reserve)
	s.int(native.Quire_model_options_set_scope, int(o.Scope))
	if o.PlannedCache == nil || s.err != nil {
		return
	}
	cache, err := o.PlannedCache.native()
	if err != nil {
		s.err = err
		return
	}
	defer cache.close()
	share(s, native.Quire_model_options_set_planned_cache, cache)
}

// Model is a loaded model with its tokenizer.
type Model struct {
	handle     *handle[native.ModelHandle]
	dispatcher *dispatcher
}

// LoadModel loads a model directory with every default.
func (r *Runtime) LoadModel(path string) (*Model, error) {
	return r.LoadModelContext(context.Background(), path, ModelOptions{})
}

// LoadModelContext loads a model directory. The context ends the load, which leaves nothing behind then.
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

// TokenBytes are the bytes that one token stands for; they may be a part of a character.
func (m *Model) TokenBytes(token int32) ([]byte, error) {
	return measuredWith(m.handle, indexed(native.Quire_model_token_bytes, token))
}

// FindToken is the token that the tokenizer's file spells text, such as "<|im_end|>"; -1 where there is none.
func (m *Model) FindToken(text string) (int32, error) {
	return with(m.handle, func(model native.ModelHandle, e *native.ErrorHandle) int32 {
		return native.Quire_model_find_token(model, text, e)
	})
}

// IsSpecial tells whether a token is special.
func (m *Model) IsSpecial(token int32) (bool, error) {
	answer, err := with(m.handle, numbered(native.Quire_model_is_special, token))
	return answer == 1, err
}

// TokenKind names a token with a meaning of its own.
type TokenKind int32

// The kinds of the C interface (quire/model.h).
const (
	TokenBOS = TokenKind(native.QUIRE_TOKEN_BOS)
	TokenEOS = TokenKind(native.QUIRE_TOKEN_EOS) // the first one where there are several, see EOSTokens
	TokenPad = TokenKind(native.QUIRE_TOKEN_PAD)
	TokenUnk = TokenKind(native.QUIRE_TOKEN_UNK)
)

// SpecialToken is the token of a kind; -1 where the model has none.
func (m *Model) SpecialToken(kind TokenKind) (int32, error) {
	return with(m.handle, numbered(native.Quire_model_special_token, int32(kind)))
}

// EOSTokens are all tokens that end a text.
func (m *Model) EOSTokens() ([]int32, error) {
	return measuredWith(m.handle, native.Quire_model_eos_tokens)
}

// TokenizerSize is how many ids the tokenizer knows.
func (m *Model) TokenizerSize() (int, error) {
	size, err := with(m.handle, native.Quire_model_tokenizer_size)
	return int(size), err
}
