using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;
using Quire.Native;

namespace Quire
{
    /// <summary>What waits in a queue without holding the thread that calls.</summary>
    public sealed partial class EventQueue
    {
        private readonly SemaphoreSlim turn = new SemaphoreSlim(1, 1); // of the tasks that wait

        /// <summary>As Next, without holding the thread that calls: however many tasks wait, one thread of the pool does
        /// it for them.</summary>
        public Task<Event> NextAsync(CancellationToken cancel = default(CancellationToken))
        {
            RequireOpen();
            return First(cancel);
        }

        private async Task<Event> First(CancellationToken cancel)
        {
            return (await DrainAsync(1, cancel).ConfigureAwait(false))[0];
        }

        /// <summary>As Drain, likewise.</summary>
        public Task<IList<Event>> DrainAsync(int maxEvents, CancellationToken cancel = default(CancellationToken))
        {
            RequireOpen();
            return InTurn(maxEvents, cancel);
        }

        private void RequireOpen()
        {
            if (Handle.IsClosed) throw new System.ObjectDisposedException("EventQueue");
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

        /// <summary>The events as NextAsync gives them, for `await foreach`, until the queue is shut down and
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
