using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using System.Text;
using System.Threading;
using Quire;
using static Fixture;

/// <summary>Jobs, queues, statistics and descriptions.</summary>
public static class JobsTest
{
    public static int Main(string[] arguments)
    {
        return Fixture.Run(arguments, ManyCompletionsOfOnePrompt, AQueueHasTheEventsOfItsJobs,
            ManyThreadsShareAQueue, AFailureOfAJobIsAnEventOfItsQueue, AShutQueueWakesItsWaiterAndRefuses,
            EveryMemberOfADisposedObjectRefuses, ShutdownEndsEveryJob,
            AJobIsPausedResumedAndForked, EventsReportProgressAndProbabilities, SettingsTakeEffectAndAreRefusedByName,
            ErrorsHaveTheParameter, ScoresAndEmbeddings, StatisticsAddUp, ModelsAndDevicesAreDescribed);
    }

    /// <summary>Returns a request for a job that does not end by itself during a test.</summary>
    private static Request Endless()
    {
        Request request = Greedy("Once upon a time", 1500);
        request.IgnoreEos = true;
        return request;
    }

    private static void ManyCompletionsOfOnePrompt(Fixture with)
    {
        foreach (Job job in with.Cache.SubmitMany(Greedy(with.Prompt, 48), 3))
        {
            Check(Drain(job, FinishReason.Length) == with.Expected, "another text");
            job.Dispose();
        }
        var drawn = new Request { Prompt = "Once upon a time", MaxNewTokens = 12, IgnoreEos = true, Seed = 7 };
        foreach (Job job in with.Cache.SubmitMany(drawn, 3))
        {
            using (job)
            using (Job alone = with.Cache.Submit(drawn))
                Check(Drain(job, FinishReason.Length) == Drain(alone, FinishReason.Length), "seed " + drawn.Seed);
            drawn.Seed++;
        }
        foreach (int count in new[] { 0, -1, 2000 })
            Refused(ErrorCode.InvalidArgument, "jobs", () => with.Cache.SubmitMany(drawn, count));
    }

    private static void AQueueHasTheEventsOfItsJobs(Fixture with)
    {
        EventQueue queue = with.Runtime.CreateQueue();
        var jobs = new Dictionary<ulong, Job>();
        var texts = new Dictionary<ulong, string>();
        for (ulong name = 1; name <= 3; name++)
        {
            Request request = Greedy(with.Prompt, 48);
            request.Queue = queue;
            request.UserData = name;
            jobs[name] = with.Cache.Submit(request);
            texts[name] = "";
        }
        for (int left = jobs.Count; left > 0;)
        {
            IList<Event> events = queue.Drain(8);
            Check(events.Count >= 1 && events.Count <= 8, events.Count);
            foreach (Event piece in events)
            {
                Check(piece.JobId == jobs[piece.UserData].Id, piece.JobId);
                texts[piece.UserData] += piece.Text;
                if (piece.IsLast) left--;
            }
        }
        foreach (KeyValuePair<ulong, Job> job in jobs)
        {
            Check(texts[job.Key] == with.Expected, texts[job.Key]);
            Check(job.Value.Next() == null, "the queue took the last event");
            job.Value.Dispose();
        }
        Refused(ErrorCode.InvalidArgument, "max_events", () => queue.Drain(0));
        queue.Dispose();
    }

    private static void ManyThreadsShareAQueue(Fixture with)
    {
        EventQueue queue = with.Runtime.CreateQueue();
        int tokens = 0;
        var last = new CountdownEvent(6);
        Request request = Greedy("Once upon a time", 40);
        request.IgnoreEos = true;
        request.Queue = queue;
        Job[] jobs = with.Cache.SubmitMany(request, 6);
        var readers = new Thread[4];
        for (int i = 0; i < readers.Length; i++)
        {
            readers[i] = new Thread(() =>
            {
                try
                {
                    while (true)
                    {
                        foreach (Event piece in queue.Drain(3))
                        {
                            Interlocked.Add(ref tokens, piece.Tokens.Length);
                            if (piece.IsLast) last.Signal();
                        }
                    }
                }
                catch (QuireException) { } // closed while this thread waited
                catch (ObjectDisposedException) { } // or before
            }) { IsBackground = true };
            readers[i].Start();
        }
        Check(last.Wait(TimeSpan.FromSeconds(60)), last.CurrentCount);
        queue.Dispose();
        foreach (Thread reader in readers) Check(reader.Join(TimeSpan.FromSeconds(30)), "a reader was not woken");
        Check(tokens == 6 * 40, tokens);
        foreach (Job job in jobs) job.Dispose();
    }

