using System;
using System.Runtime.ExceptionServices;
using System.Runtime.InteropServices;

namespace Quire.Native
{
    /// <summary>Passes the progress of a load to the program, on the thread that loads.</summary>
    internal sealed class ProgressCalls
    {
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        private delegate void Function(IntPtr userData, long doneBytes, long totalBytes);

        private readonly Action<long, long> progress;
        private ExceptionDispatchInfo failure;

        private ProgressCalls(Action<long, long> progress)
        {
            this.progress = progress;
        }

        /// <summary>Makes a load. An exception of progress is thrown after the load, since it cannot pass
        /// through the library.</summary>
        public static Model During(Action<long, long> progress, ModelOptionsHandle options, Func<Model> load)
        {
            if (progress == null) return load();
            var calls = new ProgressCalls(progress);
            Function function = calls.Tell;
            IntPtr address = Marshal.GetFunctionPointerForDelegate(function);
            Call.Get((out IntPtr e) =>
                QuireNative.quire_model_options_set_progress(options, address, IntPtr.Zero, out e));
            Model loaded = load();
            GC.KeepAlive(function);
            if (calls.failure == null) return loaded;
            loaded.Dispose();
            calls.failure.Throw();
            return null;
        }

        private void Tell(IntPtr userData, long doneBytes, long totalBytes)
        {
            if (failure != null) return;
            try
            {
                progress(doneBytes, totalBytes);
            }
            catch (Exception thrown)
            {
                failure = ExceptionDispatchInfo.Capture(thrown);
            }
        }
    }
}
