using System;
using System.Threading;
using System.Runtime.CompilerServices;
using Quire.Native;

namespace Quire
{
    public sealed unsafe partial class Runtime
    {
        /// <summary>Creates a runtime that computes with the given number of threads; 0 means one per
        /// core.</summary>
        public Runtime(int numThreads = 0) : this(new RuntimeOptions { NumThreads = numThreads }) { }

        /// <summary>Creates a runtime with the given options.</summary>
        public Runtime(RuntimeOptions options)
        {
            Require.NotNull(options, "options");
            Call.Get((out IntPtr e) =>
                QuireNative.quire_abi_check(QuireNative.QUIRE_ABI_MAJOR, QuireNative.QUIRE_ABI_MINOR, out e));
            using (RuntimeOptionsHandle filled = options.ToNative())
            {
                Handle = new RuntimeHandle(
                    Call.Get((out IntPtr e) => QuireNative.quire_runtime_create(filled, out e)));
                dispatcher = new Dispatcher();
            }
        }

        /// <summary>The version of the loaded library, such as "0.1.0".</summary>
        public static string LibraryVersion
        {
            get { return Utf8.String(QuireNative.quire_version_string()); }
        }

        /// <summary>Loads a model directory. Cancelling the token ends the load, which then frees everything
        /// it has allocated.</summary>
        public Model LoadModel(string path, [Nullable(2)] ModelOptions options = null,
            CancellationToken cancel = default(CancellationToken))
        {
            options = options ?? new ModelOptions();
            using (ModelOptionsHandle filled = options.ToNative(path))
            using (var ending = new Cancel(cancel))
            {
                return ending.During(value =>
                    ProgressCalls.During(options.Progress, filled, () => new Model(
                        Call.Get((out IntPtr e) => QuireNative.quire_model_load(Handle, filled,
                            QuireNative.QUIRE_WAIT_FOREVER, value, out e)), dispatcher)));
            }
        }

        /// <summary>Does the same on a thread of the pool.</summary>
        public System.Threading.Tasks.Task<Model> LoadModelAsync(string path, [Nullable(2)] ModelOptions options = null,
            CancellationToken cancel = default(CancellationToken))
        {
            Require.NotNull(path, "path");
            if (Handle.IsClosed) throw new ObjectDisposedException("Runtime");
            return System.Threading.Tasks.Task.Run(() => LoadModel(path, options, cancel), cancel);
        }

        /// <summary>Creates an alias without a cache; messages and log lines use its name.</summary>
        public Alias CreateAlias(string name)
        {
            byte[] bytes = Utf8.Bytes(name, "name");
            dispatcher.Acquire(() => new QueueHandle(
                Call.Get((out IntPtr e) => QuireNative.quire_queue_create(Handle, out e))));
            try
            {
                using (var text = new Pinned(bytes))
                {
                    var alias = new Alias(Call.Get((out IntPtr e) =>
                        QuireNative.quire_alias_create(Handle, (byte*)text.Address, text.Length, out e)), dispatcher);
                    alias.Handle.Freed = dispatcher.Release;
                    return alias;
                }
            }
            catch
            {
                dispatcher.Release();
                throw;
            }
        }
    }
}
