using System;
using System.Linq;
using System.Threading;
using Quire.Native;

namespace Quire
{
    /// <summary>The key/value cache of a model with the scheduler that batches its jobs. Any thread may use it at
    /// any time.</summary>
    public sealed unsafe partial class Cache : IDisposable
    {
        internal readonly CacheHandle Handle;
        private readonly Dispatcher dispatcher;

        internal Cache(CacheHandle handle, Dispatcher dispatcher)
        {
            Handle = handle;
            this.dispatcher = dispatcher;
        }

        /// <summary>Hands a request over; everything that can be refused is refused here. The token cancels the
        /// job.</summary>
        public Job Submit(Request request, CancellationToken cancel = default(CancellationToken))
        {
            cancel.ThrowIfCancellationRequested();
            return dispatcher.Submit(request, CreateQueue, filled => new Job(
                Call.Get((out IntPtr e) => QuireNative.quire_job_submit(Handle, filled, out e)), dispatcher, request,
                cancel));
        }

        private QueueHandle CreateQueue()
        {
            return new QueueHandle(
                Call.Get((out IntPtr e) => QuireNative.quire_cache_create_queue(Handle, out e)));
        }

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
        public void Shutdown()
        {
            Call.Get((out IntPtr e) => QuireNative.quire_cache_close(Handle, QuireNative.QUIRE_WAIT_FOREVER, CancelHandle.None, out e));
        }

        /// <summary>The figures of this moment.</summary>
        public Stats Stats()
        {
            return Quire.Stats.Take(Call.Get((out IntPtr e) => QuireNative.quire_cache_stats(Handle, out e)));
        }

        /// <summary>How many tokens of the request's prompt a job would find in the cache. Waits for one step at
        /// most, up to the timeout; Timeout.InfiniteTimeSpan does not pass.</summary>
        public long Query(Request request, TimeSpan timeout)
        {
            using (JobRequestHandle filled = request.ToNative())
            {
                return Call.Get((out IntPtr e) =>
                    QuireNative.quire_cache_query(Handle, filled, Call.Nanoseconds(timeout), CancelHandle.None,
                        out e));
            }
        }

        /// <summary>Keeps what the cache has of the request's prompt for so long, or until Unpin where that is zero.
        /// Waits as Query does. Returns a number that stands for the pin.</summary>
        public long Pin(Request request, TimeSpan timeToLive, TimeSpan timeout)
        {
            using (JobRequestHandle filled = request.ToNative())
            {
                return Call.Get((out IntPtr e) => QuireNative.quire_cache_pin(Handle, filled,
                    Call.Nanoseconds(timeToLive), Call.Nanoseconds(timeout), CancelHandle.None, out e));
            }
        }

        /// <summary>How likely each token is after those before it, as natural logarithms. The tokens are cut into
        /// windows, 0 is one of all; the first value of each is NaN. The token ends the wait.</summary>
        public float[] Score(int[] tokens, long windowTokens = 0,
            CancellationToken cancel = default(CancellationToken))
        {
            using (JobRequestHandle filled = new Request { Tokens = tokens }.ToNative())
            using (var ending = new Cancel(cancel))
            {
                return ending.During(value => Call.Fetch<float>((void* scores, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_cache_score(Handle, filled, windowTokens,
                        QuireNative.QUIRE_WAIT_FOREVER, value, (float*)scores, size, out e)));
            }
        }

        /// <summary>The raw logits of one window, VocabSize for what follows each token. The token ends the
        /// wait.</summary>
        public float[] Logits(int[] tokens, CancellationToken cancel = default(CancellationToken))
        {
            using (JobRequestHandle filled = new Request { Tokens = tokens }.ToNative())
            using (var ending = new Cancel(cancel))
            {
                return ending.During(value => Call.Fetch<float>((void* logits, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_cache_logits(Handle, filled,
                        QuireNative.QUIRE_WAIT_FOREVER, value, (float*)logits, size, out e)));
            }
        }

        /// <summary>Frees the cache; its jobs run on.</summary>
        public void Dispose()
        {
            Handle.Dispose();
        }
    }
}
