using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.Extensions.AI;

namespace Quire.Extensions.AI
{
    /// <summary>A generator of vectors of length 1 that uses a model in this process. The texts of a call are
    /// computed together.</summary>
    public sealed class QuireEmbeddingGenerator : IEmbeddingGenerator<string, Embedding<float>>
    {
        private readonly ChatEngine engine;
        private readonly Pooling pooling;
        private readonly int dimensions;

        /// <summary>Creates a generator. The caller owns the engine. pooling is the way to compute one vector
        /// from the hidden states of a text; the model's authors define it.</summary>
        public QuireEmbeddingGenerator(ChatEngine engine, Pooling pooling = Pooling.Mean)
        {
            this.engine = engine ?? throw new ArgumentNullException(nameof(engine));
            this.pooling = pooling;
            dimensions = engine.Model.Info().HiddenSize;
        }

        /// <inheritdoc/>
        public async Task<GeneratedEmbeddings<Embedding<float>>> GenerateAsync(IEnumerable<string> values,
            EmbeddingGenerationOptions? options = null, CancellationToken cancellationToken = default)
        {
            if (values == null) throw new ArgumentNullException(nameof(values));
            if (options?.Dimensions is int wanted && wanted != dimensions)
                throw new NotSupportedException("EmbeddingGenerationOptions.Dimensions: " + wanted + " is not supported; vectors of this " +
                    "model have " + dimensions + " dimensions");
            var jobs = new List<Job>();
            try
            {
                foreach (string text in values)
                    jobs.Add(engine.Cache.Submit(new Request { Prompt = text, Kind = JobKind.Embed, Pooling = pooling },
                        cancellationToken));
                return await Collect(jobs, options?.ModelId ?? engine.Name, cancellationToken).ConfigureAwait(false);
            }
            finally
            {
                jobs.ForEach(job => job.Dispose()); // cancels unfinished jobs
            }
        }

        private static async Task<GeneratedEmbeddings<Embedding<float>>> Collect(IList<Job> jobs, string? modelId,
            CancellationToken cancel)
        {
            var made = new GeneratedEmbeddings<Embedding<float>>(jobs.Count);
            long tokens = 0;
            foreach (Job job in jobs)
            {
                while (await job.NextAsync(cancel).ConfigureAwait(false) is { } taken)
                    tokens += taken.Usage?.PromptTokens ?? 0;
                made.Add(new Embedding<float>(job.Embedding()) { ModelId = modelId, CreatedAt = DateTimeOffset.UtcNow });
            }
            made.Usage = new UsageDetails { InputTokenCount = tokens, TotalTokenCount = tokens };
            return made;
        }

        /// <summary>Returns EmbeddingGeneratorMetadata, this, its ChatEngine, Model or Cache.</summary>
        public object? GetService(Type serviceType, object? serviceKey = null)
        {
            if (serviceType == null) throw new ArgumentNullException(nameof(serviceType));
            if (serviceKey != null) return null;
            var metadata = new EmbeddingGeneratorMetadata("quire", null, engine.Name, dimensions);
            return new object[] { metadata, this, engine, engine.Model, engine.Cache }
                .FirstOrDefault(serviceType.IsInstanceOfType);
        }

        /// <summary>Does nothing: the caller owns the engine.</summary>
        public void Dispose() { }
    }
}
