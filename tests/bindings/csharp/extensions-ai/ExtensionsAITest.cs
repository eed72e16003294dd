using System;
using System.Collections.Generic;
using System.Linq;
using System.Text.Json;
using System.Text.Json.Serialization;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;
using Microsoft.Extensions.AI;
using Microsoft.Extensions.DependencyInjection;
using Quire;
using Quire.Extensions.AI;

/// <summary>The interfaces of Microsoft.Extensions.AI on the embedded model, compared with jobs of the C#
/// layer.</summary>
internal static class ExtensionsAITest
{
    /// <summary>A template of a model family that writes calls in the hermes dialect.</summary>
    private const string Template = "{% for tool in tools or [] %}<tool_call>{{ tool | tojson }}</tool_call>\n{% endfor %}"
        + "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}"
        + "{% for call in message.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
        + "<|im_start|>assistant\n";
    private const string Question = "How warm is it?";
    private const string QuestionJson = "[{\"role\": \"user\", \"content\": \"How warm is it?\"}]";
    private const string Schema = "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"enum\": "
        + "[\"Oslo\", \"Rome\"]}}, \"required\": [\"city\"], \"additionalProperties\": false}";
    private const string Tools = "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"description\": \"of a city\", "
        + "\"parameters\": " + Schema + "}}]";

    public static int Main(string[] arguments) => Fixture.Run(arguments, AnAnswerEqualsThatOfTheJob, ADirectoryIsAModel,
        ServicesAreFound, AContainerHasThem, ToolsAreCalledAndTheirResultsRead, AClientThatInvokesFunctionsWrapsIt, AnAnswerMatchesItsSchema,
        ReasoningIsSeparatedFromTheAnswer, OptionsTakeEffectAndAreRefusedByName, WaitsBlockNoThread, ACancelEndsTheJob,
        VectorsEqualThoseOfTheJobs);

    private static JsonElement Json(string text) => JsonDocument.Parse(text).RootElement;

    private sealed class Weather : AIFunction
    {
        private readonly bool isStrict;

        public Weather(bool isStrict = false)
        {
            this.isStrict = isStrict;
        }

        public override string Name => "weather";
        public override string Description => "of a city";
        public override JsonElement JsonSchema => Json(Schema);

        public override IReadOnlyDictionary<string, object?> AdditionalProperties =>
            isStrict ? new Dictionary<string, object?> { ["strict"] = true } : new Dictionary<string, object?>();

        protected override ValueTask<object?> InvokeCoreAsync(AIFunctionArguments arguments, CancellationToken cancel) =>
            new ValueTask<object?>("17 degrees in " + arguments["city"]);
    }

    private static ChatOptions Greedy(int maxOutputTokens, params AITool[] tools) =>
        new ChatOptions { Temperature = 0, MaxOutputTokens = maxOutputTokens, Tools = tools.ToList() };

    private static List<ChatMessage> Asked(params ChatMessage[] after) =>
        new[] { new ChatMessage(ChatRole.User, Question) }.Concat(after).ToList();

    private static ChatResponse Answer(IChatClient client, IEnumerable<ChatMessage> messages, ChatOptions options) =>
        client.GetResponseAsync(messages, options).GetAwaiter().GetResult();

    private static List<ChatResponseUpdate> Stream(IChatClient client, ChatOptions options)
    {
        async Task<List<ChatResponseUpdate>> All()
        {
            var all = new List<ChatResponseUpdate>();
            await foreach (ChatResponseUpdate update in client.GetStreamingResponseAsync(Asked(), options)) all.Add(update);
            return all;
        }
        return All().GetAwaiter().GetResult();
    }

    /// <summary>Runs the body with an engine of a family that calls tools.</summary>
    private static void WithCalls(Fixture with, string template, Action<ChatEngine> body)
    {
        using var chat = ChatTemplate.Create(template);
        body(new ChatEngine(with.Model, with.Cache) { ChatTemplate = chat, Thinks = false });
    }

