using System;
using System.Linq;
using Quire.Native;

namespace Quire
{
    public sealed unsafe partial class Cache
    {
        private QueueHandle CreateQueue() =>
            new QueueHandle(
                Call.Get((out IntPtr e) => QuireNative.quire_cache_create_queue(Handle, out e)));

        /// <summary>Submits several copies of a request, all or none, as completions of one prompt, which is
        /// computed once. Their seeds count up from the seed of the request.</summary>
        public Job[] SubmitMany(Request request, int count)
        {
            Require.NotNull(request, "request");
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
    }
}
