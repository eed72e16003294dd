using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;
using Quire.Native;

namespace Quire
{
    /// <summary>What waits for a job without a thread.</summary>
    public sealed partial class Job
    {
        /// <summary>As Next, without holding a thread.</summary>
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

        /// <summary>As Wait, without holding a thread.</summary>
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

        /// <summary>The events as NextAsync gives them, for `await foreach`. Leaving the loop leaves the job
        /// running.</summary>
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
