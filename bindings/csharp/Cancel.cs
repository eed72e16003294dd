using System;
using System.Collections.Generic;
using System.Threading;
using Quire.Native;

namespace Quire
{
    /// <summary>Ends a waiting native call when a token is cancelled, and when the process exits: Mono waits
    /// for threads in native code, even for background threads.</summary>
    internal sealed class Cancel : IDisposable
    {
        private static readonly HashSet<Cancel> Live = new HashSet<Cancel>();

        private readonly CancelHandle handle;
        private readonly CancellationToken token;
        private readonly CancellationTokenRegistration registration;

        static Cancel()
        {
            AppDomain.CurrentDomain.ProcessExit += EndAll;
        }

        private static void EndAll(object sender, EventArgs arguments)
        {
            lock (Live)
                foreach (Cancel one in Live) one.Trigger();
        }

        public Cancel(CancellationToken token)
        {
            handle = new CancelHandle(Call.Get<IntPtr>(QuireNative.quire_cancel_create));
            this.token = token;
            lock (Live) Live.Add(this);
            registration = token.Register(Trigger);
        }

        private void Trigger() => Call.Get((out IntPtr e) => QuireNative.quire_cancel_trigger(handle, out e));

        /// <summary>Makes the call. Throws OperationCanceledException if the token has ended it.</summary>
        public T During<T>(Func<CancelHandle, T> call)
        {
            try
            {
                return call(handle);
            }
            catch (QuireException failure)
            {
                if (failure.Code == ErrorCode.Cancelled) token.ThrowIfCancellationRequested();
                throw;
            }
        }

        public void Dispose()
        {
            lock (Live) Live.Remove(this);
            registration.Dispose(); // waits for a running Trigger
            handle.Dispose();
        }
    }
}