    private static void AFailureOfAJobIsAnEventOfItsQueue(Fixture with)
    {
        using (EventQueue queue = with.Runtime.CreateQueue())
        {
            Request late = Endless();
            late.Queue = queue;
            late.Deadline = TimeSpan.FromTicks(1); // the cache cannot detect yet that this is too short
            using (Job job = with.Cache.Submit(late))
            {
                Event piece;
                do
                {
                    piece = queue.Next();
                } while (!piece.IsLast);
                Check(piece.Error.Code == ErrorCode.Deadline && piece.Error.Message != "", piece.Kind);
                Check(piece.Error.CodeName == "deadline", piece.Error.CodeName);
                Check(job.Info().ErrorCode == ErrorCode.Deadline, job.Info().ErrorCode);
                Check(job.Info().State == JobState.Finished, job.Info().State);
            }
        }
    }

    private static void AShutQueueWakesItsWaiterAndRefuses(Fixture with)
    {
        EventQueue queue = with.Runtime.CreateQueue();
        Exception woken = null;
        var reader = new Thread(() =>
        {
            try
            {
                queue.Next();
            }
            catch (Exception failure)
            {
                woken = failure;
            }
        });
        reader.Start();
        queue.Shutdown();
        Check(reader.Join(TimeSpan.FromSeconds(30)), "the reader was not woken");
        Check(((QuireException)woken).Code == ErrorCode.Closed, woken);
        using (var source = new CancellationTokenSource())
        {
            source.Cancel();
            Throws<OperationCanceledException>(() => queue.Drain(1, source.Token));
        }
        queue.Dispose();
        queue.Dispose();
        Throws<ObjectDisposedException>(() => queue.Next());
        Request request = Greedy("a", 1);
        request.Queue = queue;
        Throws<ObjectDisposedException>(() => with.Cache.Submit(request));
    }

    private static void EveryMemberOfADisposedObjectRefuses(Fixture with)
    {
        EventQueue queue = with.Runtime.CreateQueue();
        var arguments = new Dictionary<Type, object>
        {
            { typeof(EventQueue), queue }, { typeof(string), "a" }, { typeof(int[]), new[] { 1 } }, { typeof(Request), new Request() },
            { typeof(CacheOptions), new CacheOptions() }, { typeof(ModelOptions), new ModelOptions() },
            { typeof(Cache), with.Cache },
        };
        Func<ParameterInfo, object> argument = parameter => parameter.ParameterType.IsValueType
            ? Activator.CreateInstance(parameter.ParameterType) : arguments[parameter.ParameterType];
        var objects = new IDisposable[]
        {
            with.Runtime.CreateAlias("chat"), with.Runtime, with.Model, with.Cache, with.Runtime.CreateQueue(),
            with.Cache.Submit(Endless()), ResponseParser.Create("plain"),
        };
        foreach (IDisposable one in objects)
        {
            one.Dispose();
            const BindingFlags declared = BindingFlags.Public | BindingFlags.Instance | BindingFlags.DeclaredOnly;
            foreach (MethodInfo method in one.GetType().GetMethods(declared).Where(m => m.Name != "Dispose"))
            {
                object[] given = method.GetParameters().Select(argument).ToArray();
                try
                {
                    method.Invoke(one, given);
                }
                catch (TargetInvocationException refused)
                {
                    Check(refused.InnerException is ObjectDisposedException, method + ": " + refused.InnerException);
                    continue;
                }
                throw new Exception(one + "." + method + " does not refuse");
            }
        }
        queue.Dispose();
    }

    private static void ShutdownEndsEveryJob(Fixture with)
    {
        Job job = with.Cache.Submit(Endless());
        with.Cache.Shutdown();
        with.Cache.Shutdown();
        job.Wait();
        Refused(ErrorCode.Closed, "", () => { while (job.Next() != null) { } });
        Refused(ErrorCode.Closed, "", () => with.Cache.Submit(Greedy("a", 1)));
        job.Dispose();
    }

