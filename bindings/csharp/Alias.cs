using System;
using System.Threading;
using Quire.Native;

namespace Quire
{
    public sealed unsafe partial class Alias
    {
        /// <summary>Hands a request to the cache behind the alias, else to the first of its fallbacks that takes it. The
        /// token cancels the job.</summary>
        public Job Submit(Request request, CancellationToken cancel = default(CancellationToken))
        {
            cancel.ThrowIfCancellationRequested();
            if (Handle.IsClosed) throw new ObjectDisposedException("Alias");
            return dispatcher.Submit(request, null, filled => new Job(
                Call.Get((out IntPtr e) => QuireNative.quire_alias_submit(Handle, filled, out e)), dispatcher, request,
                cancel));
        }
    }
}
