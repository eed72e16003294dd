using System;
using Quire.Native;

namespace Quire
{
    /// <summary>The devices that models are loaded on. Any thread may use it at any time.</summary>
    public sealed unsafe class Runtime : IDisposable
    {
        private readonly RuntimeHandle handle;

        /// <summary>Makes a runtime that computes with so many threads; 0 is one per core.</summary>
        public Runtime(int numThreads = 0)
        {
            IntPtr error;
            QuireNative.quire_abi_check(QuireNative.QUIRE_ABI_MAJOR, QuireNative.QUIRE_ABI_MINOR, out error);
            QuireException.ThrowIf(error);
            IntPtr created = QuireNative.quire_runtime_options_create(out error);
            QuireException.ThrowIf(error);
            using (var options = new RuntimeOptionsHandle(created))
            {
                QuireNative.quire_runtime_options_set_num_threads(options, numThreads, out error);
                QuireException.ThrowIf(error);
                IntPtr value = QuireNative.quire_runtime_create(options, out error);
                QuireException.ThrowIf(error);
                handle = new RuntimeHandle(value);
            }
        }

        /// <summary>Loads a model directory.</summary>
        public Model LoadModel(string path)
        {
            IntPtr error;
            IntPtr created = QuireNative.quire_model_options_create(out error);
            QuireException.ThrowIf(error);
            using (var options = new ModelOptionsHandle(created))
            {
                byte[] bytes = Utf8.Bytes(path);
                fixed (byte* text = bytes)
                {
                    QuireNative.quire_model_options_set_path(options, text, (UIntPtr)bytes.Length, out error);
                }
                QuireException.ThrowIf(error);
                IntPtr value = QuireNative.quire_model_load(handle, options, out error);
                QuireException.ThrowIf(error);
                return new Model(new ModelHandle(value));
            }
        }

        /// <summary>Frees the runtime; models made with it stay usable.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }
}
