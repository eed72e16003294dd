using System;
using Microsoft.Extensions.AI;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.DependencyInjection.Extensions;

namespace Quire.Extensions.AI
{
    /// <summary>Registers the engine, its chat client and its embedding generator as services of a
    /// program.</summary>
    public static class QuireServices
    {
        /// <summary>Adds an engine that loads the model of a directory on first use; the container disposes
        /// it.</summary>
        public static IServiceCollection AddQuire(this IServiceCollection services, string path,
            ModelOptions? modelOptions = null, CacheOptions? cacheOptions = null) =>
            services.AddQuire(provider => ChatEngine.Load(path, modelOptions, cacheOptions));

        /// <summary>Adds an engine that the program creates; the container disposes it.</summary>
        public static IServiceCollection AddQuire(this IServiceCollection services,
            Func<IServiceProvider, ChatEngine> create)
        {
            if (services == null) throw new ArgumentNullException(nameof(services));
            services.TryAddSingleton(create ?? throw new ArgumentNullException(nameof(create)));
            services.TryAddSingleton(provider => provider.GetRequiredService<ChatEngine>().AsChatClient());
            services.TryAddSingleton(provider => provider.GetRequiredService<ChatEngine>().AsEmbeddingGenerator());
            return services;
        }
    }
}
