using System;
using System.Threading;
using Quire.Native;

namespace Quire
{
    /// <summary>The devices that models are loaded on. Any thread may use it at any time.</summary>
    public sealed unsafe partial class Runtime : IDisposable
    {
        internal readonly RuntimeHandle Handle;
        private readonly Dispatcher dispatcher = new Dispatcher(); // of all jobs of its caches

        /// <summary>Makes a runtime that computes with so many threads; 0 is one per core.</summary>
        public Runtime(int numThreads = 0) : this(new RuntimeOptions { NumThreads = numThreads }) { }

        public Runtime(RuntimeOptions options)
        {
            Call.Get((out IntPtr e) =>
                QuireNative.quire_abi_check(QuireNative.QUIRE_ABI_MAJOR, QuireNative.QUIRE_ABI_MINOR, out e));
            using (RuntimeOptionsHandle filled = options.ToNative())
            {
                Handle = new RuntimeHandle(
                    Call.Get((out IntPtr e) => QuireNative.quire_runtime_create(filled, out e)));
            }
        }

        /// <summary>The version of the library that is loaded, such as "0.1.0".</summary>
        public static string LibraryVersion
        {
            get { return Utf8.String(QuireNative.quire_version_string()); }
        }

        /// <summary>Loads a model directory. The token ends the load, which leaves nothing behind then.</summary>
        public Model LoadModel(string path, ModelOptions options = null,
            CancellationToken cancel = default(CancellationToken))
        {
            options = options ?? new ModelOptions();
            using (ModelOptionsHandle filled = options.ToNative(path))
            using (var ending = new Cancel(cancel))
            {
                return ending.During(value =>
                    ProgressCalls.During(options.Progress, filled, () => new Model(new ModelHandle(
                        Call.Get((out IntPtr e) => QuireNative.quire_model_load(Handle, filled,
                            QuireNative.QUIRE_WAIT_FOREVER, value, out e))), dispatcher)));
            }
        }

        /// <summary>The same on a thread of the pool.</summary>
        public System.Threading.Tasks.Task<Model> LoadModelAsync(string path, ModelOptions options = null,
            CancellationToken cancel = default(CancellationToken))
        {
            if (Handle.IsClosed) throw new ObjectDisposedException("Runtime");
            return System.Threading.Tasks.Task.Run(() => LoadModel(path, options, cancel), cancel);
        }

        /// <summary>What a model directory and a cache will take, before a weight is read. Fails as a load does, and
        /// with ErrorCode.OutOfMemory where a split over several devices, automatic or by bytes, does not
        /// go.</summary>
        public Plan Plan(string path, ModelOptions model = null, CacheOptions cache = null)
        {
            using (ModelOptionsHandle filledModel = (model ?? new ModelOptions()).ToNative(path))
            using (CacheOptionsHandle filledCache = (cache ?? new CacheOptions()).ToNative())
            {
                return Quire.Plan.Take(Call.Get((out IntPtr e) =>
                    QuireNative.quire_plan_create(Handle, filledModel, filledCache, out e)));
            }
        }

        /// <summary>An empty queue for jobs of caches of this runtime.</summary>
        public EventQueue CreateQueue()
        {
            return new EventQueue(new QueueHandle(
                Call.Get((out IntPtr e) => QuireNative.quire_queue_create(Handle, out e))));
        }

        /// <summary>An alias without a cache; messages and lines of the log call it by the name.</summary>
        public Alias CreateAlias(string name)
        {
            return new Alias(Handle, name, dispatcher);
        }

        /// <summary>Frees the runtime; models made with it stay usable.</summary>
        public void Dispose()
        {
            Handle.Dispose();
        }
    }
}
