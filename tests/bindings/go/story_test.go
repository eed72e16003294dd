// The Go binding on the embedded model: the same greedy text as the command, an emoji in input and output, a
// cancelled job, an error message, and handles closed in the wrong order.
package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"quire.dev/quire"
)

// All handles must be freed at the end: those of the tests, and those that the package makes for a call. A
// thread of its own frees the dispatcher's queue together with the wait on it.
func TestMain(m *testing.M) {
	code := m.Run()
	left := liveHandles()
	for deadline := time.Now().Add(10 * time.Second); len(left) > 0 && time.Now().Before(deadline); left = liveHandles() {
		time.Sleep(10 * time.Millisecond)
	}
	if len(left) > 0 {
		fmt.Println("handles are left:", left)
		code = 1
	}
	os.Exit(code)
}

// liveHandles returns the number of live handles of each type that has any.
func liveHandles() map[string]int {
	var report struct {
		LiveHandles map[string]int `json:"live_handles"`
	}
	if err := json.Unmarshal([]byte(must(quire.Diagnose(quire.DiagnoseJSON))), &report); err != nil {
		panic(err)
	}
	if _, known := report.LiveHandles["quire_event"]; !known {
		panic(report)
	}
	for handle, count := range report.LiveHandles {
		if count == 0 {
			delete(report.LiveHandles, handle)
		}
	}
	return report.LiveHandles
}

