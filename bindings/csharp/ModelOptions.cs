using System;
using Quire.Native;

namespace Quire
{
    /// <summary>How much of a model is loaded; the numbers of the C interface (quire/options.h).</summary>
    public enum ModelScope
    {
        Full = QuireNative.QUIRE_MODEL_SCOPE_FULL,

        /// <summary>The tokenizer alone: Encode and Decode work, nothing else.</summary>
        Tokenizer = QuireNative.QUIRE_MODEL_SCOPE_TOKENIZER,

        /// <summary>All but the weights: descriptions and planning work, caches do not.</summary>
        Metadata = QuireNative.QUIRE_MODEL_SCOPE_METADATA,
    }

    /// <summary>Settings of a model. What is null has its default. Not for several threads at once.</summary>
    public sealed unsafe class ModelOptions
    {
        /// <summary>"cuda:0", or several that share the layers: "cpu,cuda:0". Default: that of the
        /// runtime.</summary>
        public string Device { get; set; }

        /// <summary>Layers of each device, "20,12", bytes of each at most, "24G,512M", or "auto", the
        /// default.</summary>
        public string Split { get; set; }

        /// <summary>Memory that is left alone on all devices, "512M", or on each, "512M,2G". Default:
        /// "256M".</summary>
        public string Reserve { get; set; }

        /// <summary>The cache that the load leaves room for.</summary>
        public CacheOptions PlannedCache { get; set; }

        public ModelScope? Scope { get; set; }

        /// <summary>Called as a load goes on, by the thread that loads, with the bytes of the files that are done and
        /// those of all; the last time they are equal. In it, calls that wait, load, create or close fail with
        /// ErrorCode.Reentrant. Where it throws it is called no more, and the load throws the same once it is
        /// over.</summary>
        public Action<long, long> Progress { get; set; }

        /// <summary>A native object for the model of a directory, owned by the caller.</summary>
        internal ModelOptionsHandle ToNative(string path)
        {
            if (path == null) throw new ArgumentNullException("path");
            var options = new ModelOptionsHandle(Call.Get<IntPtr>(QuireNative.quire_model_options_create));
            try
            {
                Fill(options, path);
                return options;
            }
            catch
            {
                options.Dispose();
                throw;
            }
        }

        private void Fill(ModelOptionsHandle options, string path)
        {
            Call.SetText(path, (byte* text, UIntPtr length, out IntPtr e) =>
                QuireNative.quire_model_options_set_path(options, text, length, out e));
            Call.SetText(Device, (byte* text, UIntPtr length, out IntPtr e) =>
                QuireNative.quire_model_options_set_device(options, text, length, out e));
            Call.SetText(Split, (byte* text, UIntPtr length, out IntPtr e) =>
                QuireNative.quire_model_options_set_split(options, text, length, out e));
            Call.SetText(Reserve, (byte* text, UIntPtr length, out IntPtr e) =>
                QuireNative.quire_model_options_set_reserve(options, text, length, out e));
            Call.Set(Scope, value => (out IntPtr e) =>
                QuireNative.quire_model_options_set_scope(options, (int)value, out e));
            if (PlannedCache == null) return;
            using (CacheOptionsHandle cache = PlannedCache.ToNative())
            {
                Call.Get((out IntPtr e) =>
                    QuireNative.quire_model_options_set_planned_cache(options, cache, out e));
            }
        }
    }
}
