package quire

import "quire.dev/quire/internal/native"

// HistogramKind names what is counted by size.
type HistogramKind int32

// The histograms of the C interface (quire/stats.h); times are in nanoseconds.
const (
	HistogramTimeQueued        = HistogramKind(native.QUIRE_HISTOGRAM_TIME_QUEUED)
	HistogramTimeToFirstToken  = HistogramKind(native.QUIRE_HISTOGRAM_TIME_TO_FIRST_TOKEN)
	HistogramTimeBetweenTokens = HistogramKind(native.QUIRE_HISTOGRAM_TIME_BETWEEN_TOKENS)
	HistogramCachedShare       = HistogramKind(native.QUIRE_HISTOGRAM_CACHED_SHARE)
	HistogramBatchFill         = HistogramKind(native.QUIRE_HISTOGRAM_BATCH_FILL)
	HistogramStepSequences     = HistogramKind(native.QUIRE_HISTOGRAM_STEP_SEQUENCES)
	HistogramStepTokens        = HistogramKind(native.QUIRE_HISTOGRAM_STEP_TOKENS)
)

// Histogram tells the sizes of what was counted. A quantile is at most twice too high.
type Histogram struct {
	Count         int64
	Sum           float64
	P50, P90, P99 float64
}

// Stats are the figures of a cache at one moment, consistent with each other.
type Stats struct {
	PageTokens                                           int64
	PagesTotal, PagesFree, PagesCached, PagesReferenced  int64
	PagesPinned                                          int64 // of those referenced
	PagesEvicted, PagesDeduplicated                      int64
	JobsQueued, JobsRunning, JobsSubmitted, JobsFinished int64
	JobsFailed, JobsCancelled                            int64 // of those finished
	Preemptions, Steps                                   int64
	PromptTokens, CachedTokens, NewTokens                int64
	DraftTokens, AcceptedDraftTokens                     int64
	DeviceBytes                                          int64
	Histograms                                           map[HistogramKind]Histogram
	Namespaces                                           map[string]Stats // of each of the first 64; nil in one of these
}

// Stats are the figures of this moment, those of each namespace included.
func (c *Cache) Stats() (Stats, error) {
	taken, err := with(c.handle, native.Quire_cache_stats)
	if err != nil {
		return Stats{}, err
	}
	return readStats(taken)
}

// readStats copies a snapshot and frees it.
func readStats(taken native.StatsHandle) (Stats, error) {
	defer native.Quire_stats_free(taken, nil)
	f := &figures[native.StatsHandle]{source: taken}
	stats := Stats{
		PageTokens:          get(f, native.Quire_stats_page_tokens),
		PagesTotal:          get(f, native.Quire_stats_pages_total),
		PagesFree:           get(f, native.Quire_stats_pages_free),
		PagesCached:         get(f, native.Quire_stats_pages_cached),
		PagesReferenced:     get(f, native.Quire_stats_pages_referenced),
		PagesPinned:         get(f, native.Quire_stats_pages_pinned),
		PagesEvicted:        get(f, native.Quire_stats_pages_evicted),
		PagesDeduplicated:   get(f, native.Quire_stats_pages_deduplicated),
		JobsQueued:          get(f, native.Quire_stats_jobs_queued),
		JobsRunning:         get(f, native.Quire_stats_jobs_running),
		JobsSubmitted:       get(f, native.Quire_stats_jobs_submitted),
		JobsFinished:        get(f, native.Quire_stats_jobs_finished),
		JobsFailed:          get(f, native.Quire_stats_jobs_failed),
		JobsCancelled:       get(f, native.Quire_stats_jobs_cancelled),
		Preemptions:         get(f, native.Quire_stats_preemptions),
		Steps:               get(f, native.Quire_stats_steps),
		PromptTokens:        get(f, native.Quire_stats_prompt_tokens),
		CachedTokens:        get(f, native.Quire_stats_cached_tokens),
		NewTokens:           get(f, native.Quire_stats_new_tokens),
		DraftTokens:         get(f, native.Quire_stats_draft_tokens),
		AcceptedDraftTokens: get(f, native.Quire_stats_accepted_draft_tokens),
		DeviceBytes:         get(f, native.Quire_stats_device_bytes),
		Histograms:          map[HistogramKind]Histogram{},
	}
	for kind := HistogramTimeQueued; kind <= HistogramStepTokens; kind++ {
		stats.Histograms[kind] = readHistogram(f, int32(kind))
	}
	return stats, stats.readNamespaces(f)
}

func readHistogram(f *figures[native.StatsHandle], kind int32) Histogram {
	quantile := func(q float64) float64 {
		return get(f, func(stats native.StatsHandle, e *native.ErrorHandle) float64 {
			return native.Quire_stats_histogram_quantile(stats, kind, q, e)
		})
	}
	return Histogram{
		Count: get(f, numbered(native.Quire_stats_histogram_count, kind)),
		Sum:   get(f, numbered(native.Quire_stats_histogram_sum, kind)),
		P50:   quantile(0.5),
		P90:   quantile(0.9),
		P99:   quantile(0.99),
	}
}

func (s *Stats) readNamespaces(f *figures[native.StatsHandle]) error {
	n := get(f, native.Quire_stats_num_namespaces)
	for i := int32(0); i < int32(n) && f.err == nil; i++ {
		name := getText(f, indexed(native.Quire_stats_namespace_name, i))
		taken := get(f, numbered(native.Quire_stats_namespace, i))
		if f.err != nil {
			break
		}
		if s.Namespaces == nil {
			s.Namespaces = map[string]Stats{}
		}
		s.Namespaces[name], f.err = readStats(taken)
	}
	return f.err
}
