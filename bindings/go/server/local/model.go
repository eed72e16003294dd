package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"quire.dev/quire"
	"quire.dev/quire/server"
	"quire.dev/quire/server/internal/hubcache"
)

// model is a resident model. Safe for concurrent use.
type model struct {
	engine      *Engine
	name        string
	model       *quire.Model
	cache       *quire.Cache
	template    *quire.ChatTemplate // nil if the model has none
	dialect     string              // format of its reasoning and calls
	reasons     bool                // it may produce reasoning
	writesTools bool                // the template puts tools into the prompt
	recommends  bool                // its authors recommend sampling settings
	network     string              // draft network that was loaded with it; "" if none
	info        server.ModelInfo

	held atomic.Int64 // generations that wait for the tokens of their keys

	measuring   sync.Once // of the longest token
	longest     int
	weightBytes int64 // of the resident weights

	// Protected by the mutex of the engine.
	users   int       // requests that have opened it
	used    time.Time // time when the last of them ended
	leaving bool      // free it once it has no users
}

// load loads a model and creates its cache and its chat template.
func load(ctx context.Context, e *Engine, name string, config server.ModelConfig) (*model, error) {
	options, cacheOptions, err := loadOptions(name, config)
	if err != nil {
		return nil, err
	}
	if config.Path, err = hubcache.Resolve(config.Path); err != nil {
		return nil, err
	}
	m := &model{engine: e, name: name, used: time.Now()}
	if m.model, err = e.runtime.LoadModelContext(ctx, config.Path, options); err != nil {
		return nil, err
	}
	config.Path, err = m.model.Path() // of several precisions, the chosen one
	if err == nil {
		err = m.prepare(config, cacheOptions)
	}
	if err != nil {
		m.free()
		return nil, err
	}
	return m, nil
}

func (m *model) prepare(config server.ModelConfig, options quire.CacheOptions) error {
	var err error
	if m.template, err = chatTemplate(m.model, config); err != nil {
		return err
	}
	if err = m.chooseDialect(config); err != nil {
		return err
	}
	m.writesTools = m.template != nil && m.templateWritesTools(config)
	if m.recommends, err = m.model.RecommendsSampling(); err != nil {
		return err
	}
	if m.cache, err = m.model.NewCache(options); err != nil {
		return err
	}
	return m.describe(config, options)
}

var kvFormats = map[string]quire.KVFormat{"": quire.KVF16, "f16": quire.KVF16, "q8": quire.KVQ8, "q6": quire.KVQ6,
	"q4": quire.KVQ4, "fp8": quire.KVFP8, "auto": quire.KVAuto}

// loadOptions returns the settings of a model and of its cache.
func loadOptions(name string, config server.ModelConfig) (quire.ModelOptions, quire.CacheOptions, error) {
	cache, err := cacheOptions(name, config)
	if err != nil {
		return quire.ModelOptions{}, cache, err
	}
	network, err := draftNetwork(config.Drafter)
	return quire.ModelOptions{Device: strings.Join(config.Devices, ","), NumShards: config.Shards, HostExperts: config.HostExperts, PlannedCache: &cache,
		Drafter: network}, cache, err
}

func cacheOptions(name string, config server.ModelConfig) (quire.CacheOptions, error) {
	format, known := kvFormats[config.KvFormat]
	if !known {
		return quire.CacheOptions{}, fmt.Errorf("kv_format must be f16, q8, q6, q4, fp8 or auto, not %q", config.KvFormat)
	}
	return quire.CacheOptions{Name: name, Drafter: drafterKind(config.Drafter), MaxDrafts: config.MaxDrafts, MaxTokens: int64(config.CacheTokens), MinTokens: int64(config.MinCacheTokens), MaxBatchSize: config.MaxJobs,
		MaxSeqLen: int64(config.ContextTokens), KVFormat: format, CardExpertBytes: config.CardExpertBytes, PrefixBytes: config.PrefixBytes,
		PrefixDirectory: config.PrefixDirectory, PrefixDirectoryBytes: config.PrefixDirectoryBytes}, nil
}

