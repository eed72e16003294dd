using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using Quire.Native;

namespace Quire
{
    /// <summary>What one namespace has of its own.</summary>
    [NullableContext(1)]
    public sealed class NamespaceOptions
    {
        /// <summary>In place of those of all namespaces; 0 is no limit.</summary>
        public IDictionary<Quota, int> Quotas { get; } = new Dictionary<Quota, int>();

        /// <summary>Its share where several have jobs that wait: twice the weight is twice the tokens. 1 where
        /// null.</summary>
        public double? Weight { get; set; }
    }

    public sealed unsafe partial class CacheOptions
    {
        private void FillRest(CacheOptionsHandle options)
        {
            foreach (KeyValuePair<string, NamespaceOptions> space in Namespaces)
                FillNamespace(options, space.Key, space.Value);
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
