using System;
using Quire.Native;

namespace Quire
{
    /// <summary>A loaded model with its tokenizer; it never changes. Any thread may use it at any time.</summary>
    public sealed unsafe partial class Model : IDisposable
    {
        internal readonly ModelHandle Handle;
        private readonly Dispatcher dispatcher;

        internal Model(ModelHandle handle, Dispatcher dispatcher)
        {
            Handle = handle;
            this.dispatcher = dispatcher;
        }

        /// <summary>Takes the memory of a cache and starts its scheduler. maxTokens is room for all jobs
        /// together; 0 is one job of full length.</summary>
        public Cache CreateCache(long maxTokens = 0)
        {
            return CreateCache(new CacheOptions { MaxTokens = maxTokens });
        }

        /// <summary>Takes the memory of a cache and starts its scheduler.</summary>
        public Cache CreateCache(CacheOptions options)
        {
            using (CacheOptionsHandle filled = options.ToNative())
            {
                return new Cache(new CacheHandle(
                    Call.Get((out IntPtr e) => QuireNative.quire_cache_create(Handle, filled, out e))), dispatcher);
            }
        }

        /// <summary>Frees the model; caches made for it stay usable.</summary>
        public void Dispose()
        {
            Handle.Dispose();
        }
    }
}
