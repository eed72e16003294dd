using System;
using System.Runtime.InteropServices;
using System.Threading;

namespace Quire.Native
{
    /// <summary>
    /// A native object. The marshaller keeps it alive across each call; it is freed once, by Dispose or by the
    /// finalizer. The library checks every handle, so that a call which races with Dispose fails cleanly.
    /// </summary>
    internal abstract class NativeHandle : SafeHandle
    {
        private int freed;

        /// <summary>Called once it is freed; set before anybody else sees the object.</summary>
        public Action Freed { get; set; }

        protected NativeHandle(IntPtr value) : base(IntPtr.Zero, true)
        {
            SetHandle(value);
        }

        public override bool IsInvalid { get { return handle == IntPtr.Zero; } }

        protected abstract int Free(IntPtr value, out IntPtr error);

        /// <summary>Frees at once, also while others are in a call: the library ends their waits. A SafeHandle alone
        /// is released in the first moment in which nobody is, which threads that take turns never leave.</summary>
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
