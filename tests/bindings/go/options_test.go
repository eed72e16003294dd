// Options and plans: each value reaches its field, and an invalid one is refused by its name.
package story

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"quire.dev/quire"
)

const hugeInt = math.MaxInt64 // too large for the C interface: must be refused, not wrapped around

func modelPath() string { return os.Getenv("QUIRE_TEST_MODEL") }

func newRuntime(t *testing.T) *quire.Runtime {
	t.Helper()
	runtime := must(quire.NewRuntime(quire.RuntimeOptions{NumThreads: 2}))
	t.Cleanup(func() { runtime.Close() })
	return runtime
}

// expectRefused checks the error code and that the message is one line that contains the text.
func expectRefused(t *testing.T, err error, code quire.Code, says string) {
	t.Helper()
	var failure *quire.Error
	if !errors.As(err, &failure) || failure.Code != code {
		t.Errorf("expected %v with %q, got %v", code, says, err)
	} else if !strings.Contains(failure.Message, says) || strings.Contains(failure.Message, "\n") {
		t.Errorf("expected %q in %q", says, failure.Message)
	}
}

func TestCacheOptionsAreRefusedByName(t *testing.T) {
	model, _ := open(t)
	one := func(kind quire.QuotaKind, limit int) map[quire.QuotaKind]int {
		return map[quire.QuotaKind]int{kind: limit}
	}
	for name, options := range map[string]quire.CacheOptions{
		"max_tokens":        {MaxTokens: -1},
		"min_tokens":        {MinTokens: -1},
		"page_idle_ns":      {PageIdle: -1},
		"page_tokens":       {PageTokens: 5000},
		"max_batch_size":    {MaxBatchSize: 5000},
		"window_sequences":  {WindowSequences: -1},
		"max_chunk_tokens":  {MaxChunkTokens: hugeInt},
		"max_seq_len":       {MaxSeqLen: -1},
		"max_queue":         {MaxQueue: math.MinInt64},
		"kv_format":         {KVFormat: 99},
		"drafter":           {Drafter: 4},
		"max_drafts":        {MaxDrafts: 16},
		"quota":             {Quotas: one(99, 1)},
		"limit":             {Quotas: one(quire.QuotaPages, -1)},
		"limit ":            {Namespaces: map[string]quire.NamespaceOptions{"a": {Quotas: one(quire.QuotaPages, -1)}}},
		"weight":            {Namespaces: map[string]quire.NamespaceOptions{"a": {Weight: -1}}},
		"max_pinned_pages":  {MaxPinnedPages: -1},
		"card_expert_bytes": {CardExpertBytes: -1},
		"prefix_bytes":      {PrefixBytes: -1},
		"prefix_directory":  {PrefixDirectory: "/nowhere", PrefixDirectoryBytes: -1},
		"step_timeout_ns":   {StepTimeout: -1},
	} {
		_, err := model.NewCache(options)
		expectRefused(t, err, quire.CodeInvalidArgument, strings.TrimSpace(name))
		_, err = model.CacheBytes(options)
		expectRefused(t, err, quire.CodeInvalidArgument, strings.TrimSpace(name))
	}
}

func TestCacheOptionsArrive(t *testing.T) {
	model, _ := open(t)
	options := quire.CacheOptions{
		MaxTokens: 640, PageTokens: 16, MaxBatchSize: 3, MaxChunkTokens: 32, MaxSeqLen: 600, MaxQueue: 5,
		KVFormat: quire.KVQ4, MaxPinnedPages: 7,
		MaxOvertakes: -1, Ageing: -1, StepTimeout: math.MaxInt64, CloseTimeout: -1,
	}
	cache := must(model.NewCache(options))
	defer cache.Close()
	stats := must(cache.Stats())
	if stats.PageTokens != 16 || stats.PagesTotal != 40 || stats.DeviceBytes != must(model.CacheBytes(options)) {
		t.Errorf("%+v", stats)
	}
	if length := must(cache.MaxSeqLen()); length != 600 {
		t.Errorf("max_seq_len %d", length)
	}
	wider := options
	wider.KVFormat = quire.KVF16
	if must(model.CacheBytes(wider)) <= must(model.CacheBytes(options)) {
		t.Error("f16 pages take no more than q4 pages")
	}
	_, err := cache.SubmitMany(greedy("a", 1), 6)
	expectRefused(t, err, quire.CodeInvalidArgument, "num_jobs")
}