    private static void AJobIsPausedResumedAndForked(Fixture with)
    {
        using (Job job = with.Cache.Submit(Endless()))
        {
            job.SetPriority(3);
            job.Pause();
            using (var source = new CancellationTokenSource(1))
                Throws<OperationCanceledException>(() => job.Wait(source.Token));
            Check(job.Explain() != "" && !job.Explain().Contains("\n"), job.Explain());
            using (Job fork = job.Fork(new Request { MaxNewTokens = 5 }))
            {
                job.Resume();
                fork.Wait();
                Check(fork.Info().Finish == FinishReason.Length, fork.Info().Finish);
            }
            job.Rewind(1);
            Refused(ErrorCode.InvalidArgument, "priority", () => job.SetPriority(5000));
            Refused(ErrorCode.InvalidArgument, "num_new_tokens", () => job.Rewind(-1));
        }
    }

    private static void EventsReportProgressAndProbabilities(Fixture with)
    {
        Request request = Greedy(with.Prompt, 6);
        request.ProgressEvents = true;
        request.TopLogProbs = 2;
        using (Cache cache = with.Model.CreateCache(new CacheOptions { MaxTokens = 512, MaxChunkTokens = 4 }))
        using (Job job = cache.Submit(request))
        {
            long done = 0;
            int tokens = 0;
            for (Event piece = job.Next(); piece != null; piece = job.Next())
            {
                if (piece.Kind == EventKind.Progress)
                {
                    Check(piece.ProgressDone > done && piece.ProgressDone <= piece.ProgressTotal, piece.ProgressDone);
                    done = piece.ProgressDone;
                }
                for (int i = 0; i < piece.Tokens.Length; i++, tokens++) // greedy: the chosen token is the likeliest
                {
                    Check(piece.TopTokens[2 * i] == piece.Tokens[i], piece.Tokens[i]);
                    Check(piece.TopLogProbs[2 * i] == piece.LogProbs[i] && piece.LogProbs[i] <= 0, piece.LogProbs[i]);
                }
            }
            JobInfo info = job.Info();
            Check(tokens == 6 && info.NewTokens == 6 && done > 0 && done <= info.PromptTokens, done);
            Check(info.State == JobState.Finished && info.StopToken == -1, info.State);
            Check(info.TimeGenerate > TimeSpan.Zero, info.TimeGenerate);
        }
    }

    private static int FirstToken(Cache cache, Request request)
    {
        using (Job job = cache.Submit(request))
        {
            while (true)
            {
                int[] tokens = job.Next().Tokens;
                if (tokens.Length > 0) return tokens[0];
            }
        }
    }

    private static void ErrorsHaveTheParameter(Fixture with)
    {
        Action<string, Action> about = (parameter, call) =>
        {
            try
            {
                call();
            }
            catch (QuireException refusal)
            {
                Check(refusal.Parameter == parameter, refusal.Parameter + ": " + refusal.Message);
                return;
            }
            throw new Exception("it was not refused, because of " + parameter);
        };
        about("min_p", () => with.Cache.Submit(new Request { Prompt = "a", MinP = 2 }));
        about("max_new_tokens", () => with.Cache.Submit(Greedy("a", -1)));
        about("", () => with.Runtime.LoadModel("/no/such/model"));
    }

    private static void SettingsTakeEffectAndAreRefusedByName(Fixture with)
    {
        Request request = Greedy("Once upon a time", 1);
        int likeliest = FirstToken(with.Cache, request);
        request.BannedTokens = new[] { likeliest };
        Check(FirstToken(with.Cache, request) != likeliest, "a banned token");
        request.LogitBias[42] = 1000;
        Check(FirstToken(with.Cache, request) == 42, "not the token of the bias");
        TimeSpan negative = TimeSpan.FromTicks(-1);
        Action<string, Request> refused = (name, setting) =>
            Refused(ErrorCode.InvalidArgument, name, () => with.Cache.Submit(setting));
        refused("kind", new Request { Kind = (JobKind)99 });
        refused("min_new_tokens", new Request { MinNewTokens = -1 });
        refused("min_p", new Request { MinP = 2 });
        refused("penalty", new Request { RepetitionPenalty = 0 });
        refused("penalty", new Request { FrequencyPenalty = 1000 });
        refused("penalty", new Request { PresencePenalty = 1000 });
        refused("range_tokens", new Request { PenaltyRange = -2 });
        refused("fade_tokens", new Request { PenaltyDecay = -1 });
        refused("top_log_probs", new Request { TopLogProbs = 65 });
        refused("pooling", new Request { Pooling = (Pooling)99 });
        refused("event_policy", new Request { EventPolicy = (EventPolicy)99 });
        refused("max_unread_events", new Request { MaxUnreadEvents = 1 });
        refused("namespace", new Request { Namespace = new string('n', 257) });
        refused("priority", new Request { Priority = 5000 });
        refused("deadline_ns", new Request { QueueDeadline = negative });
        refused("deadline_ns", new Request { FirstTokenDeadline = negative });
        refused("deadline_ns", new Request { Deadline = negative });
    }

