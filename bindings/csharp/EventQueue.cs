using System;
using System.Collections.Generic;
using System.Threading;
using Quire.Native;

namespace Quire
{
    /// <summary>One stream of the events of many jobs, those whose Request.Queue it is: a service waits in one place
    /// and tells its jobs apart by Event.UserData or Event.JobId. Any thread may use it at any time; each event is
    /// given to one of those that wait. It keeps no job alive.</summary>
    public sealed unsafe partial class EventQueue : IDisposable
    {
        /// <summary>The most that one call of Drain takes.</summary>
        private const int MaxDrained = 1024;

        internal QueueHandle Handle { get; private set; }

        internal EventQueue(QueueHandle handle)
        {
            Handle = handle;
        }

        /// <summary>Takes the next event. The failure of a job is its Event.Error; what is thrown is of the queue
        /// itself: ErrorCode.Closed once it is shut down and nothing is left in it. The token ends the
        /// wait.</summary>
        public Event Next(CancellationToken cancel = default(CancellationToken))
        {
            return Drain(1, cancel)[0];
        }

        /// <summary>Takes up to maxEvents at once, waiting for the first and not for the others; otherwise as
        /// Next.</summary>
        public IList<Event> Drain(int maxEvents, CancellationToken cancel = default(CancellationToken))
        {
            cancel.ThrowIfCancellationRequested();
            IList<Event> events = TryDrain(maxEvents, 0, CancelHandle.None);
            if (events.Count > 0) return events;
            using (var ending = new Cancel(cancel))
                events = ending.During(value => TryDrain(maxEvents, QuireNative.QUIRE_WAIT_FOREVER, value));
            if (events.Count == 0) throw new OperationCanceledException(cancel);
            return events;
        }

        private IList<Event> TryDrain(int maxEvents, long timeout, CancelHandle cancel)
        {
            var taken = new IntPtr[Math.Max(0, Math.Min(maxEvents, MaxDrained))];
            long count;
            using (var pinned = new Pinned(taken))
            {
                count = Call.Get((out IntPtr e) => QuireNative.quire_queue_drain(Handle, timeout, cancel,
                    (IntPtr*)pinned.Address, pinned.Length, out e));
            }
            if (count == QuireNative.QUIRE_WAIT_END)
                throw QuireException.Of(ErrorCode.Closed, "the queue was shut down");
            return Take(taken, (int)Math.Max(0, count));
        }

        /// <summary>Copies events and frees all of them, also where one cannot be read.</summary>
        private static IList<Event> Take(IntPtr[] taken, int count)
        {
            var events = new List<Event>(count);
            int next = 0;
            try
            {
                while (next < count) events.Add(Event.Take(taken[next++]));
            }
            finally
            {
                while (next < count) Event.Free(taken[next++]);
            }
            return events;
        }

        /// <summary>Shuts the queue down and frees it.</summary>
        public void Dispose()
        {
            Handle.Dispose();
        }
    }
}
