using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using System.Threading;
using Quire;
using static Fixture;

/// <summary>Options and plans: each value reaches its field, and an invalid one is refused by its
/// name.</summary>
public static class OptionsTest
{
    public static int Main(string[] arguments)
    {
        return Fixture.Run(arguments, CacheOptionsAreRefusedByName, CacheOptionsReachTheCache, QuotasHold, PinsKeepPages,
            AQueueGetsPageEvents,
            PlansReportBytesByKindAndDevice, AModelSplitByBytesGeneratesTheSameText, ModelOptionsAreRefusedByName,
            AScopeLoadsOnlyItsParts, ShardsAreNamed, DraftNetworksAreNamed, HostExpertsAreRefused,
            WeightsAreEvictedAndReloaded, ATokenEndsALoad,
            ALoadReportsItsProgress,
            NullableReferencesAreAnnotated);
    }

    /// <summary>Returns the flag that a C# 8 compiler reads from a nullability attribute, for the innermost
    /// type: 1 is never null, 2 may be null, 0 unspecified.</summary>
    private static int MayBeNull(ICustomAttributeProvider what, string attribute)
    {
        object found = what.GetCustomAttributes(false).FirstOrDefault(one => one.GetType().FullName ==
            "System.Runtime.CompilerServices." + attribute + "Attribute");
        if (found == null) return 0;
        object flags = found.GetType().GetFields()[0].GetValue(found);
        return flags is byte ? (byte)flags : ((byte[])flags).Last();
    }

    private static void NullableReferencesAreAnnotated(Fixture with)
    {
        foreach (Type type in typeof(Job).Assembly.GetExportedTypes())
            if (type.IsClass && !type.IsSubclassOf(typeof(QuireException)))
                Check(MayBeNull(type, "NullableContext") == 1, type);
        foreach (string name in new[] { "Prompt", "Tokens", "Queue", "Constraint", "Namespace" })
            Check(MayBeNull(typeof(Request).GetProperty(name), "Nullable") == 2, name);
        foreach (string name in new[] { "Parts", "StopTexts", "LogitBias", "Temperature" })
            Check(MayBeNull(typeof(Request).GetProperty(name), "Nullable") == 0, name);
        foreach (string name in new[] { "Usage", "Error" })
            Check(MayBeNull(typeof(Event).GetProperty(name), "Nullable") == 2, name);
        Check(MayBeNull(typeof(Event).GetProperty("Text"), "Nullable") == 0, "Text");
        Check(MayBeNull(typeof(Alias).GetMethod("SetCache").GetParameters()[0], "Nullable") == 2, "SetCache");
        Check(MayBeNull(typeof(Alias).GetMethod("AddFallback").GetParameters()[0], "Nullable") == 0, "AddFallback");
        Check(MayBeNull(typeof(Job).GetMethod("Next").ReturnParameter, "Nullable") == 2, "Next");
        Check(MayBeNull(typeof(Job).GetMethod("NextAsync").ReturnParameter, "Nullable") == 2, "NextAsync");
    }

    private static void ShardsAreNamed(Fixture with)
    {
        using (Model model = with.Runtime.LoadModel(with.Path, new ModelOptions { NumShards = 2 }))
        using (Cache cache = model.CreateCache(Small()))
        {
            Stats stats = cache.Stats();
            Check(model.Info().NumShards == 2 && stats.Shards.Count == 2, stats.Shards.Count);
            Check(stats.Shards.All(shard => shard.DeviceBytes > 0), stats.DeviceBytes);
            Check(stats.Shards.Sum(shard => shard.DeviceBytes) == stats.DeviceBytes, stats.DeviceBytes);
            Check(model.ShardWeightBytes(0) + model.ShardWeightBytes(1) == model.Info().WeightBytes, "weights");
        }
    }

    private static void HostExpertsAreRefused(Fixture with)
    {
        Refused(ErrorCode.Unsupported, "has no experts",
            () => with.Runtime.LoadModel(with.Path, new ModelOptions { HostExperts = "all" }));
        Refused(ErrorCode.InvalidArgument, "host_experts",
            () => with.Runtime.LoadModel(with.Path, new ModelOptions { HostExperts = "most" }));
    }

    private static void DraftNetworksAreNamed(Fixture with)
    {
        using (Model model = with.Runtime.LoadModel(with.Path, new ModelOptions { Drafter = "none" }))
        {
            Check(model.Info().Drafter == "" && model.Info().DrafterBytes == 0, model.Info().Drafter);
            Refused(ErrorCode.InvalidArgument, "drafter",
                () => model.CreateCache(new CacheOptions { Drafter = Drafter.Network }));
        }
        Check(with.Runtime.Plan(with.Path, new ModelOptions(), new CacheOptions()).DrafterBytes == 0, "DrafterBytes");
        Refused(ErrorCode.Unsupported, "multi-token prediction",
            () => with.Runtime.LoadModel(with.Path, new ModelOptions { Drafter = "mtp" }));
    }