func TestADraftNetworkIsNamed(t *testing.T) {
	runtime := newRuntime(t)
	model := must(runtime.LoadModelContext(context.Background(), modelPath(), quire.ModelOptions{Drafter: "none"}))
	defer model.Close()
	if info := must(model.Info()); info.Drafter != "" || info.DrafterBytes != 0 {
		t.Errorf("%+v", info)
	}
	_, err := model.NewCache(quire.CacheOptions{MaxTokens: 512, Drafter: quire.DrafterNetwork})
	expectRefused(t, err, quire.CodeInvalidArgument, "drafter")
	if plan := must(runtime.Plan(modelPath(), quire.ModelOptions{}, quire.CacheOptions{})); plan.DrafterBytes != 0 {
		t.Errorf("%+v", plan)
	}
	_, err = runtime.LoadModelContext(context.Background(), modelPath(), quire.ModelOptions{Drafter: "mtp"})
	expectRefused(t, err, quire.CodeUnsupported, "multi-token prediction")
}

func TestHostExpertsArePlanned(t *testing.T) {
	runtime := newRuntime(t)
	shape := "synthetic:qwen3-30b-a3b,bits=4.0,layers=2"
	for _, choice := range []string{"", "none", "auto", "all", "1"} {
		plan := must(runtime.Plan(shape, quire.ModelOptions{HostExperts: choice}, quire.CacheOptions{MaxTokens: 512}))
		if len(plan.Devices) != 1 || plan.Devices[0].NumHostExperts != 0 || plan.Devices[0].StepBytes <= 0 ||
			plan.Layers[1].ExpertsDevice != 0 {
			t.Errorf("%q: layers of the CPU compute there as before: %+v", choice, plan)
		}
	}
	_, err := runtime.Plan(modelPath(), quire.ModelOptions{HostExperts: "all"}, quire.CacheOptions{})
	expectRefused(t, err, quire.CodeUnsupported, "has no experts")
	_, err = runtime.Plan(modelPath(), quire.ModelOptions{HostExperts: "most"}, quire.CacheOptions{})
	expectRefused(t, err, quire.CodeInvalidArgument, "host_experts")
}

func TestShardsAreNamed(t *testing.T) {
	runtime := newRuntime(t)
	model := must(runtime.LoadModelContext(context.Background(), modelPath(), quire.ModelOptions{NumShards: 2}))
	defer model.Close()
	cache := must(model.NewCache(quire.CacheOptions{MaxTokens: 512}))
	defer cache.Close()
	stats := must(cache.Stats())
	if must(model.Info()).NumShards != 2 || len(stats.Shards) != 2 {
		t.Fatalf("%+v", stats)
	}
	first, second := stats.Shards[0].DeviceBytes, stats.Shards[1].DeviceBytes
	if first <= 0 || second <= 0 || first+second != stats.DeviceBytes {
		t.Errorf("%d and %d of %d", first, second, stats.DeviceBytes)
	}
	weights := must(model.ShardWeightBytes(0)) + must(model.ShardWeightBytes(1))
	if weights != must(model.Info()).WeightBytes {
		t.Errorf("%d bytes of weights", weights)
	}
}

func TestWeightsAreEvictedAndReloaded(t *testing.T) {
	model, cache := open(t)
	ctx := context.Background()
	if err := model.Evict(ctx, quire.ModelStandingBy); err != nil || must(model.State()) != quire.ModelStandingBy {
		t.Fatal(err, must(model.State()))
	}
	if err := model.Wake(ctx); err != nil || must(model.State()) != quire.ModelResident {
		t.Fatal(err, must(model.State()))
	}
	job := must(cache.Submit(endless()))
	defer job.Close()
	must(job.Next(ctx)) // the job computes now
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := model.Evict(short, quire.ModelOnDisk); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a model with jobs: %v", err)
	}
	expectRefused(t, model.Evict(ctx, quire.ModelResident), quire.CodeInvalidArgument, "state")
}

func TestADoneContextEndsOnlyTheWaitOfAShutdown(t *testing.T) {
	_, cache := open(t)
	job := must(cache.Submit(endless()))
	defer job.Close()
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if err := cache.Shutdown(done); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_, err := cache.Submit(greedy("a", 1))
	expectRefused(t, err, quire.CodeClosed, "")
}

func TestAgeingFollowsItsOption(t *testing.T) {
	runtime := newRuntime(t)
	model := must(runtime.LoadModel(modelPath()))
	defer model.Close()
	for ageing, first := range map[time.Duration]uint64{-1: 2, 100 * time.Microsecond: 1} { // -1 disables ageing
		for judged := false; !judged; {
			var begun uint64
			if begun, judged = firstToBegin(runtime, model, ageing); judged && begun != first {
				t.Errorf("ageing %v: %d begins first", ageing, begun)
			}
		}
	}
}

