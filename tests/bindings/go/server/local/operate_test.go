package local_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"quire.dev/quire"
	"quire.dev/quire/server"
	"quire.dev/quire/server/local"
)

// planned returns the bytes of the embedded model with a cache.
func planned(t *testing.T, tokens int64) int64 {
	t.Helper()
	runtime, err := quire.NewRuntime(quire.RuntimeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.Close()
	plan, err := runtime.Plan(modelPath(t), quire.ModelOptions{}, quire.CacheOptions{MaxTokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	return plan.TotalBytes
}

func TestAModelThatNeverFitsIsRefusedAndEvictsNone(t *testing.T) {
	budget := planned(t, 8192) * 3 / 2
	f := start(t, func(c *server.Config) {
		c.Models["large"] = server.ModelConfig{Path: modelPath(t), CacheTokens: 1 << 20}
		c.MemoryBudgets = map[string]int64{"cpu": budget}
	})
	var got answer
	f.post("/v1/completions", `{"model":"story","prompt":"a","max_tokens":4}`, &got)
	response, text := f.send("/v1/completions", `{"model":"large","prompt":"a","max_tokens":4}`)
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "" ||
		!strings.Contains(string(text), "more memory than this server has") {
		t.Errorf("%d %s", response.StatusCode, text)
	}
	if state := f.engine.States()["story"]; state != server.StateResident {
		t.Errorf("the other model is %s", state)
	}
	if !strings.Contains(f.log.String(), "bytes of cpu") {
		t.Error(f.log.String())
	}
	problems := local.Check(f.config)
	if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), "models.large: it needs ") {
		t.Error(problems)
	}
}

func TestANewConfigurationChangesTheBudgets(t *testing.T) {
	needed := planned(t, 8192)
	f := start(t, func(c *server.Config) { c.MemoryBudgets = map[string]int64{"cpu": needed / 2} })
	body := `{"model":"story","prompt":"a","max_tokens":4}`
	response, text := f.send("/v1/completions", body)
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("%d %s", response.StatusCode, text)
	}
	for _, budgets := range []map[string]int64{{"cpu": needed * 4}, nil} { // nil: no limit
		changed := *f.config
		changed.MemoryBudgets = budgets
		f.engine.Configure(&changed)
		_ = f.engine.Evict("story") // a failed load is not tried again at once
		var got answer
		f.post("/v1/completions", body, &got)
	}
}

func TestTheCheckNamesTheFieldsOfAModel(t *testing.T) {
	modelPath(t)
	for field, change := range map[string]func(*server.ModelConfig){
		"models.m.path: ":             func(m *server.ModelConfig) { m.Path = "/nowhere/at/all" },
		"models.m: kv_format":         func(m *server.ModelConfig) { m.KvFormat = "q3" },
		"models.m: drafter":           func(m *server.ModelConfig) { m.Drafter = "eagle" },
		"models.m.chat_template: ":    func(m *server.ModelConfig) { m.ChatTemplate = "/nowhere" },
		"models.m.dialect: ":          func(m *server.ModelConfig) { m.Dialect = "esperanto" },
		"models.m.prefix_directory: ": func(m *server.ModelConfig) { m.PrefixDirectory = "/nowhere" },
		"models.m: ":                  func(m *server.ModelConfig) { m.Path = t.TempDir() },
	} {
		model := server.ModelConfig{Path: modelPath(t)}
		change(&model)
		problems := local.Check(&server.Config{Models: map[string]server.ModelConfig{"m": model}})
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), field) {
			t.Errorf("%s: %v", field, problems)
		}
	}
	if problems := local.Check(&server.Config{Models: map[string]server.ModelConfig{"m": {Path: modelPath(t)}}}); problems != nil {
		t.Error(problems)
	}
}

func TestStreamsThatAreCutOffNeverExceedTheRateOfTheirKey(t *testing.T) {
	const perMinute, streams = 900, 15
	f := start(t, func(c *server.Config) {
		c.Keys = []server.Key{{SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte("k"))), Owner: "a", TokensPerMinute: perMinute}}
		c.Models["story"] = server.ModelConfig{Path: modelPath(t), CacheTokens: 32768, MaxJobs: 16, Preload: true}
	})
	f.eventually("it is resident", func() bool { return f.engine.States()["story"] == server.StateResident })
	began := time.Now()
	for round := 0; round < 3; round++ {
		var clients sync.WaitGroup
		for i := 0; i < streams; i++ {
			clients.Add(1)
			go func() {
				defer clients.Done()
				ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
				defer cancel()
				request, _ := http.NewRequestWithContext(ctx, "POST", f.URL+"/v1/completions", strings.NewReader(
					`{"model":"story","prompt":"`+prompt+`","stream":true,"max_tokens":2000,"logit_bias":{"1":-1000}}`))
				request.Header.Set("Authorization", "Bearer k")
				if response, err := http.DefaultClient.Do(request); err == nil {
					_, _ = io.Copy(io.Discard, bufio.NewReader(response.Body))
					response.Body.Close()
				}
			}()
		}
		clients.Wait()
	}
	f.eventually("no job runs", func() bool { return f.figure(`quire_jobs_running{cache="story"}`) == 0 })
	computed := f.figure(`quire_new_tokens_total{cache="story"}`) + f.figure(`quire_prompt_tokens_computed_total{cache="story"}`)
	// A step may run, and another begin, before its tokens are charged.
	allowed := perMinute*(1+time.Since(began).Minutes()) + 2*streams
	if computed > allowed || computed < 100 {
		t.Errorf("%g tokens were computed, of %g", computed, allowed)
	}
}

func TestThePromptOfMoreBytesThanTheContextIsNotTokenized(t *testing.T) {
	f := start(t, nil)
	long := strings.Repeat("once upon a time ", 800000) // 13.6 MB
	began := time.Now()
	param, code := f.refused("/v1/completions", `{"model":"story","prompt":"`+long+`"}`, 400)
	if param != "prompt" || code != "context_length_exceeded" {
		t.Error(param, code)
	}
	t.Log("refused in", time.Since(began))
	// As many bytes as the tokens of the context can hold are left to the library, which counts tokens.
	param, code = f.refused("/v1/completions", `{"model":"story","prompt":"`+strings.Repeat("a", 20000)+`"}`, 400)
	if param != "prompt" || code != "context_length_exceeded" {
		t.Error(param, code)
	}
}

func TestTheLogOfTheLibraryIsFollowed(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Models["story"] = server.ModelConfig{Path: modelPath(t), CacheTokens: 1 << 16, KvFormat: "auto"}
		c.MemoryBudgets = map[string]int64{"cpu": planned(t, 1<<16) * 3 / 4}
	})
	var got answer
	f.post("/v1/completions", `{"model":"story","prompt":"a","max_tokens":4}`, &got)
	f.eventually("the library's choice of a format is logged", func() bool {
		return strings.Contains(f.log.String(), `"source":"library"`) && strings.Contains(f.log.String(), "stores keys and values as")
	})
}
