using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;
using System.Runtime.CompilerServices;
using Quire.Native;

namespace Quire
{
    /// <summary>One submitted piece of work. Safe for concurrent use; each event is delivered to one of the
    /// callers.</summary>
    public sealed unsafe partial class Job
    {
        private readonly Waiter waiter; // null if its events go to a queue of the program
        private volatile bool over;

        /// <summary>Takes ownership of a native job. Cancelling the token cancels the job.</summary>
        internal Job(IntPtr job, Dispatcher dispatcher, Request request,
            CancellationToken cancel = default(CancellationToken))
        {
            this.dispatcher = dispatcher;
            Handle = new JobHandle(job);
            long id = Id;
            if (request.Queue == null) waiter = dispatcher.Add(id);
            var held = new WeakReference<JobHandle>(Handle); // a job that is never disposed is freed by the garbage collector
            CancellationTokenRegistration ending = cancel.Register(() => CancelHeld(held));
            Handle.Freed = () =>
            {
                if (waiter != null) waiter.End();
                ending.Dispose();
            };
        }

        private static void CancelHeld(WeakReference<JobHandle> held)
        {
            JobHandle job;
            if (!held.TryGetTarget(out job)) return;
            try
            {
                Call.Get((out IntPtr e) => QuireNative.quire_job_cancel(job, out e));
            }
            catch (ObjectDisposedException) { } // disposed meanwhile
            catch (QuireBadHandleException) { } // freed between the check and the call
        }

        /// <summary>Waits for the next event other than Started, or the final one; returns null after that.
        /// Throws the failure of the job. Cancelling the token ends the wait but not the job.</summary>
        [return: Nullable(2)]
        public Event Next(CancellationToken cancel = default(CancellationToken)) =>
            NextAsync(cancel).GetAwaiter().GetResult();

        /// <summary>Waits for the job to end, without taking events. Cancelling the token ends the wait but
        /// not the job.</summary>
        public void Wait(CancellationToken cancel = default(CancellationToken)) =>
            WaitAsync(cancel).GetAwaiter().GetResult();

        /// <summary>Returns a task that completes at an event of the job. If the events go to a queue of the
        /// program, it completes after a short time.</summary>
        private Task News() => waiter == null ? Task.Delay(10) : waiter.Next();

        /// <summary>Takes an event without waiting. Returns true with the event, or with null at the
        /// end.</summary>
        private bool TryTake(out Event taken)
        {
            taken = null;
            while (!over)
            {
                IntPtr drained = IntPtr.Zero;
                IntPtr error;
                long count = QuireNative.quire_job_drain(Handle, 0, CancelHandle.None, &drained, (UIntPtr)1, out error);
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

        private bool IsOver() =>
            Call.Get((out IntPtr e) => QuireNative.quire_job_wait(Handle, 0, CancelHandle.None, out e)) == 1;

        private void Finish()
        {
            over = true;
            if (waiter != null) waiter.End();
        }
    }

    public sealed partial class Job
    {
        /// <summary>Does the same as Next without blocking a thread.</summary>
        [return: Nullable(new byte[] { 1, 2 })]
        public Task<Event> NextAsync(CancellationToken cancel = default(CancellationToken))
        {
            RequireOpen();
            return Take(cancel);
        }

        private async Task<Event> Take(CancellationToken cancel)
        {
            while (true)
            {
                cancel.ThrowIfCancellationRequested();
                Task news = News();
                Event taken;
                if (TryTake(out taken)) return taken;
                await Until(news, cancel).ConfigureAwait(false);
            }
        }

        /// <summary>Does the same as Wait without blocking a thread.</summary>
        public Task WaitAsync(CancellationToken cancel = default(CancellationToken))
        {
            RequireOpen();
            return End(cancel);
        }

        private async Task End(CancellationToken cancel)
        {
            while (true)
            {
                cancel.ThrowIfCancellationRequested();
                Task news = News();
                if (IsOver()) return;
                await Until(news, cancel).ConfigureAwait(false);
            }
        }

        /// <summary>Returns the events of NextAsync for `await foreach`. Leaving the loop does not end the
        /// job.</summary>
        public IAsyncEnumerable<Event> Events()
        {
            RequireOpen();
            return new Sequence<Event>(NextAsync);
        }

        private void RequireOpen()
        {
            if (Handle.IsClosed) throw new ObjectDisposedException("Job");
        }

        private static async Task Until(Task news, CancellationToken cancel)
        {
            if (!cancel.CanBeCanceled)
            {
                await news.ConfigureAwait(false);
                return;
            }
            var ended = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
            using (cancel.Register(() => ended.TrySetResult(true)))
            {
                await Task.WhenAny(news, ended.Task).ConfigureAwait(false);
            }
        }
    }
}