    private static void WeightsAreEvictedAndReloaded(Fixture with)
    {
        using (Model model = with.Runtime.LoadModel(with.Path))
        using (Cache cache = model.CreateCache(Small()))
        {
            model.Evict(ModelState.StandingBy);
            Check(model.State() == ModelState.StandingBy, model.State());
            model.Wake();
            Check(model.State() == ModelState.Resident, model.State());
            using (Job job = cache.Submit(Greedy("a", 400)))
            {
                job.Next(); // the job computes now
                using (var source = new CancellationTokenSource(1))
                    Throws<OperationCanceledException>(() => model.Evict(ModelState.OnDisk, source.Token));
            }
            Refused(ErrorCode.InvalidArgument, "state", () => model.Evict(ModelState.Resident));
        }
    }

    private static CacheOptions Small()
    {
        return new CacheOptions { MaxTokens = 512, MaxChunkTokens = 32, MaxBatchSize = 4 };
    }

    private static void CacheOptionsAreRefusedByName(Fixture with)
    {
        TimeSpan negative = TimeSpan.FromTicks(-1);
        var light = new NamespaceOptions { Weight = 0 };
        var limited = new NamespaceOptions { Quotas = { { Quota.QueuedJobs, -1 } } };
        var refused = new List<KeyValuePair<string, CacheOptions>>();
        Action<string, CacheOptions> add = (name, options) =>
            refused.Add(new KeyValuePair<string, CacheOptions>(name, options));
        add("max_tokens", new CacheOptions { MaxTokens = -1 });
        add("min_tokens", new CacheOptions { MinTokens = -1 });
        add("page_idle_ns", new CacheOptions { PageIdle = negative });
        add("page_tokens", new CacheOptions { PageTokens = 5000 });
        add("max_batch_size", new CacheOptions { MaxBatchSize = 0 });
        add("window_sequences", new CacheOptions { WindowSequences = -1 });
        add("max_chunk_tokens", new CacheOptions { MaxChunkTokens = 70000 });
        add("max_seq_len", new CacheOptions { MaxSeqLen = -1 });
        add("max_queue", new CacheOptions { MaxQueue = 0 });
        add("kv_format", new CacheOptions { KvFormat = (KvFormat)99 });
        add("quota", new CacheOptions { Quotas = { { (Quota)99, 1 } } });
        add("limit", new CacheOptions { Quotas = { { Quota.Pages, -1 } } });
        add("limit", new CacheOptions { Namespaces = { { "a", limited } } });
        add("weight", new CacheOptions { Namespaces = { { "a", light } } });
        add("max_pinned_pages", new CacheOptions { MaxPinnedPages = -1 });
        add("prefix_bytes", new CacheOptions { PrefixBytes = -1 });
        add("prefix_directory_bytes", new CacheOptions { PrefixDirectoryBytes = -1 });
        add("max_overtakes", new CacheOptions { MaxOvertakes = -1 });
        add("ageing_ns", new CacheOptions { Ageing = negative });
        add("step_timeout_ns", new CacheOptions { StepTimeout = negative });
        add("close_timeout_ns", new CacheOptions { CloseTimeout = negative });
        foreach (KeyValuePair<string, CacheOptions> one in refused)
        {
            Refused(ErrorCode.InvalidArgument, one.Key, () => with.Model.CreateCache(one.Value));
            Refused(ErrorCode.InvalidArgument, one.Key, () => with.Model.CacheBytes(one.Value));
        }
    }

    private static void CacheOptionsReachTheCache(Fixture with)
    {
        var options = new CacheOptions
        {
            MaxTokens = 640, PageTokens = 16, MaxBatchSize = 3, MaxChunkTokens = 32, MaxSeqLen = 600, MaxQueue = 5,
            KvFormat = KvFormat.Q4, MaxPinnedPages = 7, MaxOvertakes = 0, Ageing = TimeSpan.Zero,
            StepTimeout = TimeSpan.FromDays(1), CloseTimeout = TimeSpan.Zero,
        };
        long bytes = with.Model.CacheBytes(options);
        using (Cache cache = with.Model.CreateCache(options))
        {
            Stats stats = cache.Stats();
            Check(stats.PageTokens == 16 && stats.PagesTotal == 40 && stats.DeviceBytes == bytes, stats.PagesTotal);
            Check(cache.MaxSeqLen == 600, cache.MaxSeqLen);
            Refused(ErrorCode.InvalidArgument, "num_jobs", () => cache.SubmitMany(Greedy("a", 1), 6));
        }
        options.KvFormat = KvFormat.F16;
        Check(with.Model.CacheBytes(options) > bytes, "f16 pages take no more than q4 pages");
    }

