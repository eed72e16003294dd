using System;
using System.Threading;
using Quire.Native;

namespace Quire
{
    /// <summary>Ends a native call that waits when a token is cancelled.</summary>
    internal sealed class Cancel : IDisposable
    {
        private readonly CancelHandle handle;
        private readonly CancellationToken token;
        private readonly CancellationTokenRegistration registration;

        public Cancel(CancellationToken token)
        {
            handle = new CancelHandle(Call.Get<IntPtr>(QuireNative.quire_cancel_create));
            this.token = token;
            registration = token.Register(Trigger);
        }

        private void Trigger()
        {
            Call.Get((out IntPtr e) => QuireNative.quire_cancel_trigger(handle, out e));
        }

        /// <summary>Makes the call. What the token ended is an OperationCanceledException.</summary>
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
            registration.Dispose(); // behind a Trigger that is under way
            handle.Dispose();
        }
    }
}
