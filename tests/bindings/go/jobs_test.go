// Jobs, queues, statistics and descriptions.
package story

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"quire.dev/quire"
)

// endless returns a request for a job that does not end by itself during a test.
func endless() quire.Request {
	request := greedy("Once upon a time", 1500)
	request.IgnoreEOS = true
	return request
}

func TestManyCompletionsOfOnePrompt(t *testing.T) {
	_, cache := open(t)
	jobs := must(cache.SubmitMany(greedy(input(t, "QUIRE_TEST_PROMPT"), 48), 3))
	if len(jobs) != 3 {
		t.Fatalf("%d jobs", len(jobs))
	}
	ids := map[int64]bool{}
	for _, job := range jobs {
		ids[must(job.ID())] = true
		if text, finish := drain(t, job); text != input(t, "QUIRE_TEST_EXPECTED") || finish != quire.FinishLength {
			t.Errorf("%d: %q", finish, text)
		}
		if err := job.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(ids) != 3 {
		t.Errorf("ids %v", ids)
	}
	for _, n := range []int{0, -1, 2000} {
		_, err := cache.SubmitMany(greedy("a", 1), n)
		expectRefused(t, err, quire.CodeInvalidArgument, "jobs")
	}
}

func TestSeedsOfManyCountUp(t *testing.T) {
	_, cache := open(t)
	seed := uint64(7)
	request := quire.Request{Prompt: "Once upon a time", MaxNewTokens: 12, Seed: &seed}
	for _, job := range must(cache.SubmitMany(request, 3)) {
		together, _ := drain(t, job)
		alone := must(cache.Submit(request))
		if text, _ := drain(t, alone); text != together {
			t.Errorf("seed %d: %q alone, %q together", seed, text, together)
		}
		job.Close()
		alone.Close()
		seed++
	}
}

func newCacheAndQueue(t *testing.T, maxTokens int64) (*quire.Cache, *quire.Queue) {
	t.Helper()
	runtime := newRuntime(t)
	model := must(runtime.LoadModel(modelPath()))
	t.Cleanup(func() { model.Close() })
	cache := must(model.NewCache(quire.CacheOptions{MaxTokens: maxTokens}))
	t.Cleanup(func() { cache.Close() })
	queue := must(runtime.NewQueue())
	t.Cleanup(func() { queue.Close() })
	return cache, queue
}

func TestAQueueHasTheEventsOfItsJobs(t *testing.T) {
	cache, queue := newCacheAndQueue(t, 2048)
	request := greedy(input(t, "QUIRE_TEST_PROMPT"), 48)
	request.Queue = queue
	jobs := map[uint64]*quire.Job{}
	for request.UserData = 1; request.UserData <= 3; request.UserData++ {
		job := must(cache.Submit(request))
		defer job.Close()
		jobs[request.UserData] = job
	}
	texts := map[uint64]string{}
	for left := len(jobs); left > 0; {
		events := must(queue.Drain(context.Background(), 8))
		if len(events) == 0 || len(events) > 8 {
			t.Fatalf("%d events", len(events))
		}
		for _, event := range events {
			if event.JobID != must(jobs[event.UserData].ID()) {
				t.Errorf("%+v", event)
			}
			texts[event.UserData] += event.Text
			if event.Kind == quire.EventFinished {
				left--
			}
		}
	}
	for name, job := range jobs {
		if texts[name] != input(t, "QUIRE_TEST_EXPECTED") {
			t.Errorf("%d: %q", name, texts[name])
		}
		if _, err := job.Next(context.Background()); !errors.Is(err, io.EOF) {
			t.Errorf("the queue took the last event, and Next gives %v", err)
		}
	}
	_, err := queue.Drain(context.Background(), 0)
	expectRefused(t, err, quire.CodeInvalidArgument, "max_events")
}

func TestManyGoroutinesShareAQueue(t *testing.T) {
	cache, queue := newCacheAndQueue(t, 2048)
	request := greedy("Once upon a time", 40)
	request.Queue, request.IgnoreEOS = queue, true
	jobs := must(cache.SubmitMany(request, 6))
	taken, ended := make(chan quire.Event), make(chan error)
	for i := 0; i < 4; i++ {
		go func() {
			for {
				events, err := queue.Drain(context.Background(), 3)
				for _, event := range events {
					taken <- event
				}
				if err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	tokens, last := 0, map[int64]int{}
	for len(last) < len(jobs) {
		event := <-taken
		tokens += len(event.Tokens)
		if event.Kind == quire.EventFinished {
			last[event.JobID]++
		}
	}
	// The last event of a job may overtake its last text, which another goroutine still holds.
	for tokens < 6*40 {
		tokens += len((<-taken).Tokens)
	}
	if err := queue.Close(); err != nil {
		t.Error(err)
	}
	for i := 0; i < 4; i++ {
		expectRefused(t, <-ended, quire.CodeClosed, "")
	}
	for _, job := range jobs {
		if info := must(job.Info()); info.NewTokens != 40 || last[must(job.ID())] != 1 {
			t.Errorf("%+v, %v", info, last)
		}
		job.Close()
	}
	if tokens != 6*40 {
		t.Errorf("%d tokens", tokens)
	}
}

func TestAFailureOfAJobIsAnEventOfItsQueue(t *testing.T) {
	cache, queue := newCacheAndQueue(t, 2048)
	late := greedy("Once upon a time", 100)
	late.Queue, late.Deadline = queue, 1 // nanosecond; the cache cannot detect yet that this is too short
	job := must(cache.Submit(late))
	defer job.Close()
	for {
		event := must(queue.Next(context.Background()))
		if event.Kind == quire.EventError {
			expectRefused(t, event.Err, quire.CodeDeadline, "")
			break
		}
	}
	if info := must(job.Info()); info.ErrorCode != quire.CodeDeadline || info.State != quire.StateFinished {
		t.Errorf("%+v", info)
	}
}

func TestAShutQueueWakesItsWaiterAndRefuses(t *testing.T) {
	queue := must(newRuntime(t).NewQueue())
	ended := make(chan error)
	go func() {
		_, err := queue.Next(context.Background())
		ended <- err
	}()
	if err := queue.Shutdown(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		expectRefused(t, err, quire.CodeClosed, "")
	case <-time.After(30 * time.Second):
		t.Fatal("the waiter was not woken")
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := queue.Drain(over, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("expected context.Canceled, got %v", err)
	}
	for i := 0; i < 2; i++ {
		if err := queue.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := queue.Next(context.Background())
	expectRefused(t, err, quire.CodeClosed, "")
	_, cache := open(t)
	_, err = cache.Submit(quire.Request{Prompt: "a", Queue: queue})
	expectRefused(t, err, quire.CodeClosed, "")
}

// Every method of a closed object returns Closed, whatever its arguments are.
func TestEveryMethodOfAClosedObjectRefuses(t *testing.T) {
	runtime := newRuntime(t)
	model := must(runtime.LoadModel(modelPath()))
	cache := must(model.NewCache(quire.CacheOptions{MaxTokens: 2048}))
	queue := must(runtime.NewQueue())
	job := must(cache.Submit(endless()))
	alias := must(runtime.NewAlias("chat"))
	parser := must(quire.NewResponseParser("plain"))
	for _, object := range []io.Closer{runtime, model, cache, queue, job, alias, parser} {
		if err := object.Close(); err != nil {
			t.Fatal(err)
		}
		value := reflect.ValueOf(object)
		for i := 0; i < value.NumMethod(); i++ {
			name, method := value.Type().Method(i).Name, value.Method(i)
			if name == "Close" || name == "Stream" { // Stream returns a sequence, which reports the error when it is read
				continue
			}
			results := method.Call(argumentsFor(method.Type()))
			if err, _ := results[len(results)-1].Interface().(error); !errors.Is(err, quire.CodeClosed) {
				t.Errorf("%T.%s: %v", object, name, err)
			}
		}
	}
}

func argumentsFor(function reflect.Type) []reflect.Value {
	arguments := make([]reflect.Value, function.NumIn())
	for i := range arguments {
		if arguments[i] = reflect.Zero(function.In(i)); function.In(i).Kind() == reflect.Interface {
			arguments[i] = reflect.ValueOf(context.Background())
		}
	}
	return arguments
}

func TestShutdownEndsEveryJob(t *testing.T) {
	_, cache := open(t)
	job := must(cache.Submit(endless()))
	defer job.Close()
	for i := 0; i < 2; i++ {
		if err := cache.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if err := job.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := job.Next(context.Background()); err != nil {
			expectRefused(t, err, quire.CodeClosed, "")
			break
		}
	}
	_, err := cache.Submit(greedy("a", 1))
	expectRefused(t, err, quire.CodeClosed, "")
}

func TestAJobIsPausedResumedAndForked(t *testing.T) {
	_, cache := open(t)
	job := must(cache.Submit(endless()))
	defer job.Close()
	for _, err := range []error{job.SetPriority(3), job.Pause()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	over, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := job.Wait(over); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused job ended, or %v", err)
	}
	if line := must(job.Explain()); line == "" || strings.Contains(line, "\n") {
		t.Errorf("%q", line)
	}
	fork := must(job.Fork(quire.Request{MaxNewTokens: 5}))
	defer fork.Close()
	for _, err := range []error{job.Resume(), fork.Wait(context.Background())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if info := must(fork.Info()); info.Finish != quire.FinishLength || info.NewTokens < 5 {
		t.Errorf("%+v", info)
	}
	if err := job.Rewind(1); err != nil {
		t.Error(err)
	}
	expectRefused(t, job.SetPriority(5000), quire.CodeInvalidArgument, "priority")
	expectRefused(t, job.Rewind(-1), quire.CodeInvalidArgument, "num_new_tokens")
}

func TestEventsReportProgressAndProbabilities(t *testing.T) {
	model, _ := open(t)
	cache := must(model.NewCache(quire.CacheOptions{MaxTokens: 512, MaxChunkTokens: 4}))
	defer cache.Close()
	request := greedy(input(t, "QUIRE_TEST_PROMPT"), 6)
	request.ProgressEvents, request.TopLogProbs = true, 2
	job := must(cache.Submit(request))
	defer job.Close()
	var done int64
	var tokens, top []int32
	var logProbs, topLogProbs []float32
	for {
		event, err := job.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if event.Kind == quire.EventProgress {
			if event.ProgressDone <= done || event.ProgressDone > event.ProgressTotal {
				t.Errorf("%d of %d after %d", event.ProgressDone, event.ProgressTotal, done)
			}
			done = event.ProgressDone
		}
		tokens, logProbs = append(tokens, event.Tokens...), append(logProbs, event.LogProbs...)
		top, topLogProbs = append(top, event.TopTokens...), append(topLogProbs, event.TopLogProbs...)
	}
	if info := must(job.Info()); done == 0 || done > info.PromptTokens || info.NewTokens != 6 || info.TimeGenerate <= 0 {
		t.Errorf("%d tokens of the prompt done; %+v", done, info)
	}
	if len(tokens) != 6 || len(logProbs) != 6 || len(top) != 12 || len(topLogProbs) != 12 {
		t.Fatalf("%d tokens, %d, %d, %d", len(tokens), len(logProbs), len(top), len(topLogProbs))
	}
	for i := range tokens { // greedy: the chosen token is the likeliest
		if top[2*i] != tokens[i] || topLogProbs[2*i] != logProbs[i] || logProbs[i] > 0 {
			t.Errorf("token %d: %v %v", i, top[2*i:2*i+2], topLogProbs[2*i:2*i+2])
		}
	}
}

func TestSamplingSettingsArriveAndAreRefusedByName(t *testing.T) {
	_, cache := open(t)
	first := func(request quire.Request) int32 {
		job := must(cache.Submit(request))
		defer job.Close()
		for {
			event, err := job.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if len(event.Tokens) > 0 {
				return event.Tokens[0]
			}
		}
	}
	request := greedy("Once upon a time", 1)
	likeliest := first(request)
	request.BannedTokens = []int32{likeliest}
	if first(request) == likeliest {
		t.Error("a banned token was drawn")
	}
	request.BannedTokens, request.LogitBias = nil, map[int32]float64{42: 1000}
	if token := first(request); token != 42 {
		t.Errorf("token %d in spite of the bias", token)
	}
	for says, request := range map[string]quire.Request{
		"kind":               {Kind: 99},
		"min_new_tokens":     {MinNewTokens: -1},
		"repetition_penalty": {RepetitionPenalty: 1000},
		"frequency_penalty":  {FrequencyPenalty: 1000},
		"presence_penalty":   {PresencePenalty: 1000},
		"range_tokens":       {PenaltyRange: -2},
		"fade_tokens":        {PenaltyDecay: -1},
		"top_log_probs":      {TopLogProbs: 65},
		"pooling":            {Pooling: 99},
		"event_policy":       {EventPolicy: 99},
		"max_unread_events":  {MaxUnreadEvents: 1},
		"namespace":          {Namespace: strings.Repeat("n", 257)},
		"priority":           {Priority: hugeInt},
		"deadline_ns":        {QueueDeadline: -1},
		"deadline_ns ":       {FirstTokenDeadline: -1},
		"deadline_ns  ":      {Deadline: -1},
	} {
		request.Prompt = "a"
		_, err := cache.Submit(request)
		expectRefused(t, err, quire.CodeInvalidArgument, strings.TrimSpace(says))
	}
}

func TestScoresAndEmbeddings(t *testing.T) {
	model, cache := open(t)
	tokens := must(model.Encode(input(t, "QUIRE_TEST_PROMPT"), true, false))
	job := must(cache.Submit(quire.Request{Kind: quire.KindScore, Tokens: tokens, RawLogits: true}))
	defer job.Close()
	if err := job.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	scores, again := must(job.Scores()), must(cache.Score(context.Background(), quire.Request{Tokens: tokens}, 0))
	if len(scores) != len(tokens) || len(again) != len(tokens) || !math.IsNaN(float64(scores[0])) {
		t.Fatalf("%v, %v", scores, again)
	}
	for i := 1; i < len(scores); i++ {
		if scores[i] != again[i] || scores[i] > 0 {
			t.Errorf("token %d: %g, %g", i, scores[i], again[i])
		}
	}
	vocab := must(cache.VocabSize())
	logits := must(cache.Logits(context.Background(), quire.Request{Tokens: tokens}))
	if kept := must(job.RawLogits()); len(kept) != len(tokens)*vocab || len(logits) != len(kept) || logits[vocab] != kept[vocab] {
		t.Errorf("%d and %d logits", len(kept), len(logits))
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := cache.Score(over, quire.Request{Tokens: tokens}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("expected context.Canceled, got %v", err)
	}
	_, err := cache.Score(context.Background(), quire.Request{Tokens: []int32{-1}}, 0)
	expectRefused(t, err, quire.CodeInvalidArgument, "")

	embed := must(cache.Submit(quire.Request{Kind: quire.KindEmbed, Tokens: tokens, Pooling: quire.PoolingLast}))
	defer embed.Close()
	if err := embed.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	var length float64
	vector := must(embed.Embedding())
	for _, value := range vector {
		length += float64(value) * float64(value)
	}
	if len(vector) != must(model.Info()).HiddenSize || math.Abs(length-1) > 1e-5 { // sums of a few hundred squares in f32
		t.Errorf("%d values of length %g", len(vector), length)
	}
}

func TestStatisticsAddUp(t *testing.T) {
	_, cache := open(t)
	request := greedy("Once upon a time", 4)
	request.Namespace = "tenant"
	job := must(cache.Submit(request))
	defer job.Close()
	drain(t, job)
	stats := must(cache.Stats())
	if stats.PagesFree+stats.PagesCached+stats.PagesReferenced != stats.PagesTotal ||
		stats.JobsQueued+stats.JobsRunning+stats.JobsFinished != stats.JobsSubmitted {
		t.Errorf("%+v", stats)
	}
	own := stats.Namespaces["tenant"]
	if own.NewTokens != 4 || own.Namespaces != nil || stats.Steps < 4 {
		t.Errorf("%+v", stats)
	}
	if first := stats.Histograms[quire.HistogramTimeToFirstToken]; first.Count != 1 || first.Sum <= 0 || first.P50 <= 0 {
		t.Errorf("%+v", first)
	}
	if text := must(cache.Metrics("main")); !strings.Contains(text, `cache="main"`) {
		t.Error(text)
	}
}

func TestModelsAndDevicesAreDescribed(t *testing.T) {
	model, _ := open(t)
	info := must(model.Info())
	if info.Architecture == "" || info.VocabSize <= 0 || info.BitsPerWeight <= 3 || info.WeightBytes <= 0 {
		t.Errorf("%+v", info)
	}
	quantized := 0
	for _, tensor := range must(model.Tensors()) {
		if tensor.Format == "exl2" && len(tensor.Shape) == 2 && tensor.Layer >= 0 && tensor.Bytes > 0 {
			quantized++
		}
	}
	if quantized != 7*info.NumLayers {
		t.Errorf("%d quantized matrices in layers", quantized)
	}
	eos := must(model.SpecialToken(quire.TokenEOS))
	if !must(model.IsSpecial(eos)) || must(model.EOSTokens())[0] != eos || int(eos) >= must(model.TokenizerSize()) {
		t.Errorf("end of text %d", eos)
	}
	if found := must(model.FindToken(string(must(model.TokenBytes(eos))))); found != eos {
		t.Errorf("%d is spelled as %d", eos, found)
	}
	_, err := model.IsSpecial(-1)
	expectRefused(t, err, quire.CodeInvalidArgument, "token")

	runtime := newRuntime(t)
	devices := must(runtime.Devices())
	if devices[0].Name != "cpu" || devices[0].Refusal != "" || devices[0].MemoryBytes < devices[0].FreeBytes {
		t.Errorf("%+v", devices)
	}
	var report struct{ Version string }
	if err := json.Unmarshal([]byte(must(quire.Diagnose(quire.DiagnoseJSON))), &report); err != nil {
		t.Error(err)
	}
	if report.Version != quire.LibraryVersion() {
		t.Errorf("%+v", report)
	}
}