    private static void AnAnswerEqualsThatOfTheJob(Fixture with)
    {
        var same = new Request { Temperature = 0, MaxNewTokens = 24 };
        same.Parts.Add(PromptPart.OfMessages("[{\"role\": \"system\", \"content\": \"Speak.\"}, "
            + "{\"role\": \"user\", \"name\": \"Ann\", \"content\": \"How warm is it?\"}]"));
        string expected;
        using (Job job = with.Cache.Submit(same)) expected = Fixture.Drain(job, FinishReason.Length);
        using IChatClient client = new ChatEngine(with.Model, with.Cache) { Name = "story" }.AsChatClient();
        var messages = new[] { new ChatMessage(ChatRole.User, Question) { AuthorName = "Ann" } };
        ChatOptions options = Greedy(24);
        options.Instructions = "Speak.";
        ChatResponse whole = Answer(client, messages, options);
        Fixture.Check(whole.Text.Trim() == expected.Trim(), whole.Text);
        Fixture.Check(whole.FinishReason == ChatFinishReason.Length && whole.ModelId == "story", whole.FinishReason + "");
        Fixture.Check(whole.Usage.OutputTokenCount == 24 && whole.CreatedAt > DateTimeOffset.UtcNow.AddMinutes(-1), "usage");
        Fixture.Check(whole.Usage.InputTokenCount == with.Model.RenderChatTokens(same).Length, "prompt");
        Fixture.Check(whole.Messages.Single().Role == ChatRole.Assistant && whole.ResponseId.StartsWith("quire-"), "message");
        List<ChatResponseUpdate> updates = Stream(client, Greedy(24));
        Fixture.Check(updates.Count > 3 && updates.Select(update => update.MessageId).Distinct().Count() == 1, updates.Count);
        ChatResponse joined = updates.ToChatResponse();
        Fixture.Check(joined.Text == Answer(client, Asked(), Greedy(24)).Text && joined.Usage.OutputTokenCount == 24,
            joined.Text);
        ChatOptions stopping = Greedy(24);
        string word = joined.Text.Trim().Split(' ')[3];
        stopping.StopSequences = new[] { word };
        ChatResponse stopped = Answer(client, Asked(), stopping);
        Fixture.Check(stopped.FinishReason == ChatFinishReason.Stop && !stopped.Text.Contains(word), stopped.Text);
    }

    private static void ADirectoryIsAModel(Fixture with)
    {
        using (ChatEngine engine = ChatEngine.LoadAsync(with.Path).GetAwaiter().GetResult())
        {
            ChatResponse whole = Answer(engine.AsChatClient(), Asked(), Greedy(8));
            Fixture.Check(whole.Usage.OutputTokenCount == 8 && whole.ModelId == "story-15m-exl2-4.0bpw", whole.ModelId);
        }
        Fixture.Refused(ErrorCode.NotFound, "/no/such/model", () => ChatEngine.Load("/no/such/model"));
    }

    private static void ServicesAreFound(Fixture with)
    {
        var engine = new ChatEngine(with.Model, with.Cache) { Name = "story" };
        IChatClient client = engine.AsChatClient();
        var metadata = client.GetService<ChatClientMetadata>();
        Fixture.Check(metadata.ProviderName == "quire" && metadata.DefaultModelId == "story", metadata.DefaultModelId);
        Fixture.Check(client.GetService<QuireChatClient>() == client && client.GetService<ChatEngine>() == engine, "itself");
        Fixture.Check(client.GetService<Model>() == with.Model && client.GetService<Cache>() == with.Cache, "handles");
        Fixture.Check(client.GetService<string>() == null && client.GetService(typeof(Model), "key") == null, "a stranger");
        var generator = engine.AsEmbeddingGenerator();
        int width = with.Model.Info().HiddenSize;
        Fixture.Check(generator.GetService<EmbeddingGeneratorMetadata>().DefaultModelDimensions == width, width);
        Fixture.Check(generator.GetService<Cache>() == with.Cache, "the cache of the generator");
    }

    private static void AContainerHasThem(Fixture with)
    {
        var services = new ServiceCollection();
        services.AddQuire(with.Path, cacheOptions: new CacheOptions { MaxTokens = 1024 });
        using ServiceProvider provider = services.BuildServiceProvider();
        var client = provider.GetRequiredService<IChatClient>();
        Fixture.Check(Answer(client, Asked(), Greedy(4)).Usage.OutputTokenCount == 4, "an answer");
        var generator = provider.GetRequiredService<IEmbeddingGenerator<string, Embedding<float>>>();
        Fixture.Check(generator.GetService<ChatEngine>() == client.GetService<ChatEngine>(), "two engines");
    }

    private static FunctionCallContent OnlyCall(ChatResponse response)
    {
        Fixture.Check(response.FinishReason == ChatFinishReason.ToolCalls, response.FinishReason + " " + response.Text);
        FunctionCallContent call = response.Messages.Single().Contents.OfType<FunctionCallContent>().Single();
        Fixture.Check(call.Name == "weather" && call.CallId != "" && call.Exception == null, call.Name);
        Fixture.Check(Regex.IsMatch(call.Arguments["city"] + "", "^(Oslo|Rome)$") && call.Arguments.Count == 1, "arguments");
        return call;
    }

