using System;
using Quire.Native;

namespace Quire
{
    /// <summary>A loaded model with its tokenizer; it never changes. Any thread may use it at any time.</summary>
    public sealed unsafe class Model : IDisposable
    {
        private readonly ModelHandle handle;

        internal Model(ModelHandle handle)
        {
            this.handle = handle;
        }

        /// <summary>Text to token ids. parseSpecial reads the text of special tokens as those tokens: for
        /// templates, never for what users wrote.</summary>
        public int[] Encode(string text, bool addSpecial = true, bool parseSpecial = false)
        {
            byte[] bytes = Utf8.Bytes(text);
            var tokens = new int[0];
            while (true)
            {
                IntPtr error;
                long size;
                fixed (byte* source = bytes)
                fixed (int* target = tokens)
                {
                    size = QuireNative.quire_model_encode(handle, source, (UIntPtr)bytes.Length, addSpecial ? 1 : 0,
                        parseSpecial ? 1 : 0, target, (UIntPtr)tokens.Length, out error);
                }
                QuireException.ThrowIf(error);
                if (size <= tokens.Length) return tokens;
                tokens = new int[size];
            }
        }

        /// <summary>Token ids to text.</summary>
        public string Decode(int[] tokens, bool skipSpecial = true)
        {
            var text = new byte[0];
            while (true)
            {
                IntPtr error;
                long size;
                fixed (int* source = tokens)
                fixed (byte* target = text)
                {
                    size = QuireNative.quire_model_decode(handle, source, (UIntPtr)tokens.Length, skipSpecial ? 1 : 0,
                        target, (UIntPtr)text.Length, out error);
                }
                QuireException.ThrowIf(error);
                if (size <= text.Length) return System.Text.Encoding.UTF8.GetString(text);
                text = new byte[size];
            }
        }

        /// <summary>Takes the memory of a cache and starts its scheduler. maxTokens is room for all jobs
        /// together; 0 is one job of full length.</summary>
        public Cache CreateCache(long maxTokens = 0)
        {
            IntPtr error;
            IntPtr created = QuireNative.quire_cache_options_create(out error);
            QuireException.ThrowIf(error);
            using (var options = new CacheOptionsHandle(created))
            {
                QuireNative.quire_cache_options_set_max_tokens(options, maxTokens, out error);
                QuireException.ThrowIf(error);
                IntPtr value = QuireNative.quire_cache_create(handle, options, out error);
                QuireException.ThrowIf(error);
                return new Cache(new CacheHandle(value));
            }
        }

        /// <summary>Frees the model; caches made for it stay usable.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }

    /// <summary>The key/value cache of a model with the scheduler that batches its jobs. Any thread may use it at
    /// any time.</summary>
    public sealed class Cache : IDisposable
    {
        private readonly CacheHandle handle;

        internal Cache(CacheHandle handle)
        {
            this.handle = handle;
        }

        /// <summary>Hands a request over; everything that can be refused is refused here.</summary>
        public Job Submit(Request request)
        {
            using (JobRequestHandle filled = request.ToNative())
            {
                IntPtr error;
                IntPtr value = QuireNative.quire_job_submit(handle, filled, out error);
                QuireException.ThrowIf(error);
                return new Job(new JobHandle(value));
            }
        }

        /// <summary>Frees the cache; its jobs run on.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }
}
