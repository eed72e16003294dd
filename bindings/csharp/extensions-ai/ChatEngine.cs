using System;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.Extensions.AI;

namespace Quire.Extensions.AI
{
    /// <summary>A model that conversations are answered by: its cache, and how it writes reasoning and calls. What the
    /// clients of this package stand on. Settings belong to one thread while they are filled; any thread may use the
    /// clients at any time.</summary>
    public sealed class ChatEngine : IDisposable
    {
        private const string Auto = "auto";

        private readonly Runtime? owned; // null where model and cache are the program's
        private readonly bool recommendsSampling;
        private ChatTemplate? ownedTemplate;

        /// <summary>Answers by a model of the program, which disposes both; a cache may serve other jobs too.</summary>
        public ChatEngine(Model model, Cache cache) : this(model, cache, null) { }

        private ChatEngine(Model model, Cache cache, Runtime? owned)
        {
            Model = model ?? throw new ArgumentNullException(nameof(model));
            Cache = cache ?? throw new ArgumentNullException(nameof(cache));
            this.owned = owned;
            recommendsSampling = RecommendsSampling();
        }

        /// <summary>Loads the model of a directory, and takes its cache; both go when this is disposed. The token ends the
        /// load.</summary>
        public static ChatEngine Load(string path, ModelOptions? modelOptions = null, CacheOptions? cacheOptions = null,
            CancellationToken cancel = default)
        {
            var runtime = new Runtime();
            Model? model = null;
            try
            {
                model = runtime.LoadModel(path, modelOptions, cancel);
                var engine = new ChatEngine(model, model.CreateCache(cacheOptions ?? new CacheOptions()), runtime);
                engine.OpenTemplate(model.Path());
                engine.Name = System.IO.Path.GetFileName(System.IO.Path.GetFullPath(path).TrimEnd('/', '\\'));
                return engine;
            }
            catch
            {
                model?.Dispose();
                runtime.Dispose();
                throw;
            }
        }

        /// <summary>The same on a thread of the pool.</summary>
        public static Task<ChatEngine> LoadAsync(string path, ModelOptions? modelOptions = null,
            CacheOptions? cacheOptions = null, CancellationToken cancel = default) =>
            Task.Run(() => Load(path, modelOptions, cacheOptions, cancel), cancel);

        /// <summary>Every model can be a chat client; this one answers by the engine.</summary>
        public IChatClient AsChatClient() => new QuireChatClient(this);

        /// <summary>Vectors of length 1 of the engine's model.</summary>
        public IEmbeddingGenerator<string, Embedding<float>> AsEmbeddingGenerator(Pooling pooling = Pooling.Mean) =>
            new QuireEmbeddingGenerator(this, pooling);

        public Model Model { get; }

        public Cache Cache { get; }

        /// <summary>What answers call the model; by default the name of its directory.</summary>
        public string? Name { get; set; }

        /// <summary>The template of all conversations; by default that of the model's directory. It stays the
        /// caller's.</summary>
        public ChatTemplate? ChatTemplate { get; set; }

        /// <summary>The dialect that the model writes calls in; by default the one that its template tells.</summary>
        public string Dialect { get; set; } = Auto;

        /// <summary>False: the model never reasons before it answers, and marks of reasoning are text.</summary>
        public bool Thinks { get; set; } = true;

        /// <summary>A request that samples as the model's authors recommend, where they do, with a seed of its own for each
        /// submit.</summary>
        internal Request CreateRequest()
        {
            var request = new Request { RandomSeed = true };
            if (recommendsSampling) request.SamplingOfModel = Model;
            return request;
        }

        /// <summary>Hands a conversation over. The token cancels the job.</summary>
        internal Job Submit(Conversation conversation, Request request, CancellationToken cancel)
        {
            request.Parts.Add(PromptPart.OfMessages(conversation.Messages));
            request.ResponseDialect = Dialect;
            if (!Thinks) request.Reasoning = ReasoningStart.Off;
            if (conversation.HasTools) request.Tools = conversation.Tools;
            if (ChatTemplate != null) request.ChatTemplate = ChatTemplate;
            if (!conversation.IsConstrained) return Cache.Submit(request, cancel);
            using var constraint = Model.CreateResponseConstraint(conversation.Rules(ResolvedDialect()));
            request.Constraint = constraint;
            return Cache.Submit(request, cancel);
        }

        private string ResolvedDialect() =>
            Dialect == Auto && ChatTemplate != null ? ChatTemplate.Dialect(Model) : Dialect;

        private bool RecommendsSampling()
        {
            try
            {
                Cache.Query(new Request { SamplingOfModel = Model, Tokens = new[] { 0 } }); // computes nothing
                return true;
            }
            catch (QuireNotFoundException)
            {
                return false;
            }
        }

        /// <summary>A directory without a template is no failure: one may be set, and embeddings need none.</summary>
        private void OpenTemplate(string path)
        {
            try
            {
                ChatTemplate = ownedTemplate = ChatTemplate.Open(path);
            }
            catch (QuireNotFoundException) { }
        }

        /// <summary>Frees what Load made; its jobs end with ErrorCode.Closed.</summary>
        public void Dispose()
        {
            if (owned == null) return;
            Cache.Dispose();
            Model.Dispose();
            owned.Dispose();
            ownedTemplate?.Dispose();
        }
    }
}
