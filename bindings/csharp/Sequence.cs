using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Quire.Native
{
    /// <summary>A sequence for `await foreach`: the results of a function until it returns null.</summary>
    internal sealed class Sequence<T> : IAsyncEnumerable<T>, IAsyncEnumerator<T> where T : class
    {
        private readonly Func<CancellationToken, Task<T>> next;
        private readonly CancellationToken cancel;

        public T Current { get; private set; }

        public Sequence(Func<CancellationToken, Task<T>> next, CancellationToken cancel = default(CancellationToken))
        {
            this.next = next;
            this.cancel = cancel;
        }

        public IAsyncEnumerator<T> GetAsyncEnumerator(CancellationToken cancel) => new Sequence<T>(next, cancel);

        public ValueTask<bool> MoveNextAsync() => new ValueTask<bool>(Move());

        private async Task<bool> Move()
        {
            Current = await next(cancel).ConfigureAwait(false);
            return Current != null;
        }

        public ValueTask DisposeAsync() => default(ValueTask);
    }
}
