using System;
using System.Threading;
using Quire.Native;

namespace Quire
{
    /// <summary>One generation. Any thread may use it at any time; each event is given to one of those that
    /// ask.</summary>
    public sealed unsafe partial class Job : IDisposable
    {
        private readonly JobHandle handle;
        private readonly Dispatcher dispatcher;
        private readonly CancellationTokenRegistration ending;
        private readonly bool queued; // its events go to a queue of the program
        private volatile bool over;

        /// <summary>Takes over a native job. The token cancels the job.</summary>
        internal Job(IntPtr job, Dispatcher dispatcher, Request request,
            CancellationToken cancel = default(CancellationToken))
        {
            this.dispatcher = dispatcher;
            handle = new JobHandle(job);
            long id = Id;
            queued = request.Queue != null;
            if (!queued) handle.Waiter = dispatcher.Add(id);
            JobHandle held = handle; // not the job, which is to end with the garbage where nobody disposes it
            ending = cancel.Register(() => CancelHeld(held));
        }

        private static void CancelHeld(JobHandle held)
        {
            if (!held.IsClosed) Call.Get((out IntPtr e) => QuireNative.quire_job_cancel(held, out e));
        }

        /// <summary>Waits for the next event but a start, or the last one; null once that was taken. Throws what the
        /// job failed with. The token ends the wait and not the job.</summary>
        public Event Next(CancellationToken cancel = default(CancellationToken))
        {
            return NextAsync(cancel).GetAwaiter().GetResult();
        }

        /// <summary>Waits for the job to end, taking no event. The token ends the wait and not the job.</summary>
        public void Wait(CancellationToken cancel = default(CancellationToken))
        {
            WaitAsync(cancel).GetAwaiter().GetResult();
        }

        /// <summary>Done when there is news of the job; where its events go to a queue of the program, after a
        /// while.</summary>
        private System.Threading.Tasks.Task News()
        {
            return queued ? System.Threading.Tasks.Task.Delay(10) : handle.Waiter.Next();
        }

        /// <summary>Whether there was an event or the end, which is null, without waiting.</summary>
        private bool TryTake(out Event taken)
        {
            taken = null;
            while (!over)
            {
                IntPtr drained = IntPtr.Zero;
                IntPtr error;
                long count = QuireNative.quire_job_drain(handle, 0, CancelHandle.None, &drained, (UIntPtr)1, out error);
                QuireException.ThrowIf(error);
                if (count == QuireNative.QUIRE_WAIT_END) Finish();
                if (count <= 0) break;
                Event read = Event.Take(drained);
                if (read.IsLast) Finish();
                if (read.Error != null) throw read.Error;
                if (read.Kind == EventKind.Started) continue;
                taken = read;
                return true;
            }
            return over;
        }

        private bool IsOver()
        {
            return Call.Get((out IntPtr e) => QuireNative.quire_job_wait(handle, 0, CancelHandle.None, out e)) == 1;
        }

        private void Finish()
        {
            over = true;
            if (!queued) handle.Waiter.End();
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

        /// <summary>Takes generated tokens back, all but the first, and lets the job go on; an event says what
        /// stands.</summary>
        public void Rewind(int newTokens)
        {
            Call.Get((out IntPtr e) => QuireNative.quire_job_rewind(handle, newTokens, out e));
        }

        private static QueueHandle NoQueue()
        {
            throw new QuireException(ErrorCode.Closed, "the job is over");
        }

        /// <summary>A second job that goes on from the tokens of this one. Of the request count Seed, UserData, Queue
        /// and MaxNewTokens.</summary>
        public Job Fork(Request request)
        {
            RequireOpen();
            return dispatcher.Submit(request, NoQueue, filled => new Job(
                Call.Get((out IntPtr e) => QuireNative.quire_job_fork(handle, filled, out e)), dispatcher, request));
        }

        /// <summary>A number that no other job of the process has or will have: Event.JobId.</summary>
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
            ending.Dispose();
            handle.Dispose();
        }
    }
}