    private static int TokensOf(ChatEngine engine, string messages, bool withTools)
    {
        var request = new Request { ChatTemplate = engine.ChatTemplate, Tools = withTools ? Tools : null };
        request.Parts.Add(PromptPart.OfMessages(messages));
        return engine.Model.RenderChatTokens(request).Length;
    }

    private static void ToolsAreCalledAndTheirResultsRead(Fixture with) => WithCalls(with, Template, engine =>
    {
        IChatClient client = engine.AsChatClient();
        ChatOptions options = Greedy(200, new Weather());
        options.ToolMode = ChatToolMode.RequireAny;
        options.AllowMultipleToolCalls = false;
        ChatResponse whole = Answer(client, Asked(), options);
        FunctionCallContent call = OnlyCall(whole);
        Fixture.Check(call.CallId != OnlyCall(Answer(client, Asked(), options)).CallId, "two calls have one id");
        OnlyCall(Stream(client, options).ToChatResponse());
        Fixture.Check(whole.Usage.InputTokenCount == TokensOf(engine, QuestionJson, true), "tools are not told");
        options.ToolMode = ChatToolMode.RequireSpecific("weather");
        OnlyCall(Answer(client, Asked(), options));
        ReadsResults(engine, client, call);
        options.ToolMode = ChatToolMode.None;
        options.MaxOutputTokens = 4;
        ChatResponse none = Answer(client, Asked(), options);
        Fixture.Check(none.Usage.InputTokenCount == TokensOf(engine, QuestionJson, false), "tools are told");
    });

    private static void ReadsResults(ChatEngine engine, IChatClient client, FunctionCallContent call)
    {
        object? made = new Weather().InvokeAsync(new AIFunctionArguments(call.Arguments)).AsTask().Result;
        List<ChatMessage> messages = Asked(
            new ChatMessage(ChatRole.Assistant, new AIContent[] { new TextContent("Let me see."), call }),
            new ChatMessage(ChatRole.Tool, new AIContent[] { new FunctionResultContent(call.CallId, made) }));
        ChatResponse next = Answer(client, messages, Greedy(4, new Weather(true)));
        string said = QuestionJson.TrimEnd(']') + ", {\"role\": \"assistant\", \"content\": \"Let me see.\", \"tool_calls\": "
            + "[{\"id\": \"x\", \"type\": \"function\", \"function\": {\"name\": \"weather\", \"arguments\": "
            + "\"{\\\"city\\\":\\\"" + call.Arguments["city"] + "\\\"}\"}}]}, "
            + "{\"role\": \"tool\", \"tool_call_id\": \"x\", \"content\": \"" + made + "\"}]";
        Fixture.Check(next.Usage.InputTokenCount == TokensOf(engine, said, true), next.Usage.InputTokenCount);
    }

    /// <summary>Invokes functions as Microsoft.Extensions.AI's client does: it adds calls and results to the
    /// conversation, and after a required call lets the model answer.</summary>
    private sealed class Invoking : DelegatingChatClient
    {
        public readonly List<long?> PromptTokens = new List<long?>();

        public Invoking(IChatClient inner) : base(inner) { }

        public override async Task<ChatResponse> GetResponseAsync(IEnumerable<ChatMessage> messages, ChatOptions? options = null,
            CancellationToken cancellationToken = default)
        {
            List<ChatMessage> all = messages.ToList();
            ChatOptions own = options!.Clone();
            while (true)
            {
                ChatResponse response = await base.GetResponseAsync(all, own, cancellationToken);
                PromptTokens.Add(response.Usage!.InputTokenCount);
                var calls = response.Messages.SelectMany(message => message.Contents).OfType<FunctionCallContent>().ToList();
                if (calls.Count == 0) return response;
                all.AddRange(response.Messages);
                foreach (FunctionCallContent call in calls)
                {
                    AIFunction function = own.Tools!.OfType<AIFunction>().Single(one => one.Name == call.Name);
                    object? made = await function.InvokeAsync(new AIFunctionArguments(call.Arguments), cancellationToken);
                    all.Add(new ChatMessage(ChatRole.Tool, new AIContent[] { new FunctionResultContent(call.CallId, made) }));
                }
                own.ToolMode = ChatToolMode.None;
            }
        }
    }

    /// <summary>The type has few values, because the embedded model may never end a free text.</summary>
    [JsonConverter(typeof(JsonStringEnumConverter<City>))]
    private enum City
    {
        Oslo,
        Rome,
    }