// chatTemplate returns the template of the configuration, otherwise the model's own, otherwise nil.
func chatTemplate(m *quire.Model, config server.ModelConfig) (*quire.ChatTemplate, error) {
	if config.ChatTemplate == "" {
		template, err := quire.OpenChatTemplate(config.Path)
		if errors.Is(err, quire.CodeNotFound) {
			return nil, nil
		}
		return template, err
	}
	source, err := os.ReadFile(config.ChatTemplate)
	if err != nil {
		return nil, err
	}
	template, err := quire.NewChatTemplate(string(source))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", config.ChatTemplate, err)
	}
	for _, kind := range []quire.TokenKind{quire.TokenBOS, quire.TokenEOS, quire.TokenPad, quire.TokenUnk} {
		token, err := m.SpecialToken(kind)
		if err != nil || token < 0 {
			continue
		}
		text, err := m.Decode([]int32{token}, false)
		if err == nil {
			err = template.SetToken(kind, text)
		}
		if err != nil {
			return nil, err
		}
	}
	return template, nil
}

func (m *model) describe(config server.ModelConfig, options quire.CacheOptions) error {
	context, err := m.cache.MaxSeqLen()
	if err != nil {
		return err
	}
	vocabulary, err := m.cache.VocabSize()
	m.info = server.ModelInfo{ContextTokens: int(context), VocabSize: vocabulary, HasTemplate: m.template != nil,
		Calls: m.dialect != plainDialect, Reasons: m.reasons, MaxJobs: options.MaxBatchSize}
	if m.info.MaxJobs == 0 {
		m.info.MaxJobs = defaultMaxJobs
	}
	if m.template != nil {
		m.info.Template = templateSource(config)
	}
	loaded, err := m.model.Info()
	m.weightBytes, m.network = loaded.WeightBytes, loaded.Drafter
	m.info.BOS, m.info.EOS = specialText(m.model, quire.TokenBOS), specialText(m.model, quire.TokenEOS)
	return err
}

// Default of the library's CacheOptions.MaxBatchSize.
const defaultMaxJobs = 64

// specialText returns the text of a special token; "" if the model has none.
func specialText(m *quire.Model, kind quire.TokenKind) string {
	token, err := m.SpecialToken(kind)
	if err != nil || token < 0 {
		return ""
	}
	text, err := m.Decode([]int32{token}, false)
	if err != nil {
		return ""
	}
	return text
}

// free frees the objects of the model.
func (m *model) free() {
	if m.cache != nil {
		_ = m.cache.Close()
	}
	if m.template != nil {
		_ = m.template.Close()
	}
	_ = m.model.Close()
}

// Close returns the model to the engine; call it once for each Open.
func (m *model) Close() { m.engine.release(m) }

// Info returns the description of the model.
func (m *model) Info() server.ModelInfo { return m.info }

// LongestToken returns the number of bytes of the longest token. The first call looks at all tokens.
func (m *model) LongestToken() (int, error) {
	m.measuring.Do(func() {
		for token := 0; token < m.info.VocabSize; token++ {
			// An id without a token has no text.
			if bytes, err := m.model.TokenBytes(int32(token)); err == nil && len(bytes) > m.longest {
				m.longest = len(bytes)
			}
		}
	})
	if m.longest == 0 {
		return 0, fmt.Errorf("the vocabulary of the model %q is empty; check its tokenizer files", m.name)
	}
	return m.longest, nil
}

// Tokenize returns the tokens of a text; the text of special tokens stays text.
func (m *model) Tokenize(text string, addSpecial bool) ([]int32, error) {
	tokens, err := m.model.Encode(text, addSpecial, false)
	return tokens, refusal("prompt", err)
}

// Detokenize returns the text of tokens, including special ones.
func (m *model) Detokenize(tokens []int32) (string, error) {
	text, err := m.model.Decode(tokens, false)
	return text, refusal("tokens", err)
}
