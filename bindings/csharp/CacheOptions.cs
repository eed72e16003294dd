using System;
using System.Collections.Generic;
using Quire.Native;

namespace Quire
{
    /// <summary>How keys and values are stored; the numbers of the C interface (quire/options.h), as below.</summary>
    public enum KvFormat
    {
        F16 = QuireNative.QUIRE_KV_F16,
        Q8 = QuireNative.QUIRE_KV_Q8,
        Q6 = QuireNative.QUIRE_KV_Q6,
        Q4 = QuireNative.QUIRE_KV_Q4,
        FP8 = QuireNative.QUIRE_KV_FP8,
    }

    /// <summary>What the jobs of one namespace may take of a cache.</summary>
    public enum Quota
    {
        /// <summary>Jobs that run at the same time; others of the namespace wait.</summary>
        RunningJobs = QuireNative.QUIRE_QUOTA_RUNNING_JOBS,

        /// <summary>Jobs that wait; one more is refused with ErrorCode.Quota.</summary>
        QueuedJobs = QuireNative.QUIRE_QUOTA_QUEUED_JOBS,

        /// <summary>Pages that its jobs hold, a shared one once for each.</summary>
        Pages = QuireNative.QUIRE_QUOTA_PAGES,

        /// <summary>Pages that Cache.Pin keeps for it.</summary>
        PinnedPages = QuireNative.QUIRE_QUOTA_PINNED_PAGES,
    }

    /// <summary>What one namespace has of its own.</summary>
    public sealed class NamespaceOptions
    {
        /// <summary>In place of those of all namespaces; 0 is no limit.</summary>
        public IDictionary<Quota, int> Quotas { get; } = new Dictionary<Quota, int>();

        /// <summary>Its share where several have jobs that wait: twice the weight is twice the tokens. 1 where
        /// null.</summary>
        public double? Weight { get; set; }
    }

    /// <summary>Settings of a cache. What is null or empty has its default. Not for several threads at
    /// once.</summary>
    public sealed unsafe class CacheOptions
    {
        /// <summary>Tokens that all jobs together can hold; 0 is room for one job of full length.</summary>
        public long? MaxTokens { get; set; }

        /// <summary>Tokens of a page. Prompts that share whole pages share their work. Default: 256.</summary>
        public int? PageTokens { get; set; }

        /// <summary>Jobs that run at the same time; others wait. Default: 64.</summary>
        public int? MaxBatchSize { get; set; }

        /// <summary>Tokens of one step: larger is faster for prompts and slower to answer others. Default:
        /// 512.</summary>
        public int? MaxChunkTokens { get; set; }

        /// <summary>Tokens of one job, prompt and generated ones; 0 is what the model was made for.</summary>
        public long? MaxSeqLen { get; set; }

        /// <summary>Jobs that may wait; one more is refused with ErrorCode.Capacity. Default: 1024.</summary>
        public int? MaxQueue { get; set; }

        public KvFormat? KvFormat { get; set; }

        /// <summary>Of every namespace that has none of its own; 0 is no limit.</summary>
        public IDictionary<Quota, int> Quotas { get; } = new Dictionary<Quota, int>();

        /// <summary>By name, those that have quotas or a weight of their own.</summary>
        public IDictionary<string, NamespaceOptions> Namespaces { get; } = new Dictionary<string, NamespaceOptions>();

        /// <summary>Pages that pins keep for all namespaces together; 0 is a quarter of the cache.</summary>
        public int? MaxPinnedPages { get; set; }

        /// <summary>How often later jobs may begin before one for which there is no room yet. Default: 16.</summary>
        public int? MaxOvertakes { get; set; }

        /// <summary>Waiting that is worth one priority; zero is never. Default: ten seconds.</summary>
        public TimeSpan? Ageing { get; set; }

        /// <summary>How long a step may take before its device counts as lost; zero, the default, is for
        /// ever.</summary>
        public TimeSpan? StepTimeout { get; set; }

        /// <summary>How long Cache.Shutdown waits for a device that hangs. Default: two seconds.</summary>
        public TimeSpan? CloseTimeout { get; set; }

        /// <summary>A native object, owned by the caller.</summary>
        internal CacheOptionsHandle ToNative()
        {
            var options = new CacheOptionsHandle(Call.Get<IntPtr>(QuireNative.quire_cache_options_create));
            try
            {
                FillSizes(options);
                FillScheduling(options);
                return options;
            }
            catch
            {
                options.Dispose();
                throw;
            }
        }

        private void FillSizes(CacheOptionsHandle options)
        {
            Call.Set(MaxTokens, value => (out IntPtr e) =>
                QuireNative.quire_cache_options_set_max_tokens(options, value, out e));
            Call.Set(PageTokens, value => (out IntPtr e) =>
                QuireNative.quire_cache_options_set_page_tokens(options, value, out e));
            Call.Set(MaxBatchSize, value => (out IntPtr e) =>
                QuireNative.quire_cache_options_set_max_batch_size(options, value, out e));
            Call.Set(MaxChunkTokens, value => (out IntPtr e) =>
                QuireNative.quire_cache_options_set_max_chunk_tokens(options, value, out e));
            Call.Set(MaxSeqLen, value => (out IntPtr e) =>
                QuireNative.quire_cache_options_set_max_seq_len(options, value, out e));
            Call.Set(MaxQueue, value => (out IntPtr e) =>
                QuireNative.quire_cache_options_set_max_queue(options, value, out e));
            Call.Set(KvFormat, value => (out IntPtr e) =>
                QuireNative.quire_cache_options_set_kv_format(options, (int)value, out e));
            Call.Set(MaxPinnedPages, value => (out IntPtr e) =>
                QuireNative.quire_cache_options_set_max_pinned_pages(options, value, out e));
        }

        private void FillScheduling(CacheOptionsHandle options)
        {
            foreach (KeyValuePair<Quota, int> quota in Quotas)
                Call.Get((out IntPtr e) =>
                    QuireNative.quire_cache_options_set_quota(options, (int)quota.Key, quota.Value, out e));
            foreach (KeyValuePair<string, NamespaceOptions> space in Namespaces)
                FillNamespace(options, space.Key, space.Value);
            Call.Set(MaxOvertakes, value => (out IntPtr e) =>
                QuireNative.quire_cache_options_set_max_overtakes(options, value, out e));
            Call.Set(Ageing, value => (out IntPtr e) =>
                QuireNative.quire_cache_options_set_ageing_ns(options, Call.Nanoseconds(value), out e));
            Call.Set(StepTimeout, value => (out IntPtr e) =>
                QuireNative.quire_cache_options_set_step_timeout_ns(options, Call.Nanoseconds(value), out e));
            Call.Set(CloseTimeout, value => (out IntPtr e) =>
                QuireNative.quire_cache_options_set_close_timeout_ns(options, Call.Nanoseconds(value), out e));
        }

        private static void FillNamespace(CacheOptionsHandle options, string name, NamespaceOptions own)
        {
            foreach (KeyValuePair<Quota, int> quota in own.Quotas)
                Call.SetText(name, (byte* text, UIntPtr length, out IntPtr e) =>
                    QuireNative.quire_cache_options_set_namespace_quota(options, text, length, (int)quota.Key,
                        quota.Value, out e));
            if (own.Weight.HasValue)
                Call.SetText(name, (byte* text, UIntPtr length, out IntPtr e) =>
                    QuireNative.quire_cache_options_set_namespace_weight(options, text, length, own.Weight.Value,
                        out e));
        }
    }
}