    private static void AClientThatInvokesFunctionsWrapsIt(Fixture with) => WithCalls(with, Template, engine =>
    {
        var cities = new List<City>();
        Func<City, string> weather = city =>
        {
            cities.Add(city);
            return "17 degrees in " + city;
        };
        var client = new Invoking(engine.AsChatClient());
        ChatOptions options = Greedy(100, AIFunctionFactory.Create(weather, "weather", "of a city"));
        options.ToolMode = ChatToolMode.RequireAny;
        options.AllowMultipleToolCalls = false;
        ChatResponse response = Answer(client, Asked(), options);
        Fixture.Check(cities.Count == 1 && client.PromptTokens.Count == 2, cities.Count + " calls");
        Fixture.Check(response.Text.Length > 0 && response.FinishReason != ChatFinishReason.ToolCalls, response.FinishReason);
    });

    private static void AnAnswerMatchesItsSchema(Fixture with)
    {
        IChatClient client = new ChatEngine(with.Model, with.Cache).AsChatClient();
        ChatOptions options = Greedy(100);
        options.ResponseFormat = ChatResponseFormat.ForJsonSchema(Json(Schema), "place");
        string place = Answer(client, Asked(), options).Text;
        Fixture.Check(Regex.IsMatch(place, "^\\{\\s*\"city\"\\s*:\\s*\"(Oslo|Rome)\"\\s*\\}$"), place);
        options.ResponseFormat = ChatResponseFormat.Json;
        string any = Answer(client, Asked(), options).Text;
        Fixture.Check(any.Trim().StartsWith("{"), any);
        options.ResponseFormat = ChatResponseFormat.Text;
        options.MaxOutputTokens = 4;
        Fixture.Check(!Answer(client, Asked(), options).Text.Contains("{"), "text is not free");
    }

    private static void ReasoningIsSeparatedFromTheAnswer(Fixture with) => WithCalls(with, Template + "<think>\n", engine =>
    {
        string text = Answer(engine.AsChatClient(), Asked(), Greedy(12)).Text;
        engine.Thinks = true;
        ChatResponse response = Answer(engine.AsChatClient(), Asked(), Greedy(12));
        string thought = string.Concat(response.Messages.Single().Contents.OfType<TextReasoningContent>().Select(t => t.Text));
        Fixture.Check(thought.Trim() == text.Trim() && response.Text == "", thought);
        Fixture.Check(response.Usage.AdditionalCounts["OutputTokenDetails.ReasoningTokenCount"] > 0, "reasoning tokens");
    });

    private static void OptionsTakeEffectAndAreRefusedByName(Fixture with)
    {
        IChatClient client = new ChatEngine(with.Model, with.Cache).AsChatClient();
        var seeded = new ChatOptions { Seed = 7, Temperature = 1, TopP = 0.9f, TopK = 50, MaxOutputTokens = 24,
            FrequencyPenalty = 0.1f, PresencePenalty = 0.1f, ModelId = "mine" };
        ChatResponse first = Answer(client, Asked(), seeded);
        Fixture.Check(first.Text == Answer(client, Asked(), seeded).Text && first.ModelId == "mine", first.Text);
        seeded.Seed = 8;
        Fixture.Check(first.Text != Answer(client, Asked(), seeded).Text, "the seed does not count");
        var raw = new ChatOptions { RawRepresentationFactory = asked => new Request { MaxNewTokens = 3, Temperature = 0 } };
        Fixture.Check(Answer(client, Asked(), raw).Usage.OutputTokenCount == 3, "the program's own request");
        raw.RawRepresentationFactory = asked => "no request";
        Throws<NotSupportedException>("RawRepresentationFactory", () => Answer(client, Asked(), raw));
        Fixture.Refused(ErrorCode.InvalidArgument, "temperature",
            () => Answer(client, Asked(), new ChatOptions { Temperature = -1 }));
        Throws<NotSupportedException>("ConversationId",
            () => Answer(client, Asked(), new ChatOptions { ConversationId = "c" }));
        Throws<NotSupportedException>("HostedWebSearchTool",
            () => Answer(client, Asked(), Greedy(4, new HostedWebSearchTool())));
        var picture = new ChatMessage(ChatRole.User, new AIContent[] { new UriContent("http://localhost/a.png", "image/png") });
        Throws<NotSupportedException>("UriContent", () => Answer(client, new[] { picture }, Greedy(4)));
        var required = Greedy(4, new Weather());
        required.ToolMode = ChatToolMode.RequireAny;
        Fixture.Refused(ErrorCode.Unsupported, "", () => Answer(client, Asked(), required));
        with.Cache.Shutdown();
        Fixture.Refused(ErrorCode.Closed, "", () => Answer(client, Asked(), Greedy(4)));
    }

