using System;
using System.Collections.Generic;
using Quire.Native;

namespace Quire
{
    /// <summary>What is counted by size; the numbers of the C interface (quire/stats.h). Times are in
    /// nanoseconds.</summary>
    public enum HistogramKind
    {
        TimeQueued = QuireNative.QUIRE_HISTOGRAM_TIME_QUEUED,
        TimeToFirstToken = QuireNative.QUIRE_HISTOGRAM_TIME_TO_FIRST_TOKEN,
        TimeBetweenTokens = QuireNative.QUIRE_HISTOGRAM_TIME_BETWEEN_TOKENS,
        CachedShare = QuireNative.QUIRE_HISTOGRAM_CACHED_SHARE,
        BatchFill = QuireNative.QUIRE_HISTOGRAM_BATCH_FILL,
        StepSequences = QuireNative.QUIRE_HISTOGRAM_STEP_SEQUENCES,
        StepTokens = QuireNative.QUIRE_HISTOGRAM_STEP_TOKENS,
    }

    /// <summary>The sizes of what was counted. A quantile is at most twice too high.</summary>
    public sealed class Histogram
    {
        public long Count { get; private set; }
        public double Sum { get; private set; }
        public double P50 { get; private set; }
        public double P90 { get; private set; }
        public double P99 { get; private set; }

        internal Histogram(IntPtr stats, int kind)
        {
            Count = Call.Get((out IntPtr e) => QuireNative.quire_stats_histogram_count(stats, kind, out e));
            Sum = Call.Get((out IntPtr e) => QuireNative.quire_stats_histogram_sum(stats, kind, out e));
            P50 = Quantile(stats, kind, 0.5);
            P90 = Quantile(stats, kind, 0.9);
            P99 = Quantile(stats, kind, 0.99);
        }

        private static double Quantile(IntPtr stats, int kind, double quantile)
        {
            return Call.Get((out IntPtr e) =>
                QuireNative.quire_stats_histogram_quantile(stats, kind, quantile, out e));
        }
    }

    /// <summary>The figures of a cache at one moment, consistent with each other.</summary>
    public sealed unsafe class Stats
    {
        public long PageTokens { get; private set; }
        public long PagesTotal { get; private set; }
        public long PagesFree { get; private set; }
        public long PagesCached { get; private set; }
        public long PagesReferenced { get; private set; }

        /// <summary>Of those referenced.</summary>
        public long PagesPinned { get; private set; }

        public long PagesEvicted { get; private set; }
        public long PagesDeduplicated { get; private set; }
        public long JobsQueued { get; private set; }
        public long JobsRunning { get; private set; }
        public long JobsSubmitted { get; private set; }
        public long JobsFinished { get; private set; }

        /// <summary>Of those finished, as the next.</summary>
        public long JobsFailed { get; private set; }

        public long JobsCancelled { get; private set; }
        public long Preemptions { get; private set; }
        public long Steps { get; private set; }
        public long PromptTokens { get; private set; }
        public long CachedTokens { get; private set; }
        public long NewTokens { get; private set; }
        public long DraftTokens { get; private set; }
        public long AcceptedDraftTokens { get; private set; }
        public long DeviceBytes { get; private set; }
        public IDictionary<HistogramKind, Histogram> Histograms { get; private set; }

        /// <summary>The figures of each of the first 64 by name; empty in one of these.</summary>
        public IDictionary<string, Stats> Namespaces { get; private set; }

        /// <summary>Copies a native snapshot and frees it.</summary>
        internal static Stats Take(IntPtr taken)
        {
            try
            {
                return new Stats(taken);
            }
            finally
            {
                IntPtr error;
                QuireNative.quire_stats_free(taken, out error);
                if (error != IntPtr.Zero) QuireNative.quire_error_free(error);
            }
        }

        private Stats(IntPtr stats)
        {
            ReadPages(stats);
            ReadJobs(stats);
            Histograms = new Dictionary<HistogramKind, Histogram>();
            foreach (HistogramKind kind in Enum.GetValues(typeof(HistogramKind)))
                Histograms[kind] = new Histogram(stats, (int)kind);
            Namespaces = new Dictionary<string, Stats>();
            long count = Call.Get((out IntPtr e) => QuireNative.quire_stats_num_namespaces(stats, out e));
            for (int i = 0; i < count; i++) ReadNamespace(stats, i);
        }

        private void ReadPages(IntPtr s)
        {
            PageTokens = Call.Get((out IntPtr e) => QuireNative.quire_stats_page_tokens(s, out e));
            PagesTotal = Call.Get((out IntPtr e) => QuireNative.quire_stats_pages_total(s, out e));
            PagesFree = Call.Get((out IntPtr e) => QuireNative.quire_stats_pages_free(s, out e));
            PagesCached = Call.Get((out IntPtr e) => QuireNative.quire_stats_pages_cached(s, out e));
            PagesReferenced = Call.Get((out IntPtr e) => QuireNative.quire_stats_pages_referenced(s, out e));
            PagesPinned = Call.Get((out IntPtr e) => QuireNative.quire_stats_pages_pinned(s, out e));
            PagesEvicted = Call.Get((out IntPtr e) => QuireNative.quire_stats_pages_evicted(s, out e));
            PagesDeduplicated = Call.Get((out IntPtr e) => QuireNative.quire_stats_pages_deduplicated(s, out e));
            DeviceBytes = Call.Get((out IntPtr e) => QuireNative.quire_stats_device_bytes(s, out e));
        }

        private void ReadJobs(IntPtr s)
        {
            JobsQueued = Call.Get((out IntPtr e) => QuireNative.quire_stats_jobs_queued(s, out e));
            JobsRunning = Call.Get((out IntPtr e) => QuireNative.quire_stats_jobs_running(s, out e));
            JobsSubmitted = Call.Get((out IntPtr e) => QuireNative.quire_stats_jobs_submitted(s, out e));
            JobsFinished = Call.Get((out IntPtr e) => QuireNative.quire_stats_jobs_finished(s, out e));
            JobsFailed = Call.Get((out IntPtr e) => QuireNative.quire_stats_jobs_failed(s, out e));
            JobsCancelled = Call.Get((out IntPtr e) => QuireNative.quire_stats_jobs_cancelled(s, out e));
            Preemptions = Call.Get((out IntPtr e) => QuireNative.quire_stats_preemptions(s, out e));
            Steps = Call.Get((out IntPtr e) => QuireNative.quire_stats_steps(s, out e));
            PromptTokens = Call.Get((out IntPtr e) => QuireNative.quire_stats_prompt_tokens(s, out e));
            CachedTokens = Call.Get((out IntPtr e) => QuireNative.quire_stats_cached_tokens(s, out e));
            NewTokens = Call.Get((out IntPtr e) => QuireNative.quire_stats_new_tokens(s, out e));
            DraftTokens = Call.Get((out IntPtr e) => QuireNative.quire_stats_draft_tokens(s, out e));
            AcceptedDraftTokens = Call.Get((out IntPtr e) => QuireNative.quire_stats_accepted_draft_tokens(s, out e));
        }

        private void ReadNamespace(IntPtr stats, int idx)
        {
            string name = Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>
                QuireNative.quire_stats_namespace_name(stats, idx, (byte*)text, size, out e));
            Namespaces[name] = Take(Call.Get((out IntPtr e) => QuireNative.quire_stats_namespace(stats, idx, out e)));
        }
    }
}
