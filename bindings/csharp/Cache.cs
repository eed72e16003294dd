using System;
using System.Linq;
using System.Threading;
using Quire.Native;

namespace Quire
{
    public sealed unsafe partial class Cache
    {
        /// <summary>Hands a request over; everything that can be refused is refused here. The token cancels the
        /// job.</summary>
        public Job Submit(Request request, CancellationToken cancel = default(CancellationToken))
        {
            cancel.ThrowIfCancellationRequested();
            return dispatcher.Submit(request, CreateQueue, filled => new Job(
                Call.Get((out IntPtr e) => QuireNative.quire_job_submit(Handle, filled, out e)), dispatcher, request,
                cancel));
        }

        private QueueHandle CreateQueue() =>
            new QueueHandle(
                Call.Get((out IntPtr e) => QuireNative.quire_cache_create_queue(Handle, out e)));

        /// <summary>Hands over so many copies of a request, all or none: completions of one prompt, which is
        /// computed once. Their seeds count up from that of the request.</summary>
        public Job[] SubmitMany(Request request, int count)
        {
            var jobs = new IntPtr[Math.Max(0, count)];
            return dispatcher.Submit(request, CreateQueue, filled =>
            {
                using (var pinned = new Pinned(jobs))
                {
                    Call.Get((out IntPtr e) => QuireNative.quire_job_submit_many(Handle, filled,
                        (IntPtr*)pinned.Address, pinned.Length, out e));
                }
                return jobs.Select(job => new Job(job, dispatcher, request)).ToArray();
            });
        }

        /// <summary>Ends every job with ErrorCode.Closed and refuses what comes later. Waits for the step in
        /// progress, where a device hangs no longer than CacheOptions.CloseTimeout. Events and figures can still be
        /// read.</summary>
        public void Shutdown() =>
            Call.Get((out IntPtr e) => QuireNative.quire_cache_close(Handle, QuireNative.QUIRE_WAIT_FOREVER, CancelHandle.None, out e));
    }
}