    private static void QuotasHold(Fixture with)
    {
        var large = new NamespaceOptions { Weight = 2, Quotas = { { Quota.Pages, 0 } } };
        var options = new CacheOptions
        {
            MaxTokens = 1024, PageTokens = 16, Quotas = { { Quota.Pages, 2 } }, Namespaces = { { "large", large } },
        };
        using (Cache cache = with.Model.CreateCache(options))
        {
            Request request = Greedy("a", 64);
            request.IgnoreEos = true;
            request.Namespace = "small";
            Refused(ErrorCode.TooLarge, "pages", () => cache.Submit(request));
            request.Namespace = "large";
            using (Job job = cache.Submit(request)) Drain(job, FinishReason.Length);
            Stats figures = cache.Stats().Namespaces["large"];
            Check(figures.JobsFinished == 1 && figures.NewTokens == 64, figures.NewTokens);
        }
    }

    private static void AQueueGetsPageEvents(Fixture with)
    {
        int[] tokens = with.Model.Encode(string.Concat(Enumerable.Repeat("one two three four ", 40))).Take(40).ToArray();
        using (EventQueue queue = with.Runtime.CreateQueue())
        using (Cache cache = with.Model.CreateCache(new CacheOptions { MaxTokens = 1024, PageTokens = 16 }))
        {
            var warm = new Request { Tokens = tokens, Kind = JobKind.Warm, Namespace = "books" };
            using (Job job = cache.Submit(warm)) Drain(job, FinishReason.Completed);
            for (int round = 0; round < 2; round++) // the second round starts again
            {
                cache.FollowPages(queue, 7);
                ulong parent = 0;
                for (int number = 0; number < 3; number++)
                {
                    Event page = queue.Next();
                    Check(page.Kind == EventKind.Page && page.UserData == 7 && page.PageNumber == number, page);
                    if (number == 0)
                    {
                        Check(page.PageChange == PageChange.Cleared && page.PageMedium == PageMedium.None, page);
                        continue;
                    }
                    Check(page.PageChange == PageChange.Stored && page.PageMedium == PageMedium.Device, page);
                    Check(page.PageNamespace == "books" && page.PageHash != 0 && page.PageParent == parent, page);
                    Check(page.Tokens.SequenceEqual(tokens.Skip(16 * number - 16).Take(16)), page);
                    parent = page.PageHash;
                }
            }
            cache.Dispose();
            Event last = queue.Next();
            Check(last.PageChange == PageChange.Cleared && last.PageNumber == 3, last);
        }
    }

    private static void PinsKeepPages(Fixture with)
    {
        var options = new CacheOptions { MaxTokens = 1024, PageTokens = 16, MaxPinnedPages = 2 };
        using (Cache cache = with.Model.CreateCache(options))
        {
            int[] tokens = with.Model.Encode(string.Concat(Enumerable.Repeat("one two three four ", 40)));
            var warm = new Request { Tokens = tokens, Kind = JobKind.Warm };
            Refused(ErrorCode.NotFound, "", () => cache.Pin(warm, TimeSpan.Zero));
            using (Job job = cache.Submit(warm)) Drain(job, FinishReason.Completed);
            Refused(ErrorCode.Quota, "", () => cache.Pin(warm, TimeSpan.Zero));
            var first = new Request { Tokens = tokens.Take(17).ToArray() };
            Check(cache.Query(first) >= 16, "the first page is not found");
            long pin = cache.Pin(first, TimeSpan.Zero);
            Check(cache.Stats().PagesPinned == 1, "pinned");
            cache.Unpin(pin);
            cache.Unpin(pin);
            cache.Query(first); // queued after a step
            Check(cache.Stats().PagesPinned == 0, "unpinned");
        }
    }

    private static void PlansReportBytesByKindAndDevice(Fixture with)
    {
        Plan plan = with.Runtime.Plan(with.Path, null, Small());
        long sum = plan.EmbeddingBytes + plan.LayerBytes + plan.HeadBytes + plan.KvBytes + plan.WorkspaceBytes;
        Check(plan.TotalBytes == sum && plan.KvBytes > 0 && plan.Layers.Count == 8, sum);
        DevicePlan cpu = plan.Devices.Single();
        Check(cpu.Name == "cpu" && cpu.TotalBytes == plan.TotalBytes && cpu.UsableBytes > 0, cpu.Name);
        var split = new ModelOptions { Device = "cpu,cpu", Split = "3,5" };
        Plan shared = with.Runtime.Plan(with.Path, split, Small());
        Check(shared.Devices[0].NumLayers == 3 && shared.Devices[1].NumLayers == 5, shared.Devices[0].NumLayers);
        Check(shared.Layers[2].Device == 0 && shared.Layers[3].Device == 1, "layers");
        CacheOptions larger = Small();
        larger.MaxTokens = 1024;
        Check(with.Runtime.Plan(with.Path, null, larger).KvBytes > plan.KvBytes, "more tokens");
        Refused(ErrorCode.NotFound, "/no/such/model", () => with.Runtime.Plan("/no/such/model"));
        split.Split = "1M,2M";
        Refused(ErrorCode.OutOfMemory, "1048576", () => with.Runtime.Plan(with.Path, split, Small()));
        larger.PageTokens = -1;
        Refused(ErrorCode.InvalidArgument, "page_tokens", () => with.Runtime.Plan(with.Path, null, larger));
    }

