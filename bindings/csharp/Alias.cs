using System;
using System.Threading;
using Quire.Native;

namespace Quire
{
    /// <summary>A name that jobs are submitted to, and the cache behind it, which can be exchanged while jobs run: new
    /// jobs go to the new cache, running ones finish on the old one. Dispose the old cache after the exchange, do not
    /// shut it down. Any thread may use it at any time.</summary>
    public sealed unsafe partial class Alias : IDisposable
    {
        internal readonly AliasHandle Handle;
        private readonly Dispatcher dispatcher;

        /// <summary>As long as it is open the dispatcher waits for its jobs, those to come included.</summary>
        internal Alias(RuntimeHandle runtime, string name, Dispatcher dispatcher)
        {
            this.dispatcher = dispatcher;
            using (var text = new Pinned(Utf8.Bytes(name)))
            {
                dispatcher.Acquire(() => new QueueHandle(
                    Call.Get((out IntPtr e) => QuireNative.quire_queue_create(runtime, out e))));
                try
                {
                    Handle = new AliasHandle(Call.Get((out IntPtr e) =>
                        QuireNative.quire_alias_create(runtime, (byte*)text.Address, text.Length, out e)));
                }
                catch
                {
                    dispatcher.Release();
                    throw;
                }
                Handle.Freed = dispatcher.Release;
            }
        }

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

        /// <summary>Frees the alias; its jobs run on.</summary>
        public void Dispose()
        {
            Handle.Dispose();
        }
    }
}