    private static void ScoresAndEmbeddings(Fixture with)
    {
        int[] tokens = with.Model.Encode(with.Prompt);
        int vocab = with.Cache.VocabSize;
        using (Job job = with.Cache.Submit(new Request { Tokens = tokens, Kind = JobKind.Score, RawLogits = true }))
        {
            job.Wait();
            float[] scores = job.Scores();
            Check(scores.Length == tokens.Length && float.IsNaN(scores[0]) && scores[1] <= 0, scores.Length);
            Check(scores.SequenceEqual(with.Cache.Score(new Request { Tokens = tokens }, 0)), "other scores");
            float[] logits = with.Cache.Logits(new Request { Tokens = tokens });
            Check(logits.Length == tokens.Length * vocab && logits[vocab] == job.RawLogits()[vocab], logits.Length);
        }
        Refused(ErrorCode.InvalidArgument, "", () => with.Cache.Score(new Request { Tokens = new[] { -1 } }, 0));
        using (var source = new CancellationTokenSource())
        {
            source.Cancel();
            Throws<OperationCanceledException>(() => with.Cache.Score(new Request { Tokens = tokens }, 0, source.Token));
        }
        var embed = new Request { Tokens = tokens, Kind = JobKind.Embed, Pooling = Pooling.Last };
        using (Job job = with.Cache.Submit(embed))
        {
            job.Wait();
            float[] vector = job.Embedding();
            double length = vector.Sum(value => (double)value * value);
            Check(vector.Length == with.Model.Info().HiddenSize, vector.Length);
            Check(Math.Abs(length - 1) < 1e-5, length); // sums of a few hundred squares in f32
        }
    }

    private static void StatisticsAddUp(Fixture with)
    {
        Request request = Greedy("Once upon a time", 4);
        request.Namespace = "tenant";
        request.IgnoreEos = true;
        using (Job job = with.Cache.Submit(request)) Drain(job, FinishReason.Length);
        Stats stats = with.Cache.Stats();
        Check(stats.PagesFree + stats.PagesCached + stats.PagesReferenced == stats.PagesTotal, stats.PagesTotal);
        Check(stats.JobsQueued + stats.JobsRunning + stats.JobsFinished == stats.JobsSubmitted, stats.JobsSubmitted);
        Stats tenant = stats.Namespaces["tenant"];
        Check(tenant.NewTokens == 4 && tenant.Namespaces.Count == 0 && stats.Steps >= 4, tenant.NewTokens);
        Histogram first = stats.Histograms[HistogramKind.TimeToFirstToken];
        Check(first.Count == 1 && first.Sum > 0 && first.P50 > 0 && first.P99 >= first.P50, first.Count);
        Check(with.Cache.Metrics("main").Contains("cache=\"main\""), "metrics");
    }

    private static void ModelsAndDevicesAreDescribed(Fixture with)
    {
        ModelInfo info = with.Model.Info();
        Check(info.Architecture != "" && info.VocabSize > 0 && info.BitsPerWeight > 3, info.Architecture);
        int quantized = with.Model.Tensors().Count(tensor =>
            tensor.Format == "exl2" && tensor.Shape.Length == 2 && tensor.Layer >= 0 && tensor.Bytes > 0);
        Check(quantized == 7 * info.NumLayers, quantized + " quantized matrices in layers");
        int eos = with.Model.SpecialToken(TokenKind.Eos).Value;
        Check(with.Model.IsSpecial(eos) && with.Model.EosTokens()[0] == eos, eos);
        Check(eos < with.Model.TokenizerSize, with.Model.TokenizerSize);
        string spelled = Encoding.UTF8.GetString(with.Model.TokenBytes(eos));
        Check(with.Model.FindToken(spelled) == eos, spelled);
        Check(with.Model.FindToken("no such token") == null, "found");
        Refused(ErrorCode.InvalidArgument, "token", () => with.Model.IsSpecial(-1));
        Device cpu = with.Runtime.Devices()[0];
        Check(cpu.Name == "cpu" && cpu.Refusal == "" && cpu.MemoryBytes > 0, cpu.Name);
        Check(Runtime.Diagnose().Contains(Runtime.LibraryVersion), Runtime.LibraryVersion);
        Check(Runtime.Diagnose(DiagnoseFormat.Json).StartsWith("{\"version\":"), "diagnose as JSON");
    }
}