// firstToBegin returns which of two jobs starts first after a third: job 1 has waited at least a millisecond
// longer, job 2 has priority 1. The result is not judged if the third job ended too early.
func firstToBegin(runtime *quire.Runtime, model *quire.Model, ageing time.Duration) (first uint64, judged bool) {
	queue := must(runtime.NewQueue())
	defer queue.Close()
	cache := must(model.NewCache(quire.CacheOptions{MaxTokens: 2048, MaxBatchSize: 1, Ageing: ageing}))
	defer cache.Close()
	blocker := endless()
	blocker.Priority = 1000
	running := must(cache.Submit(blocker))
	defer running.Close()
	request := greedy("a", 1)
	request.Queue, request.UserData = queue, 1
	longer := must(cache.Submit(request))
	defer longer.Close()
	for must(longer.Info()).TimeQueued < time.Millisecond && must(longer.Info()).State == quire.StateQueued {
	}
	request.UserData, request.Priority = 2, 1
	higher := must(cache.Submit(request))
	defer higher.Close()
	judged = must(running.Info()).State != quire.StateFinished
	must(0, running.Cancel())
	return must(queue.Next(context.Background())).UserData, judged
}

func TestQuotasHoldForNamespacesWithoutTheirOwn(t *testing.T) {
	model, _ := open(t)
	cache := must(model.NewCache(quire.CacheOptions{
		MaxTokens: 1024, PageTokens: 16,
		Quotas: map[quire.QuotaKind]int{quire.QuotaPages: 2, quire.QuotaPinnedPages: 1},
		Namespaces: map[string]quire.NamespaceOptions{
			"large": {Quotas: map[quire.QuotaKind]int{quire.QuotaPages: 0}, Weight: 2},
		},
	}))
	defer cache.Close()
	request := greedy("a", 64)
	request.Namespace = "small"
	_, err := cache.Submit(request)
	expectRefused(t, err, quire.CodeTooLarge, "pages")
	request.Namespace = "large"
	job := must(cache.Submit(request))
	defer job.Close()
	if _, finish := drain(t, job); finish != quire.FinishLength && finish != quire.FinishStopToken {
		t.Errorf("finish reason %d", finish)
	}
	if figures := must(cache.Stats()).Namespaces; figures["large"].JobsFinished != 1 {
		t.Errorf("%+v", figures)
	}
}

func TestPinsKeepPagesWithinTheirQuota(t *testing.T) {
	model, _ := open(t)
	cache := must(model.NewCache(quire.CacheOptions{MaxTokens: 1024, PageTokens: 16, MaxPinnedPages: 2}))
	defer cache.Close()
	warm := func(text string) quire.Request {
		request := quire.Request{Kind: quire.KindWarm, Prompt: strings.Repeat(text, 40)}
		job := must(cache.Submit(request))
		defer job.Close()
		if _, finish := drain(t, job); finish != quire.FinishCompleted {
			t.Errorf("finish reason %d", finish)
		}
		return request
	}
	_, err := cache.Pin(context.Background(), quire.Request{Prompt: "unknown"}, 0)
	expectRefused(t, err, quire.CodeNotFound, "")
	_, err = cache.Pin(context.Background(), warm("one two three four "), 0)
	expectRefused(t, err, quire.CodeQuota, "")
	short := quire.Request{Tokens: must(model.Encode(strings.Repeat("one two three four ", 40), true, false))[:17]}
	if found := must(cache.Query(context.Background(), short)); found < 16 {
		t.Fatalf("%d tokens of the prompt are cached", found)
	}
	pin := must(cache.Pin(context.Background(), short, 0))
	if stats := must(cache.Stats()); stats.PagesPinned != 1 {
		t.Errorf("%+v", stats)
	}
	for i := 0; i < 2; i++ {
		if err := cache.Unpin(pin); err != nil {
			t.Fatal(err)
		}
	}
	must(cache.Query(context.Background(), short)) // queued after a step
	if stats := must(cache.Stats()); stats.PagesPinned != 0 {
		t.Errorf("%+v", stats)
	}
}

