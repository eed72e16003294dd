using System;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.Extensions.AI;

namespace Quire.Extensions.AI
{
    /// <summary>A model for conversations: its cache, and its format of reasoning and calls. The clients of
    /// this package use it. Settings are not safe for concurrent use; the clients are.</summary>
    public sealed class ChatEngine : IDisposable
    {
        private const string Auto = "auto";

        private readonly Runtime? owned; // null if the program owns model and cache
        private readonly bool recommendsSampling;
        private ChatTemplate? ownedTemplate;

        /// <summary>Creates an engine for a model and cache of the program, which disposes both. The cache
        /// may serve other jobs too.</summary>
        public ChatEngine(Model model, Cache cache) : this(model, cache, null) { }

        private ChatEngine(Model model, Cache cache, Runtime? owned)
        {
            Model = model ?? throw new ArgumentNullException(nameof(model));
            Cache = cache ?? throw new ArgumentNullException(nameof(cache));
            this.owned = owned;
            recommendsSampling = RecommendsSampling();
        }

        /// <summary>Loads the model of a directory and creates its cache; Dispose frees both. Cancelling the
        /// token ends the load.</summary>
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

        /// <summary>Does the same on a thread of the pool.</summary>
        public static Task<ChatEngine> LoadAsync(string path, ModelOptions? modelOptions = null,
            CacheOptions? cacheOptions = null, CancellationToken cancel = default) =>
            Task.Run(() => Load(path, modelOptions, cacheOptions, cancel), cancel);

        /// <summary>Creates a chat client that uses this engine.</summary>
        public IChatClient AsChatClient() => new QuireChatClient(this);

        /// <summary>Creates a generator of embeddings of length 1 that uses the engine's model.</summary>
        public IEmbeddingGenerator<string, Embedding<float>> AsEmbeddingGenerator(Pooling pooling = Pooling.Mean) =>
            new QuireEmbeddingGenerator(this, pooling);

        /// <summary>The model; the engine owns it if it has loaded it.</summary>
        public Model Model { get; }

        /// <summary>The cache; the engine owns it if it has created it.</summary>
        public Cache Cache { get; }

        /// <summary>The model name in answers; by default the name of its directory.</summary>
        public string? Name { get; set; }

        /// <summary>The template of all conversations; by default that of the model's directory. The caller
        /// owns it.</summary>
        public ChatTemplate? ChatTemplate { get; set; }

        /// <summary>The dialect of calls; by default that of the template.</summary>
        public string Dialect { get; set; } = Auto;

        /// <summary>If false, the model never reasons before it answers, and reasoning markers are
        /// text.</summary>
        public bool Thinks { get; set; } = true;

        /// <summary>Creates a request with the sampling that the model's authors recommend, if any, and a
        /// random seed for each submit.</summary>
        internal Request CreateRequest()
        {
            var request = new Request { RandomSeed = true };
            if (recommendsSampling) request.SamplingOfModel = Model;
            return request;
        }

        /// <summary>Submits a conversation. Cancelling the token cancels the job.</summary>
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

        /// <summary>Opens the template. A directory without one is no failure: one may be set later, and
        /// embeddings need none.</summary>
        private void OpenTemplate(string path)
        {
            try
            {
                ChatTemplate = ownedTemplate = ChatTemplate.Open(path);
            }
            catch (QuireNotFoundException) { }
        }

        /// <summary>Frees the objects of Load; its jobs end with ErrorCode.Closed.</summary>
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
