using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;
using Quire.Native;

namespace Quire
{
    public sealed unsafe partial class EventQueue
    {
        /// <summary>Maximum number of events that one call of Drain takes.</summary>
        private const int MaxDrained = 1024;

        /// <summary>Takes the next event. The failure of a job is in Event.Error. Exceptions are those of the
        /// queue itself: ErrorCode.Closed once it is shut down and empty. Cancelling the token ends the
        /// wait.</summary>
        public Event Next(CancellationToken cancel = default(CancellationToken)) => Drain(1, cancel)[0];

        /// <summary>Waits for an event and takes up to maxEvents that are there, otherwise like
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

        private static void Free(IntPtr taken)
        {
            IntPtr error;
            QuireNative.quire_event_free(taken, out error);
            if (error != IntPtr.Zero) QuireNative.quire_error_free(error);
        }

        /// <summary>Copies events and frees all of them, even if one cannot be read.</summary>
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
                while (next < count) Free(taken[next++]);
            }
            return events;
        }
    }

    public sealed partial class EventQueue
    {
        private readonly SemaphoreSlim turn = new SemaphoreSlim(1, 1); // serializes the waiting tasks

        /// <summary>Does the same as Next without blocking the calling thread. One thread of the pool waits
        /// for all tasks.</summary>
        public Task<Event> NextAsync(CancellationToken cancel = default(CancellationToken))
        {
            RequireOpen();
            return First(cancel);
        }

        private async Task<Event> First(CancellationToken cancel) =>
            (await DrainAsync(1, cancel).ConfigureAwait(false))[0];

        /// <summary>Does the same as Drain without blocking the calling thread.</summary>
        public Task<IList<Event>> DrainAsync(int maxEvents, CancellationToken cancel = default(CancellationToken))
        {
            RequireOpen();
            return InTurn(maxEvents, cancel);
        }

        private void RequireOpen()
        {
            if (Handle.IsClosed) throw new ObjectDisposedException("EventQueue");
        }

        private async Task<IList<Event>> InTurn(int maxEvents, CancellationToken cancel)
        {
            await turn.WaitAsync(cancel).ConfigureAwait(false);
            try
            {
                return await Task.Run(() => Drain(maxEvents, cancel), cancel).ConfigureAwait(false);
            }
            finally
            {
                turn.Release();
            }
        }

        /// <summary>Returns the events of NextAsync for `await foreach`, until the queue is shut down and
        /// empty.</summary>
        public IAsyncEnumerable<Event> Events()
        {
            RequireOpen();
            return new Sequence<Event>(UntilShutdown);
        }

        private async Task<Event> UntilShutdown(CancellationToken cancel)
        {
            try
            {
                return await NextAsync(cancel).ConfigureAwait(false);
            }
            catch (QuireClosedException)
            {
                return null;
            }
        }
    }
}