    private static void Throws<T>(string says, Action call) where T : Exception
    {
        try
        {
            call();
        }
        catch (T failure)
        {
            Fixture.Check(failure.Message.Contains(says), failure.Message);
            return;
        }
        throw new Exception("no " + typeof(T).Name + " that contains " + says);
    }

    private static void WaitsBlockNoThread(Fixture with)
    {
        IChatClient client = new ChatEngine(with.Model, with.Cache).AsChatClient();
        int before = System.Diagnostics.Process.GetCurrentProcess().Threads.Count;
        Task<ChatResponse>[] answers = Enumerable.Range(0, 32).Select(i => client.GetResponseAsync(Asked(), Greedy(60))).ToArray();
        int more = System.Diagnostics.Process.GetCurrentProcess().Threads.Count - before;
        Fixture.Check(more <= 8, more + " threads more");
        Task.WaitAll(answers);
        Fixture.Check(answers.All(answer => answer.Result.Text == answers[0].Result.Text), "another answer");
    }

    /// <summary>Checks that a cancelled job produces at most the token of the running step.</summary>
    private static void EndsWithinStep(Fixture with, long newTokens)
    {
        SpinWait.SpinUntil(() => with.Cache.Stats().JobsRunning == 0);
        Fixture.Check(with.Cache.Stats().NewTokens <= newTokens + 1, newTokens + ", then " + with.Cache.Stats().NewTokens);
    }

    private static void ACancelEndsTheJob(Fixture with)
    {
        IChatClient client = new ChatEngine(with.Model, with.Cache).AsChatClient();
        async Task<long> Leave()
        {
            await foreach (ChatResponseUpdate update in client.GetStreamingResponseAsync(Asked(), Greedy(1500)))
                return with.Cache.Stats().NewTokens;
            return 0;
        }
        long newTokens = Leave().GetAwaiter().GetResult();
        EndsWithinStep(with, with.Cache.Stats().NewTokens);
        Fixture.Check(newTokens > 0 && newTokens < 1000, newTokens);
        using var cancel = new CancellationTokenSource();
        Task<ChatResponse> answer = client.GetResponseAsync(Asked(), Greedy(1500), cancel.Token);
        SpinWait.SpinUntil(() => with.Cache.Stats().JobsRunning == 1);
        cancel.Cancel();
        EndsWithinStep(with, with.Cache.Stats().NewTokens);
        Fixture.Throws<OperationCanceledException>(() => answer.GetAwaiter().GetResult());
        using var late = new CancellationTokenSource();
        async Task Enumerate()
        {
            await foreach (var update in client.GetStreamingResponseAsync(Asked(), Greedy(1500)).WithCancellation(late.Token))
                late.Cancel();
        }
        Fixture.Throws<OperationCanceledException>(() => Enumerate().GetAwaiter().GetResult());
        EndsWithinStep(with, with.Cache.Stats().NewTokens);
    }

    private static void VectorsEqualThoseOfTheJobs(Fixture with)
    {
        using var generator = new ChatEngine(with.Model, with.Cache).AsEmbeddingGenerator();
        string[] texts = { "a king", "a dog that barks", "a king" };
        GeneratedEmbeddings<Embedding<float>> made = generator.GenerateAsync(texts).GetAwaiter().GetResult();
        long numTokens = 0;
        for (int i = 0; i < texts.Length; i++)
        {
            using Job job = with.Cache.Submit(new Request { Prompt = texts[i], Kind = JobKind.Embed });
            Fixture.Drain(job, FinishReason.Completed);
            Fixture.Check(made[i].Vector.ToArray().SequenceEqual(job.Embedding()), texts[i]);
            numTokens += job.Info().PromptTokens;
        }
        Fixture.Check(made.Count == 3 && made.Usage.InputTokenCount == numTokens, made.Usage.InputTokenCount);
        Throws<NotSupportedException>("Dimensions", () => generator.GenerateAsync(texts,
            new EmbeddingGenerationOptions { Dimensions = 3 }).GetAwaiter().GetResult());
        using var cancel = new CancellationTokenSource();
        cancel.Cancel();
        Fixture.Throws<OperationCanceledException>(
            () => generator.GenerateAsync(texts, null, cancel.Token).GetAwaiter().GetResult());
    }
}