    private static void AModelSplitByBytesGeneratesTheSameText(Fixture with)
    {
        long most = with.Runtime.Plan(with.Path, null, Small()).TotalBytes * 3 / 4 / 1024;
        var options = new ModelOptions
        {
            Device = "cpu,cpu", Split = "1G," + most + "K", Reserve = "64M", PlannedCache = Small(),
        };
        DevicePlan second = with.Runtime.Plan(with.Path, options, Small()).Devices[1];
        Check(second.NumLayers > 0 && second.NumLayers < 8 && second.TotalBytes <= most * 1024, second.NumLayers);
        using (Model model = with.Runtime.LoadModel(with.Path, options))
        using (Cache cache = model.CreateCache(Small()))
        using (Job job = cache.Submit(Greedy(with.Prompt, 48)))
        {
            string text = Drain(job, FinishReason.Length);
            Check(text == with.Expected, text);
        }
    }

    private static void ModelOptionsAreRefusedByName(Fixture with)
    {
        Action<ErrorCode, string, ModelOptions> refused = (code, says, options) =>
            Refused(code, says, () => with.Runtime.LoadModel(with.Path, options));
        refused(ErrorCode.InvalidArgument, "split: 9 layers", new ModelOptions { Device = "cpu,cpu", Split = "3,6" });
        refused(ErrorCode.InvalidArgument, "reserve",
            new ModelOptions { Device = "cpu,cpu", Split = "4,4", Reserve = "1,2,3" });
        refused(ErrorCode.OutOfMemory, "1048576", new ModelOptions { Split = "1M" });
        refused(ErrorCode.InvalidArgument, "scope", new ModelOptions { Scope = (ModelScope)99 });
        refused(ErrorCode.InvalidArgument, "max_queue",
            new ModelOptions { PlannedCache = new CacheOptions { MaxQueue = -1 } });
        var budgets = new RuntimeOptions { Device = "cpu", MemoryBudgets = { { "cpu", 1 << 20 }, { "pinned", 1 << 20 } } };
        using (var narrow = new Runtime(budgets))
        {
            Refused(ErrorCode.OutOfMemory, "", () => narrow.LoadModel(with.Path));
            narrow.SetMemoryBudget("pinned", 0);
            Refused(ErrorCode.NotFound, "pinned:0", () => narrow.SetMemoryBudget("pinned:0", 1));
        }
    }

    private static void AScopeLoadsOnlyItsParts(Fixture with)
    {
        var metadata = new ModelOptions { Scope = ModelScope.Metadata };
        using (Model described = with.Runtime.LoadModel(with.Path, metadata))
        {
            Check(described.Info().NumLayers == 8, described.Info().NumLayers);
            Refused(ErrorCode.Unsupported, "", () => described.CreateCache());
        }
        var tokenizer = new ModelOptions { Scope = ModelScope.Tokenizer };
        using (Model words = with.Runtime.LoadModel(with.Path, tokenizer))
        {
            Check(words.Encode("a").Length > 0, "no token");
            Refused(ErrorCode.Unsupported, "", () => words.Info());
        }
    }

    private static void ATokenEndsALoad(Fixture with)
    {
        using (var source = new CancellationTokenSource())
        {
            with.Runtime.LoadModel(with.Path, null, source.Token).Dispose();
            source.Cancel(); // after the load, cancelling does no harm
            Throws<OperationCanceledException>(() => with.Runtime.LoadModel(with.Path, null, source.Token));
        }
    }

    private static void ALoadReportsItsProgress(Fixture with)
    {
        long told = 0, all = -1;
        var options = new ModelOptions
        {
            Progress = (done, total) =>
            {
                Check(done >= told && done <= total, done);
                told = done;
                all = total;
                Refused(ErrorCode.Reentrant, "", () => with.Model.CreateCache());
            },
        };
        with.Runtime.LoadModel(with.Path, options).Dispose();
        Check(told == all, told);
        int times = 0;
        options.Progress = (done, total) =>
        {
            times++;
            throw new ApplicationException("mine");
        };
        Throws<ApplicationException>(() => with.Runtime.LoadModel(with.Path, options));
        Check(times == 1, times);
    }
}