func TestPlanReportsBytesByKindAndDevice(t *testing.T) {
	runtime := newRuntime(t)
	small := quire.CacheOptions{MaxTokens: 500, MaxChunkTokens: 32, MaxBatchSize: 4}
	whole := must(runtime.Plan(modelPath(), quire.ModelOptions{}, small))
	sum := whole.EmbeddingBytes + whole.LayerBytes + whole.HeadBytes + whole.KVBytes + whole.WorkspaceBytes
	if whole.TotalBytes != sum || whole.LayerBytes <= 0 || whole.KVBytes <= 0 || len(whole.Layers) != 8 {
		t.Errorf("%+v", whole)
	}
	if len(whole.Devices) != 1 || whole.Devices[0].Name != "cpu" || whole.Devices[0].TotalBytes != whole.TotalBytes {
		t.Errorf("%+v", whole.Devices)
	}
	split := must(runtime.Plan(modelPath(), quire.ModelOptions{Device: "cpu,cpu", Split: "3,5"}, small))
	if split.Devices[0].NumLayers != 3 || split.Devices[1].NumLayers != 5 || split.Layers[3].Device != 1 {
		t.Errorf("%+v", split)
	}
	larger := small
	larger.MaxTokens = 1000
	if must(runtime.Plan(modelPath(), quire.ModelOptions{}, larger)).KVBytes <= whole.KVBytes {
		t.Error("a larger cache has no more bytes of pages")
	}
	_, err := runtime.Plan("/no/such/model", quire.ModelOptions{}, small)
	expectRefused(t, err, quire.CodeNotFound, "/no/such/model")
	_, err = runtime.Plan(modelPath(), quire.ModelOptions{Device: "cpu,cpu", Split: "1M,2M"}, small)
	expectRefused(t, err, quire.CodeOutOfMemory, "1048576")
	_, err = runtime.Plan(modelPath(), quire.ModelOptions{}, quire.CacheOptions{PageTokens: -1})
	expectRefused(t, err, quire.CodeInvalidArgument, "page_tokens")
}

func TestAModelSplitByBytesGeneratesTheSameText(t *testing.T) {
	runtime := newRuntime(t)
	planned := quire.CacheOptions{MaxTokens: 512, MaxChunkTokens: 32, MaxBatchSize: 4}
	whole := must(runtime.Plan(modelPath(), quire.ModelOptions{}, planned)).TotalBytes
	split := fmt.Sprintf("1G,%dK", whole*3/4/1024)
	options := quire.ModelOptions{Device: "cpu,cpu", Split: split, PlannedCache: &planned}
	if second := must(runtime.Plan(modelPath(), options, planned)).Devices[1]; second.NumLayers == 0 || second.NumLayers == 8 {
		t.Errorf("%+v", second)
	}
	model := must(runtime.LoadModelContext(context.Background(), modelPath(), options))
	defer model.Close()
	cache := must(model.NewCache(planned))
	defer cache.Close()
	job := must(cache.Submit(greedy(input(t, "QUIRE_TEST_PROMPT"), 48)))
	defer job.Close()
	if text, _ := drain(t, job); text != input(t, "QUIRE_TEST_EXPECTED") {
		t.Errorf("text: %q", text)
	}
}

func TestModelOptionsAreRefusedByName(t *testing.T) {
	runtime := newRuntime(t)
	load := func(options quire.ModelOptions) error {
		_, err := runtime.LoadModelContext(context.Background(), modelPath(), options)
		return err
	}
	expectRefused(t, load(quire.ModelOptions{Device: "cpu,cpu", Split: "3,6"}), quire.CodeInvalidArgument, "split: 9 layers")
	expectRefused(t, load(quire.ModelOptions{Device: "cpu,cpu", Split: "4,4", Reserve: "1,2,3"}), quire.CodeInvalidArgument, "reserve")
	expectRefused(t, load(quire.ModelOptions{Split: "1M"}), quire.CodeOutOfMemory, "1048576")
	expectRefused(t, load(quire.ModelOptions{Scope: 99}), quire.CodeInvalidArgument, "scope")
	expectRefused(t, load(quire.ModelOptions{PlannedCache: &quire.CacheOptions{MaxQueue: -1}}), quire.CodeInvalidArgument, "max_queue")
	if err := load(quire.ModelOptions{Device: "cuda:99"}); err == nil {
		t.Error("cuda:99 is there")
	}
}

func TestTheContextEndsALoad(t *testing.T) {
	runtime := newRuntime(t)
	over, cancel := context.WithCancel(context.Background())
	model := must(runtime.LoadModelContext(over, modelPath(), quire.ModelOptions{}))
	cancel()
	if _, err := model.Encode("a", true, false); err != nil {
		t.Error(err) // the load was complete
	}
	model.Close()
	if _, err := runtime.LoadModelContext(over, modelPath(), quire.ModelOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("expected context.Canceled, got %v", err)
	}
}

