package server_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"quire.dev/quire/server"
)

// cutOff starts a stream and leaves it after a moment.
func (f *fixture) cutOff(after time.Duration) int {
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "POST", f.URL+"/v1/chat/completions",
		strings.NewReader(chat("count", `,"stream":true`)))
	request.Header.Set("Authorization", "Bearer "+f.key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	<-ctx.Done()
	response.Body.Close()
	return response.StatusCode
}

func TestStreamsThatAreCutOffNeverExceedTheRateOfTheirKey(t *testing.T) {
	const perMinute, streams = 600, 15
	f := start(t, func(c *server.Config) {
		c.Keys = []server.Key{{SHA256: digest("k"), Owner: "a", TokensPerMinute: perMinute}}
	})
	f.key = "k"
	began := time.Now()
	for round := 0; round < 3; round++ {
		var clients sync.WaitGroup
		for i := 0; i < streams; i++ {
			clients.Add(1)
			go func() {
				defer clients.Done()
				f.cutOff(400 * time.Millisecond)
			}()
		}
		clients.Wait()
	}
	eventually(t, func() bool { return f.engine.Open_.Load() == 0 })
	// Prompts are charged too, so this bound of the generated tokens is above what the key may get.
	allowed := perMinute*(1+time.Since(began).Minutes()) + 2*streams
	if got := float64(f.engine.Tokens.Load()); got > allowed || got < perMinute/2 {
		t.Errorf("%g tokens, of %g", got, allowed)
	}
}

func TestAStreamWaitsForTheTokensOfItsKeyAndEndsWhole(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Keys = []server.Key{{SHA256: digest("k"), Owner: "a", TokensPerMinute: 600}}
	})
	f.key = "k"
	response, text := f.do("POST", "/v1/chat/completions", chat(strings.Repeat("a ", 1300), ""))
	expect(t, response.StatusCode, 429)
	if !strings.Contains(text, "1303 tokens") {
		t.Error(text)
	}
	words := func(n int) string { return strings.TrimSpace(strings.Repeat("a ", n)) }
	f.post("/v1/chat/completions", chat(words(200), "")) // a prompt of 203 tokens, 2 of them cached: 199 are left
	began := time.Now()
	body := f.post("/v1/chat/completions", chat(words(105), "")) // 93 are left for its answer; 12 come in 1.2 seconds
	expect(t, at(body, "choices", 0, "message", "content"), words(105))
	if took := time.Since(began); took < time.Second || took > 20*time.Second {
		t.Error(took)
	}
}

func TestEmbeddingsAreChargedBeforeTheyAreComputed(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Keys = []server.Key{{SHA256: digest("k"), Owner: "a", TokensPerMinute: 10}}
	})
	f.key = "k"
	response, _ := f.do("POST", "/v1/embeddings", `{"model":"m","input":"more than ten tokens"}`)
	expect(t, response.StatusCode, 429)
	f.post("/v1/embeddings", `{"model":"m","input":"eight888"}`)
	response, _ = f.do("POST", "/v1/embeddings", `{"model":"m","input":"eight888"}`)
	expect(t, response.StatusCode, 429)
	expect(t, response.Header.Get("Retry-After") != "", true)
}

func TestPromptsThatCannotFitAreRefusedBeforeTheyAreTokenized(t *testing.T) {
	f := start(t, nil) // 4096 tokens of at most 16 bytes
	long := strings.Repeat("a", 4096*16+1)
	for path, body := range map[string]string{
		"/v1/chat/completions":      chat(long, ""),
		"/v1/completions":           `{"model":"m","prompt":"` + long + `"}`,
		"/v1/embeddings":            `{"model":"m","input":"` + long + `"}`,
		"/v1/score":                 `{"model":"m","input":"` + long + `"}`,
		"/v1/messages/count_tokens": `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"` + long + `"}]}]}`,
	} {
		response, text := f.do("POST", path, body)
		if response.StatusCode != 400 || !strings.Contains(text, "hold at most 65536 bytes") {
			t.Errorf("%s: %d %.200s", path, response.StatusCode, text)
		}
	}
	if f.engine.Last() != nil {
		t.Error("a prompt reached the engine")
	}
	// The escapes of a text are no part of it.
	f.post("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"`+strings.Repeat(`\u00e9`, 20000)+`"}]}`)
}

func TestClientsThatLeaveBeforeTheirTextIsTokenizedCauseNoWork(t *testing.T) {
	f := start(t, nil)
	f.engine.Tokenizing = time.Second
	long := chat(strings.Repeat("a ", 32760), "") // fits by its bytes
	places := runtime.GOMAXPROCS(0) / 2
	if places == 0 {
		places = 1
	}
	var clients sync.WaitGroup
	send := func(patience time.Duration) {
		clients.Add(1)
		go func() {
			defer clients.Done()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			request, _ := http.NewRequestWithContext(ctx, "POST", f.URL+"/v1/chat/completions", strings.NewReader(long))
			if response, err := http.DefaultClient.Do(request); err == nil {
				response.Body.Close()
			}
		}()
	}
	for i := 0; i < places; i++ {
		send(time.Minute)
	}
	eventually(t, func() bool { return f.engine.Submitted.Load() == int64(places) })
	for i := 0; i < 8; i++ {
		send(100 * time.Millisecond)
	}
	began := time.Now()
	f.post("/v1/chat/completions", chat("others are served", ""))
	if took := time.Since(began); took > 700*time.Millisecond {
		t.Errorf("another request took %v", took)
	}
	clients.Wait()
	f.Close() // waits for the handlers
	if tokenized := f.engine.Submitted.Load(); tokenized > int64(places)+1 {
		t.Errorf("%d prompts were tokenized, of %d that were waited for", tokenized, places+1)
	}
}

func TestCallsThatAreCutOffAreMarked(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/chat/completions", chat(`cut weather {"city": "Ro`, ""))
	expect(t, at(body, "choices", 0, "finish_reason"), "length")
	expect(t, at(body, "choices", 0, "message", "tool_calls", 0, "function", "arguments"), `{"city": "Ro`)
	body = f.post("/v1/responses", `{"model":"m","input":"cut weather {\"city\": \"Ro"}`)
	expect(t, at(body, "status"), "incomplete")
	expect(t, at(body, "output", 0, "status"), "incomplete")
	body = f.post("/v1/messages", `{"model":"m","max_tokens":99,"messages":[{"role":"user","content":"cut weather {\"city\": \"Ro"}]}`)
	expect(t, at(body, "stop_reason"), "model_context_window_exceeded") // it has fewer than 99 tokens
}
