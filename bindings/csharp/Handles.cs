using System;
using System.Runtime.InteropServices;
using System.Threading;

namespace Quire.Native
{
    /// <summary>A native object. The marshaller keeps it alive during each call. Dispose or the finalizer
    /// frees it once. The library checks every handle, so a call that races with Dispose fails
    /// cleanly.</summary>
    internal abstract class NativeHandle : SafeHandle
    {
        private int freed;

        /// <summary>Called after the object is freed; set it before the object is shared.</summary>
        public Action Freed { get; set; }

        protected NativeHandle(IntPtr value) : base(IntPtr.Zero, true)
        {
            SetHandle(value);
        }

        public override bool IsInvalid { get { return handle == IntPtr.Zero; } }

        protected abstract int Free(IntPtr value, out IntPtr error);

        /// <summary>Frees the object at once, even during calls of other threads, whose waits the library
        /// ends. A SafeHandle alone is released only when no call is running, which may never happen if
        /// threads call it in turn.</summary>
        protected override void Dispose(bool disposing)
        {
            if (disposing && !IsInvalid) FreeOnce();
            base.Dispose(disposing);
        }

        protected override bool ReleaseHandle() => FreeOnce();

        private bool FreeOnce()
        {
            if (Interlocked.Exchange(ref freed, 1) != 0) return true;
            IntPtr error;
            int done = Free(handle, out error);
            if (error != IntPtr.Zero) QuireNative.quire_error_free(error);
            if (Freed != null) Freed();
            return done != 0;
        }
    }
}