func TestALoadReportsItsProgress(t *testing.T) {
	runtime := newRuntime(t)
	load := func(ctx context.Context, progress func(done, total int64)) (*quire.Model, error) {
		return runtime.LoadModelContext(ctx, modelPath(), quire.ModelOptions{Progress: progress})
	}
	var told, all int64
	model := must(load(context.Background(), func(done, total int64) {
		if done < told || done > total {
			t.Errorf("%d of %d after %d", done, total, told)
		}
		told, all = done, total
		_, err := runtime.LoadModel(modelPath())
		expectRefused(t, err, quire.CodeReentrant, "")
	}))
	if told == 0 || told != all {
		t.Errorf("%d of %d at the end", told, all)
	}
	model.Close()

	ctx, cancel := context.WithCancel(context.Background())
	model, err := load(ctx, func(done, total int64) { cancel() })
	if err == nil {
		model.Close() // the load was complete before the cancel arrived
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("expected context.Canceled, got %v", err)
	}
	times := 0
	ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	defer func() {
		if passed := recover(); passed != "mine" || times != 1 {
			t.Errorf("%v after %d calls", passed, times)
		}
	}()
	_, err = load(ctx, func(done, total int64) {
		times++
		panic("mine")
	})
	t.Errorf("the panic was lost, and %v", err)
}

func TestAScopeLoadsOnlyItsParts(t *testing.T) {
	runtime := newRuntime(t)
	load := func(scope quire.ModelScope) *quire.Model {
		return must(runtime.LoadModelContext(context.Background(), modelPath(), quire.ModelOptions{Scope: scope}))
	}
	described := load(quire.ScopeMetadata)
	defer described.Close()
	if info := must(described.Info()); info.NumLayers != 8 {
		t.Errorf("%+v", info)
	}
	_, err := described.NewCache(quire.CacheOptions{})
	expectRefused(t, err, quire.CodeUnsupported, "")
	tokenizer := load(quire.ScopeTokenizer)
	defer tokenizer.Close()
	must(tokenizer.Encode("a", true, false))
	_, err = tokenizer.Info()
	expectRefused(t, err, quire.CodeUnsupported, "")
}

func TestAMemoryBudgetIsKept(t *testing.T) {
	runtime := must(quire.NewRuntime(quire.RuntimeOptions{MemoryBudgets: map[string]int64{"cpu": 1 << 20}}))
	defer runtime.Close()
	_, err := runtime.LoadModel(modelPath())
	expectRefused(t, err, quire.CodeOutOfMemory, "")
	if err := runtime.SetMemoryBudget("pinned", 1<<20); err != nil {
		t.Fatal(err)
	}
	expectRefused(t, runtime.SetMemoryBudget("pinned:0", 1), quire.CodeNotFound, "pinned:0")
}

func TestAQueueGetsPageEvents(t *testing.T) {
	runtime := newRuntime(t)
	model := must(runtime.LoadModel(modelPath()))
	defer model.Close()
	queue := must(runtime.NewQueue())
	defer queue.Close()
	cache := must(model.NewCache(quire.CacheOptions{MaxTokens: 1024, PageTokens: 16}))
	tokens := must(model.Encode(strings.Repeat("one two three four ", 40), true, false))[:40]
	job := must(cache.Submit(quire.Request{Tokens: tokens, Kind: quire.KindWarm, Namespace: "books"}))
	drain(t, job)
	job.Close()
	for round := 0; round < 2; round++ { // the second round starts again
		if err := cache.FollowPages(queue, 7); err != nil {
			t.Fatal(err)
		}
		parent := uint64(0)
		for number := 0; number < 3; number++ {
			event := must(queue.Next(context.Background()))
			if event.Kind != quire.EventPage || event.UserData != 7 || event.PageNumber != int64(number) {
				t.Fatalf("%+v", event)
			}
			if number == 0 {
				if event.PageChange != quire.PageCleared || event.PageMedium != quire.MediumNone {
					t.Errorf("%+v", event)
				}
				continue
			}
			if event.PageChange != quire.PageStored || event.PageMedium != quire.MediumDevice || event.PageNamespace != "books" ||
				event.PageHash == 0 || event.PageParent != parent {
				t.Errorf("%+v", event)
			}
			if !reflect.DeepEqual(event.Tokens, tokens[16*number-16:16*number]) {
				t.Errorf("%v", event.Tokens)
			}
			parent = event.PageHash
		}
	}
	cache.Close()
	last := must(queue.Next(context.Background()))
	if last.PageChange != quire.PageCleared || last.PageNumber != 3 {
		t.Errorf("%+v", last)
	}
	if err := cache.FollowPages(queue, 7); !errors.Is(err, quire.CodeClosed) {
		t.Error(err)
	}
}
