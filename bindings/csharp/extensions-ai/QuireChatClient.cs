using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.Extensions.AI;

namespace Quire.Extensions.AI
{
    /// <summary>A chat client that uses a model in this process. Safe for concurrent use; answers block no
    /// thread. Cancelling an answer, or leaving its stream, ends the job within a step.</summary>
    public sealed class QuireChatClient : IChatClient
    {
        private readonly ChatClientMetadata metadata;

        /// <summary>Creates a client. The caller owns the engine.</summary>
        public QuireChatClient(ChatEngine engine)
        {
            Engine = engine ?? throw new ArgumentNullException(nameof(engine));
            metadata = new ChatClientMetadata("quire", null, engine.Name);
        }

        internal ChatEngine Engine { get; }

        /// <inheritdoc/>
        public Task<ChatResponse> GetResponseAsync(IEnumerable<ChatMessage> messages, ChatOptions? options = null,
            CancellationToken cancellationToken = default) =>
            GetStreamingResponseAsync(messages, options, cancellationToken).ToChatResponseAsync(cancellationToken);

        /// <inheritdoc/>
        public IAsyncEnumerable<ChatResponseUpdate> GetStreamingResponseAsync(IEnumerable<ChatMessage> messages,
            ChatOptions? options = null, CancellationToken cancellationToken = default)
        {
            if (messages == null) throw new ArgumentNullException(nameof(messages));
            return Stream(messages, options, cancellationToken);
        }

        private async IAsyncEnumerable<ChatResponseUpdate> Stream(IEnumerable<ChatMessage> messages,
            ChatOptions? options, [EnumeratorCancellation] CancellationToken cancel)
        {
            using Job job = Requests.Submit(this, messages, options, cancel);
            var answer = new Answer(job.Id, options?.ModelId ?? Engine.Name);
            while (await job.NextAsync(cancel).ConfigureAwait(false) is { } taken)
            {
                cancel.ThrowIfCancellationRequested();
                ChatResponseUpdate? update = answer.Take(taken);
                if (update != null) yield return update;
            }
        }

        /// <summary>Returns ChatClientMetadata, this, its ChatEngine, Model or Cache.</summary>
        public object? GetService(Type serviceType, object? serviceKey = null)
        {
            if (serviceType == null) throw new ArgumentNullException(nameof(serviceType));
            if (serviceKey != null) return null;
            foreach (object service in new object[] { metadata, this, Engine, Engine.Model, Engine.Cache })
                if (serviceType.IsInstanceOfType(service)) return service;
            return null;
        }

        /// <summary>Does nothing: the caller owns the engine.</summary>
        public void Dispose() { }
    }
}
