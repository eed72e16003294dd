package quire

import (
	"time"

	"quire.dev/quire/internal/native"
)

// KVFormat says how keys and values are stored.
type KVFormat int32

// The formats of the C interface (quire/options.h).
const (
	KVF16 = KVFormat(native.QUIRE_KV_F16)
	KVQ8  = KVFormat(native.QUIRE_KV_Q8)
	KVQ6  = KVFormat(native.QUIRE_KV_Q6)
	KVQ4  = KVFormat(native.QUIRE_KV_Q4)
	KVFP8 = KVFormat(native.QUIRE_KV_FP8)
)

// QuotaKind names what the jobs of one namespace may take of a cache.
type QuotaKind int32

// The quotas of the C interface (quire/options.h).
const (
	QuotaRunningJobs = QuotaKind(native.QUIRE_QUOTA_RUNNING_JOBS)
	QuotaQueuedJobs  = QuotaKind(native.QUIRE_QUOTA_QUEUED_JOBS)
	QuotaPages       = QuotaKind(native.QUIRE_QUOTA_PAGES)
	QuotaPinnedPages = QuotaKind(native.QUIRE_QUOTA_PINNED_PAGES)
)

// NamespaceOptions are what one namespace has of its own.
type NamespaceOptions struct {
	Quotas map[QuotaKind]int // in place of those of all namespaces; 0 is no limit
	Weight float64           // share where several have jobs that wait: twice the weight, twice the tokens; 0 is 1
}

// CacheOptions are the settings of a Cache; the zero value takes every default.
type CacheOptions struct {
	Name           string   // in metrics and lines of the log; empty is a number
	MaxTokens      int64    // tokens that all jobs together can hold; 0 is room for one job of full length
	PageTokens     int      // tokens of a page; 0 is 256
	MaxBatchSize   int      // jobs that run at the same time; 0 is 64
	MaxChunkTokens int      // tokens of one step; 0 is 512
	MaxSeqLen      int64    // tokens of one job, prompt and generated ones; 0 is what the model was made for
	MaxQueue       int      // jobs that may wait; 0 is 1024
	KVFormat       KVFormat // the zero value is KVF16

	Quotas         map[QuotaKind]int           // of every namespace that has none of its own; 0 is no limit
	Namespaces     map[string]NamespaceOptions // by name
	MaxPinnedPages int                         // pages that all pins together keep; 0 is a quarter of the cache

	MaxOvertakes int           // how often later jobs pass one that lacks room; 0 is 16, negative is never
	Ageing       time.Duration // waiting that is worth one priority; 0 is ten seconds, negative is never
	StepTimeout  time.Duration // of a step, beyond which the device counts as lost; 0 is never
	CloseTimeout time.Duration // that Shutdown waits for a device that hangs; 0 is two seconds, negative is not at all
}

func (o *CacheOptions) native() (*handle[native.CacheOptionsHandle], error) {
	return filled(native.Quire_cache_options_create, native.Quire_cache_options_free, o.fill)
}

func (o *CacheOptions) fill(s *settings[native.CacheOptionsHandle]) {
	s.text(native.Quire_cache_options_set_name, o.Name)
	s.int64(native.Quire_cache_options_set_max_tokens, o.MaxTokens)
	s.int(native.Quire_cache_options_set_page_tokens, o.PageTokens)
	s.int(native.Quire_cache_options_set_max_batch_size, o.MaxBatchSize)
	s.int(native.Quire_cache_options_set_max_chunk_tokens, o.MaxChunkTokens)
	s.int64(native.Quire_cache_options_set_max_seq_len, o.MaxSeqLen)
	s.int(native.Quire_cache_options_set_max_queue, o.MaxQueue)
	s.int(native.Quire_cache_options_set_kv_format, int(o.KVFormat))
	for quota, limit := range o.Quotas {
		s.apply(func(options native.CacheOptionsHandle, e *native.ErrorHandle) int32 {
			return native.Quire_cache_options_set_quota(options, int32(quota), narrow(limit), e)
		})
	}
	for name := range o.Namespaces {
		fillNamespace(s, name, o.Namespaces[name])
	}
	s.int(native.Quire_cache_options_set_max_pinned_pages, o.MaxPinnedPages)
	setOrNone(s, func(options native.CacheOptionsHandle, value int64, e *native.ErrorHandle) int32 {
		return native.Quire_cache_options_set_max_overtakes(options, narrow(int(value)), e)
	}, int64(o.MaxOvertakes))
	setOrNone(s, native.Quire_cache_options_set_ageing_ns, int64(o.Ageing))
	s.int64(native.Quire_cache_options_set_step_timeout_ns, int64(o.StepTimeout))
	setOrNone(s, native.Quire_cache_options_set_close_timeout_ns, int64(o.CloseTimeout))
}

func fillNamespace(s *settings[native.CacheOptionsHandle], name string, options NamespaceOptions) {
	for quota, limit := range options.Quotas {
		s.apply(func(cache native.CacheOptionsHandle, e *native.ErrorHandle) int32 {
			return native.Quire_cache_options_set_namespace_quota(cache, name, int32(quota), narrow(limit), e)
		})
	}
	s.float(func(cache native.CacheOptionsHandle, weight float64, e *native.ErrorHandle) int32 {
		return native.Quire_cache_options_set_namespace_weight(cache, name, weight, e)
	}, options.Weight)
}

// setOrNone leaves 0 at the default, which is not 0, and makes 0 of what is negative.
func setOrNone(s *settings[native.CacheOptionsHandle],
	setter func(native.CacheOptionsHandle, int64, *native.ErrorHandle) int32, value int64) {
	if value < 0 {
		s.apply(func(options native.CacheOptionsHandle, e *native.ErrorHandle) int32 { return setter(options, 0, e) })
		return
	}
	s.int64(setter, value)
}
