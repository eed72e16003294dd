using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Quire.Native
{
    /// <summary>Waits in one place for the jobs of a runtime: one thread sits in the library, in a private queue, as
    /// long as there are jobs, and wakes those that wait for one of them. It takes no event: what nobody reads stays
    /// with its job and under its EventPolicy.</summary>
    internal sealed unsafe class Dispatcher
    {
        /// <summary>Jobs that are told at once.</summary>
        private const int MaxReady = 256;

        private readonly Dictionary<long, Waiter> waiting = new Dictionary<long, Waiter>();
        private QueueHandle queue; // null while there is nothing that uses it
        private int users; // jobs, submits under way, and aliases

        /// <summary>Makes a native call with a request, whose events come to the dispatcher unless it names a
        /// queue.</summary>
        public T Submit<T>(Request request, Func<QueueHandle> create, Func<JobRequestHandle, T> call)
        {
            using (JobRequestHandle filled = request.ToNative())
            {
                if (request.Queue != null) return call(filled);
                QueueHandle acquired = Acquire(create);
                try
                {
                    Call.Get((out IntPtr e) => QuireNative.quire_job_request_set_queue(filled, acquired, out e));
                    return call(filled);
                }
                finally
                {
                    Release();
                }
            }
        }

        /// <summary>The queue, for what releases it later; without one create makes it, which is null where the queue is
        /// there as long as what is submitted to is in use.</summary>
        public QueueHandle Acquire(Func<QueueHandle> create)
        {
            lock (waiting)
            {
                if (queue == null)
                {
                    if (create == null) throw QuireException.Of(ErrorCode.Closed, "it is over");
                    QueueHandle made = create();
                    new Thread(() => Run(made)) { IsBackground = true, Name = "quire-dispatcher" }.Start();
                    queue = made;
                }
                users++;
                return queue;
            }
        }

        public void Release()
        {
            lock (waiting)
            {
                if (--users > 0) return;
                queue.Dispose(); // which ends the wait in it
                queue = null;
            }
        }

        /// <summary>The waiter of a job that was submitted just now.</summary>
        public Waiter Add(long id)
        {
            lock (waiting)
            {
                var waiter = new Waiter(this, id);
                users++;
                waiting[id] = waiter;
                return waiter;
            }
        }

        public void Remove(long id)
        {
            lock (waiting)
            {
                if (waiting.Remove(id)) Release();
            }
        }

        private void Run(QueueHandle from)
        {
            var ids = new long[MaxReady];
            using (var pinned = new Pinned(ids))
            using (var exit = new Cancel(CancellationToken.None))
            {
                for (long count = Ready(from, exit, pinned); count > 0; count = Ready(from, exit, pinned))
                    for (int i = 0; i < count; i++) Wake(ids[i]);
            }
        }

        /// <summary>How many jobs have news; 0 or less with the last job.</summary>
        private static long Ready(QueueHandle from, Cancel exit, Pinned ids)
        {
            try
            {
                return exit.During(cancel => Call.Get((out IntPtr e) => QuireNative.quire_queue_ready(from,
                    QuireNative.QUIRE_WAIT_FOREVER, cancel, (long*)ids.Address, ids.Length, out e)));
            }
            catch (ObjectDisposedException)
            {
                return 0;
            }
            catch (QuireException)
            {
                return 0; // the queue was freed meanwhile
            }
        }

        private void Wake(long id)
        {
            Waiter waiter;
            lock (waiting) waiting.TryGetValue(id, out waiter);
            if (waiter != null) waiter.Wake();
        }
    }

    /// <summary>Lets any number of threads and tasks wait for news of one job.</summary>
    internal sealed class Waiter
    {
        private readonly Dispatcher dispatcher;
        private readonly long id;
        private TaskCompletionSource<bool> news; // done with the next news; null where nobody waits

        public Waiter(Dispatcher dispatcher, long id)
        {
            this.dispatcher = dispatcher;
            this.id = id;
        }

        /// <summary>Done when there is news after this call. Whoever waits asks the job once more before it
        /// does.</summary>
        public Task Next()
        {
            lock (this)
            {
                if (news == null)
                    news = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
                return news.Task;
            }
        }

        public void Wake()
        {
            TaskCompletionSource<bool> told;
            lock (this)
            {
                told = news;
                news = null;
            }
            if (told != null) told.TrySetResult(true);
        }

        /// <summary>The last news.</summary>
        public void End()
        {
            dispatcher.Remove(id);
            Wake();
        }
    }
}
