package local_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"quire.dev/quire"
	"quire.dev/quire-test/server/fake"
	"quire.dev/quire/server"
	"quire.dev/quire/server/local"
)

const prompt = "Once upon a time there was a"

func modelPath(t *testing.T) string {
	path := os.Getenv("QUIRE_TEST_MODEL")
	if path == "" {
		t.Skip("QUIRE_TEST_MODEL names no model")
	}
	return path
}

// All handles must be freed at the end. Goroutines of requests without a socket may take a moment, because no
// server waits for them.
func TestMain(m *testing.M) {
	code := m.Run()
	left := liveHandles()
	for i := 0; i < 200 && len(left) > 0; i++ {
		time.Sleep(50 * time.Millisecond)
		left = liveHandles()
	}
	if len(left) > 0 {
		fmt.Println("handles are left:", left)
		code = 1
	}
	os.Exit(code)
}

func liveHandles() map[string]int {
	var report struct {
		LiveHandles map[string]int `json:"live_handles"`
	}
	text, err := quire.Diagnose(quire.DiagnoseJSON)
	if err == nil {
		err = json.Unmarshal([]byte(text), &report)
	}
	if err != nil || len(report.LiveHandles) == 0 {
		panic(fmt.Sprint(err, text))
	}
	for handle, count := range report.LiveHandles {
		if count == 0 {
			delete(report.LiveHandles, handle)
		}
	}
	return report.LiveHandles
}

type fixture struct {
	*httptest.Server
	t      *testing.T
	engine *local.Engine
	config *server.Config
	log    *fake.Log
}

func start(t *testing.T, change func(*server.Config)) *fixture {
	t.Helper()
	config := &server.Config{Models: map[string]server.ModelConfig{"story": {Path: modelPath(t), CacheTokens: 8192}}}
	if change != nil {
		change(config)
	}
	if err := config.Check(); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, config: config, log: &fake.Log{}}
	logger := server.NewLogger(f.log)
	var err error
	if f.engine, err = local.New(config, logger); err != nil {
		t.Fatal(err)
	}
	f.Server = httptest.NewServer(server.New(f.engine, config, logger))
	t.Cleanup(func() {
		f.Server.Close()
		f.engine.Close()
	})
	return f
}

func (f *fixture) send(path, body string) (*http.Response, []byte) {
	f.t.Helper()
	return f.sendAs("", "POST", path, body)
}

// sendAs sends a request with the key, or without one if it is "".
func (f *fixture) sendAs(key, method, path, body string) (*http.Response, []byte) {
	f.t.Helper()
	request, err := http.NewRequest(method, f.URL+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return response, text
}

// post checks that the request succeeds and decodes the answer.
func (f *fixture) post(path, body string, into interface{}) {
	f.t.Helper()
	response, text := f.send(path, body)
	if response.StatusCode != http.StatusOK {
		f.t.Fatalf("%s %s: %d %s", path, body, response.StatusCode, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		f.t.Fatalf("%v in %s", err, text)
	}
}

func (f *fixture) get(path string) (status int, body []byte) {
	f.t.Helper()
	response, body := f.sendAs("", "GET", path, "")
	return response.StatusCode, body
}

// refused checks the status and returns the field at fault and the error code.
func (f *fixture) refused(path, body string, status int) (param, code string) {
	f.t.Helper()
	response, text := f.send(path, body)
	var failure struct {
		Error struct{ Message, Type, Param, Code string }
	}
	if err := json.Unmarshal(text, &failure); err != nil || response.StatusCode != status {
		f.t.Fatalf("%s %s: %d %s, not %d", path, body, response.StatusCode, text, status)
	}
	return failure.Error.Param, failure.Error.Code
}

// figure returns one sample of /metrics.
func (f *fixture) figure(sample string) float64 {
	f.t.Helper()
	response, err := http.Get(f.URL + "/metrics")
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value := strings.TrimPrefix(lines.Text(), sample+" "); value != lines.Text() {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				f.t.Fatal(err)
			}
			return number
		}
	}
	return math.NaN()
}

func (f *fixture) eventually(what string, holds func() bool) {
	f.t.Helper()
	for i := 0; i < 3000; i++ {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.t.Fatalf("it never came to be that %s", what)
}

type answer struct {
	Choices []struct {
		Text         string
		FinishReason string `json:"finish_reason"`
		Message      struct{ Content string }
		LogProbs     struct {
			Content []struct {
				Token   string
				LogProb float64
				Top     []struct{ Token string } `json:"top_logprobs"`
			}
		} `json:"logprobs"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

// direct returns the library without a server, for comparison with the server's answers.
func direct(t *testing.T) (*quire.Model, *quire.Cache) {
	t.Helper()
	runtime, err := quire.NewRuntime(quire.RuntimeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	model, err := runtime.LoadModel(modelPath(t))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := model.NewCache(quire.CacheOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cache.Close()
		_ = model.Close()
		_ = runtime.Close()
	})
	return model, cache
}

func generate(t *testing.T, cache *quire.Cache, request quire.Request) string {
	t.Helper()
	job, err := cache.Submit(request)
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	var text strings.Builder
	for {
		event, err := job.Next(context.Background())
		if err == io.EOF {
			return text.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(event.Text)
	}
}
