using System;
using System.Threading;
using Quire.Native;

namespace Quire
{
    /// <summary>One generation. Any thread may use it at any time; each event is given to one of those that
    /// poll.</summary>
    public sealed unsafe class Job : IDisposable
    {
        // Mono does not end a process while a thread waits in native code, so no wait is without end.
        internal const long WaitSliceNanoseconds = 100 * 1000 * 1000;

        private readonly JobHandle handle;
        private volatile bool over;

        internal Job(JobHandle handle)
        {
            this.handle = handle;
        }

        /// <summary>Waits for the next event with text or progress, or the last one; null once that was taken. Throws
        /// what the job failed with. The token ends the wait and not the job.</summary>
        public Event Next(CancellationToken cancel = default(CancellationToken))
        {
            bool finished = false;
            while (!over)
            {
                cancel.ThrowIfCancellationRequested();
                IntPtr polled = Call.Get((out IntPtr e) =>
                    QuireNative.quire_job_poll(handle, WaitSliceNanoseconds, out e));
                if (polled == IntPtr.Zero)
                {
                    // Nothing behind the end: the last event went to a queue or to another thread.
                    over |= finished;
                    finished = WaitFor(0);
                    continue;
                }
                Event read = Event.Take(polled);
                over |= read.IsLast;
                if (read.Error != null) throw read.Error;
                if (read.IsLast || read.Kind == EventKind.Text || read.Kind == EventKind.Prefill) return read;
            }
            return null;
        }

        private bool WaitFor(long nanoseconds)
        {
            return Call.Get((out IntPtr e) => QuireNative.quire_job_wait(handle, nanoseconds, out e)) == 1;
        }

        /// <summary>Waits for the job to end, taking no event. The token ends the wait and not the job.</summary>
        public void Wait(CancellationToken cancel = default(CancellationToken))
        {
            do
            {
                cancel.ThrowIfCancellationRequested();
            } while (!WaitFor(WaitSliceNanoseconds));
        }

        /// <summary>Ends the job soon; its last event says Cancelled.</summary>
        public void Cancel()
        {
            Call.Get((out IntPtr e) => QuireNative.quire_job_cancel(handle, out e));
        }

        /// <summary>Sets the job aside until Resume; it keeps its room in the cache as long as others need
        /// none.</summary>
        public void Pause()
        {
            Call.Get((out IntPtr e) => QuireNative.quire_job_pause(handle, out e));
        }

        /// <summary>Lets a paused job go on.</summary>
        public void Resume()
        {
            Call.Get((out IntPtr e) => QuireNative.quire_job_resume(handle, out e));
        }

        /// <summary>Changes Request.Priority.</summary>
        public void SetPriority(int priority)
        {
            Call.Get((out IntPtr e) => QuireNative.quire_job_set_priority(handle, priority, out e));
        }

        /// <summary>Takes generated tokens back, all but the first, and lets the job go on; events are not taken
        /// back.</summary>
        public void Rewind(int newTokens)
        {
            Call.Get((out IntPtr e) => QuireNative.quire_job_rewind(handle, newTokens, out e));
        }

        /// <summary>A second job that goes on from the tokens of this one. Of the request count Seed, UserData, Queue
        /// and MaxNewTokens.</summary>
        public Job Fork(Request request)
        {
            using (JobRequestHandle filled = request.ToNative())
            {
                return new Job(new JobHandle(
                    Call.Get((out IntPtr e) => QuireNative.quire_job_fork(handle, filled, out e))));
            }
        }

        /// <summary>A number that no other job of the cache has or will have: Event.JobId.</summary>
        public long Id
        {
            get { return Call.Get((out IntPtr e) => QuireNative.quire_job_id(handle, out e)); }
        }

        /// <summary>What is known of the job now.</summary>
        public JobInfo Info()
        {
            return JobInfo.Of(handle);
        }

        /// <summary>One line for a person: why the job waits, what it does, or how it ended.</summary>
        public string Explain()
        {
            return Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>
                QuireNative.quire_job_explain(handle, (byte*)text, size, out e));
        }

        /// <summary>Of a finished Score job the natural logarithm of the probability of each token of the prompt; NaN
        /// for the first.</summary>
        public float[] Scores()
        {
            return Call.Fetch<float>((void* values, UIntPtr size, out IntPtr e) =>
                QuireNative.quire_job_scores(handle, (float*)values, size, out e));
        }

        /// <summary>Of a finished Score job with Request.RawLogits the logits for what follows each token.</summary>
        public float[] RawLogits()
        {
            return Call.Fetch<float>((void* values, UIntPtr size, out IntPtr e) =>
                QuireNative.quire_job_raw_logits(handle, (float*)values, size, out e));
        }

        /// <summary>Of a finished Embed job the vector.</summary>
        public float[] Embedding()
        {
            return Call.Fetch<float>((void* values, UIntPtr size, out IntPtr e) =>
                QuireNative.quire_job_embedding(handle, (float*)values, size, out e));
        }

        /// <summary>Frees the job, and cancels it where it is not over.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }
}