func input(t *testing.T, name string) string {
	t.Helper()
	path := os.Getenv(name)
	if path == "" {
		t.Fatalf("the environment variable %s is not set", name)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func open(t *testing.T) (*quire.Model, *quire.Cache) {
	t.Helper()
	runtime := must(quire.NewRuntime(quire.RuntimeOptions{NumThreads: 2}))
	model := must(runtime.LoadModel(os.Getenv("QUIRE_TEST_MODEL")))
	cache := must(model.NewCache(quire.CacheOptions{MaxTokens: 2048}))
	t.Cleanup(func() { // from the root to the leaf, the wrong order
		for _, closer := range []io.Closer{runtime, model, cache, runtime} {
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return model, cache
}

func greedy(prompt string, maxNewTokens int) quire.Request {
	zero := 0.0
	return quire.Request{Prompt: prompt, MaxNewTokens: maxNewTokens, Temperature: &zero}
}

// drain takes all events of a job and returns its text and its finish reason.
func drain(t *testing.T, job *quire.Job) (string, quire.FinishReason) {
	t.Helper()
	var text strings.Builder
	var finish quire.FinishReason
	for {
		event, err := job.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return text.String(), finish
		}
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(event.Text)
		finish = event.Finish
	}
}

func TestStreamsTheTextOfTheCommand(t *testing.T) {
	_, cache := open(t)
	job := must(cache.Submit(greedy(input(t, "QUIRE_TEST_PROMPT"), 48)))
	defer job.Close()
	text, finish := drain(t, job)
	if expected := input(t, "QUIRE_TEST_EXPECTED"); text != expected {
		t.Errorf("expected %q, got %q", expected, text)
	}
	if finish != quire.FinishLength {
		t.Errorf("finish reason %d", finish)
	}
}

func TestTextSurvivesTheTokenizer(t *testing.T) {
	model, _ := open(t)
	for _, text := range []string{"", "a 🙂 b", "zero\x00byte", input(t, "QUIRE_TEST_PROMPT")} {
		tokens := must(model.Encode(text, true, false))
		if decoded := must(model.Decode(tokens, true)); decoded != text {
			t.Errorf("%q came back as %q", text, decoded)
		}
	}
}

func TestCancelEndsOneJobAndNoOther(t *testing.T) {
	_, cache := open(t)
	cancelled := must(cache.Submit(greedy("Once upon a time", 1000)))
	defer cancelled.Close()
	neighbour := must(cache.Submit(greedy(input(t, "QUIRE_TEST_PROMPT"), 48)))
	defer neighbour.Close()
	if _, err := cancelled.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := cancelled.Cancel(); err != nil {
		t.Fatal(err)
	}
	if _, finish := drain(t, cancelled); finish != quire.FinishCancelled {
		t.Errorf("finish reason %d", finish)
	}
	if text, _ := drain(t, neighbour); text != input(t, "QUIRE_TEST_EXPECTED") {
		t.Errorf("the neighbour's text changed: %q", text)
	}
}

func TestErrorsNameTheFault(t *testing.T) {
	runtime := must(quire.NewRuntime(quire.RuntimeOptions{}))
	defer runtime.Close()
	_, err := runtime.LoadModel("/no/such/model")
	var failure *quire.Error
	if !errors.As(err, &failure) || !errors.Is(err, quire.CodeNotFound) {
		t.Fatalf("expected not_found, got %v", err)
	}
	if !strings.Contains(failure.Message, "/no/such/model") || strings.Contains(failure.Message, "\n") {
		t.Errorf("message: %q", failure.Message)
	}
	_, cache := open(t)
	if failure.Parameter != "" {
		t.Errorf("parameter: %q", failure.Parameter)
	}
	if _, err := cache.Submit(greedy("a", -1)); !errors.As(err, &failure) || failure.Code != quire.CodeInvalidArgument ||
		failure.Parameter != "max_new_tokens" {
		t.Errorf("expected invalid_argument of max_new_tokens, got %v of %q", err, failure.Parameter)
	}
	_, err = cache.Submit(quire.Request{Prompt: "a", MaxNewTokens: 1, TopK: -1})
	if !errors.As(err, &failure) || failure.Parameter != "top_k" {
		t.Errorf("expected top_k, got %v of %q", err, failure.Parameter)
	}
	_, err = cache.Submit(greedy("\xff", 1))
	expectRefused(t, err, quire.CodeEncoding, "UTF-8")
}

func TestAForgottenPromptIsRefused(t *testing.T) {
	_, cache := open(t)
	_, err := cache.Submit(quire.Request{MaxNewTokens: 1})
	expectRefused(t, err, quire.CodeInvalidArgument, "prompt")
}

func TestANamespaceIsUTF8InEveryCall(t *testing.T) {
	model, cache := open(t)
	const broken = "caf\xc3"
	request := greedy("a", 1)
	request.Namespace = broken
	_, err := cache.Submit(request)
	expectRefused(t, err, quire.CodeEncoding, "namespace")
	for _, own := range []quire.NamespaceOptions{{Weight: 2}, {Quotas: map[quire.QuotaKind]int{quire.QuotaPages: 1}}} {
		_, err = model.NewCache(quire.CacheOptions{Namespaces: map[string]quire.NamespaceOptions{broken: own}})
		expectRefused(t, err, quire.CodeEncoding, "namespace")
	}
	expectRefused(t, cache.SetNamespaceWeight(broken, 2), quire.CodeEncoding, "namespace")
	expectRefused(t, cache.SetNamespaceQuota(broken, quire.QuotaPages, 1), quire.CodeEncoding, "namespace")
	request.Namespace = "café 🙂"
	job := must(cache.Submit(request))
	defer job.Close()
	drain(t, job)
	if stats := must(cache.Stats()); stats.Namespaces[request.Namespace].JobsFinished != 1 {
		t.Errorf("%v", stats.Namespaces)
	}
}

func TestClosedObjectsRefuse(t *testing.T) {
	runtime := must(quire.NewRuntime(quire.RuntimeOptions{}))
	for i := 0; i < 2; i++ {
		if err := runtime.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := runtime.LoadModel("anything"); !errors.Is(err, quire.CodeClosed) {
		t.Errorf("expected closed, got %v", err)
	}
}

func TestCloseEndsTheWaitOfAnotherGoroutine(t *testing.T) {
	_, cache := open(t)
	job := must(cache.Submit(greedy("Once upon a time", 1000)))
	ended := make(chan error)
	go func() {
		for {
			if event, err := job.Next(context.Background()); err != nil || event.Finish != 0 {
				ended <- err
				return
			}
		}
	}()
	if err := job.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the waiter was not woken")
	}
}

func TestContextEndsTheWaitAndNotTheJob(t *testing.T) {
	_, cache := open(t)
	job := must(cache.Submit(greedy(input(t, "QUIRE_TEST_PROMPT"), 48)))
	defer job.Close()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := job.Next(over); !errors.Is(err, context.Canceled) {
		t.Fatalf("expected context.Canceled, got %v", err)
	}
	if text, _ := drain(t, job); text != input(t, "QUIRE_TEST_EXPECTED") {
		t.Errorf("text: %q", text)
	}
}
