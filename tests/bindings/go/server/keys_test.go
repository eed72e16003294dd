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
	if !strings.Contains(text, "1303 tokens") || response.Header.Get("x-should-retry") != "false" {
		t.Error(text, response.Header)
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
	for path, body := range map[string]string{ // the beginning of the message is the field
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
		param := map[string]string{"/v1/completions": "prompt", "/v1/embeddings": "input", "/v1/score": "input",
			"/v1/chat/completions": "messages"}[path]
		if param != "" && !strings.Contains(text, `"param":"`+param+`"`) {
			t.Errorf("%s: the fault is not at %s: %.200s", path, param, text)
		}
	}
	if f.engine.Last() != nil {
		t.Error("a prompt reached the engine")
	}
	// The escapes of a text are no part of it.
	f.post("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"`+strings.Repeat(`\u00e9`, 20000)+`"}]}`)
}

func TestAPromptIsCutBeforeItIsRefusedAsTooLong(t *testing.T) {
	f := start(t, nil) // 4096 tokens of at most 16 bytes, and each byte is a token
	long := strings.Repeat("a", 4096*16) + "bc"
	for path, body := range map[string]string{
		"/v1/chat/completions": chat(long, `,"truncate_prompt_tokens":2`),
		"/v1/completions":      `{"model":"m","prompt":"` + long + `","truncate_prompt_tokens":2}`,
	} {
		f.post(path, body)
		tokens := f.engine.Last().Tokens
		if path == "/v1/chat/completions" {
			tokens = f.engine.Last().Rendered
		}
		expect(t, tokens, []int{98, 99})
	}
	f.post("/v1/responses", `{"model":"m","truncation":"auto","input":[{"role":"user","content":"`+long+`"},{"role":"user","content":"last"}]}`)
	expect(t, f.messages(), []string{"user: last"})
	submitted := f.engine.Submitted.Load()
	for _, path := range []string{"/v1/chat/completions", "/v1/chat/completions/render"} { // longer than could ever be read
		param, code, message := f.refusal("POST", path, chat(strings.Repeat(long, 8), `,"truncate_prompt_tokens":2`), 400)
		if param != "messages" || code != "context_length_exceeded" || !strings.Contains(message, "524288 bytes") {
			t.Error(param, code, message)
		}
	}
	expect(t, f.engine.Submitted.Load(), submitted)
}

func TestAnswersHaveWhatIsLeftOfTheRatesOfTheirKey(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Keys = []server.Key{{SHA256: digest("k"), Owner: "a", RequestsPerMinute: 3, TokensPerMinute: 600},
			{SHA256: digest("free"), Owner: "b"}, {SHA256: digest("half"), Owner: "c", RequestsPerMinute: 60}}
	})
	f.key = "k"
	response, _ := f.do("POST", "/v1/chat/completions", chat("one two", "")) // a prompt of 5 tokens, 2 of them cached
	header := response.Header
	expect(t, []string{header.Get("x-ratelimit-limit-requests"), header.Get("x-ratelimit-remaining-requests"),
		header.Get("x-ratelimit-limit-tokens"), header.Get("x-ratelimit-remaining-tokens")}, []string{"3", "2", "600", "595"})
	reset, err := time.ParseDuration(header.Get("x-ratelimit-reset-requests"))
	if err != nil || reset < 15*time.Second || reset > 20*time.Second { // one of three requests returns in 20 seconds
		t.Error(header.Get("x-ratelimit-reset-requests"))
	}
	response, _ = f.do("POST", "/v1/messages", message("x", ""))
	expect(t, []string{response.Header.Get("anthropic-ratelimit-requests-remaining"),
		response.Header.Get("anthropic-ratelimit-tokens-limit"), response.Header.Get("x-ratelimit-limit-tokens")}, []string{"1", "600", ""})
	full, err := time.Parse(time.RFC3339, response.Header.Get("anthropic-ratelimit-requests-reset"))
	if err != nil || time.Until(full) > time.Minute || time.Until(full) < 20*time.Second {
		t.Error(response.Header)
	}
	f.stream("/v1/chat/completions", chat("x", `,"stream":true`))
	response, _ = f.do("POST", "/v1/chat/completions", chat("x", ""))
	expect(t, []interface{}{response.StatusCode, response.Header.Get("x-ratelimit-remaining-requests"), response.Header.Get("Retry-After") != "",
		response.Header.Get("x-should-retry")}, []interface{}{429, "0", true, ""})
	f.key = "half"
	response, _ = f.do("POST", "/v1/chat/completions", chat("x", ""))
	expect(t, []string{response.Header.Get("x-ratelimit-remaining-requests"), response.Header.Get("x-ratelimit-limit-tokens")}, []string{"59", ""})
	f.key = "free"
	response, _ = f.do("POST", "/v1/chat/completions", chat("x", ""))
	expect(t, response.Header.Get("x-ratelimit-limit-requests"), "")
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
