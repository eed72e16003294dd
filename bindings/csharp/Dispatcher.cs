using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Quire.Native
{
    /// <summary>Waits for all jobs of a runtime. While there are jobs, one thread waits in the library on a
    /// private queue, and wakes the threads and tasks that wait for one of the jobs. It takes no event:
    /// events that are not read stay with their job, subject to its EventPolicy.</summary>
    internal sealed unsafe class Dispatcher
    {
        /// <summary>Number of jobs that one call can report.</summary>
        private const int MaxReady = 256;

        private readonly Dictionary<long, Waiter> waiting = new Dictionary<long, Waiter>();
        private QueueHandle queue; // null while it has no users
        private int users; // jobs, running submits, and aliases

        /// <summary>Makes a native call with a request. Its events go to the dispatcher, unless the request
        /// names a queue.</summary>
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

        /// <summary>Returns the queue; the caller must release it later. If there is no queue, create makes
        /// one. create is null if the queue exists as long as the target of the submit is in use.</summary>
        public QueueHandle Acquire(Func<QueueHandle> create)
        {
            lock (waiting)
            {
                if (queue == null)
                {
                    if (create == null) throw QuireException.Of(ErrorCode.Closed, "the job is closed or has ended");
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
                queue.Dispose(); // ends the thread's wait
                queue = null;
            }
        }

        /// <summary>Creates the waiter of a job that was just submitted.</summary>
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

        /// <summary>Returns the number of jobs with events; 0 or less after the last job.</summary>
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

    /// <summary>Lets any number of threads and tasks wait for events of one job.</summary>
    internal sealed class Waiter
    {
        private readonly Dispatcher dispatcher;
        private readonly long id;
        private TaskCompletionSource<bool> news; // completed at the next event; null if there is no waiting task

        public Waiter(Dispatcher dispatcher, long id)
        {
            this.dispatcher = dispatcher;
            this.id = id;
        }

        /// <summary>Returns a task that completes at an event after this call. The caller must check the job
        /// once more before it waits.</summary>
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

        /// <summary>Removes the waiter from the dispatcher and wakes all waiting threads and tasks.</summary>
        public void End()
        {
            dispatcher.Remove(id);
            Wake();
        }
    }
}
