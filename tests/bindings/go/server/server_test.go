package server_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"quire.dev/quire-test/server/fake"
	"quire.dev/quire/server"
)

type fixture struct {
	*httptest.Server
	t      *testing.T
	engine *fake.Engine
	server *server.Server
	log    *fake.Log
	key    string
}

func start(t *testing.T, change func(*server.Config)) *fixture {
	t.Helper()
	config := &server.Config{Models: map[string]server.ModelConfig{"m": {Path: "x"}, "other": {Path: "y"}},
		Aliases: map[string]string{"gpt-4o": "m"}}
	if change != nil {
		change(config)
	}
	if err := config.Check(); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, engine: &fake.Engine{Broken: map[string]bool{}}, log: &fake.Log{}}
	f.server = server.New(f.engine, config, server.NewLogger(f.log))
	f.Server = httptest.NewServer(f.server)
	t.Cleanup(func() {
		f.Close()
		for i := 0; i < 200 && f.engine.Models_.Load() != 0; i++ { // background responses end by themselves
			time.Sleep(10 * time.Millisecond)
		}
		if open := f.engine.Open_.Load(); open != 0 {
			t.Errorf("%d streams are left open", open)
		}
		if open := f.engine.Models_.Load(); open != 0 {
			t.Errorf("%d models are left open", open)
		}
	})
	return f
}

func (f *fixture) do(method, path, body string) (*http.Response, string) {
	f.t.Helper()
	request, _ := http.NewRequest(method, f.URL+path, strings.NewReader(body))
	if f.key != "" {
		request.Header.Set("Authorization", "Bearer "+f.key)
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
	return response, string(text)
}

func (f *fixture) post(path, body string) map[string]interface{} {
	f.t.Helper()
	response, text := f.do("POST", path, body)
	if response.StatusCode != 200 {
		f.t.Fatalf("%s: %d %s", path, response.StatusCode, text)
	}
	return f.object(text)
}

func (f *fixture) object(text string) map[string]interface{} {
	f.t.Helper()
	var value map[string]interface{}
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		f.t.Fatalf("%v in %s", err, text)
	}
	return value
}

// stream returns the data of each event.
func (f *fixture) stream(path, body string) []string {
	f.t.Helper()
	response, text := f.do("POST", path, body)
	if response.StatusCode != 200 || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		f.t.Fatalf("%s: %d %s", path, response.StatusCode, text)
	}
	var events []string
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "data: ") {
			events = append(events, strings.TrimPrefix(line, "data: "))
		}
	}
	return events
}

func at(value interface{}, path ...interface{}) interface{} {
	for _, step := range path {
		switch key := step.(type) {
		case string:
			object, _ := value.(map[string]interface{})
			value = object[key]
		case int:
			list, _ := value.([]interface{})
			if key >= len(list) {
				return nil
			}
			value = list[key]
		}
	}
	return value
}

func expect(t *testing.T, got, want interface{}) {
	t.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if string(g) != string(w) {
		t.Errorf("got %s, want %s", g, w)
	}
}

func chat(text, more string) string {
	message, _ := json.Marshal(text)
	return `{"model":"m","messages":[{"role":"user","content":` + string(message) + `}]` + more + `}`
}

func TestAChatIsAnsweredWhole(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/chat/completions", chat("hello there", ""))
	expect(t, at(body, "choices", 0, "message", "content"), "hello there")
	expect(t, at(body, "choices", 0, "finish_reason"), "stop")
	expect(t, at(body, "usage", "prompt_tokens"), 5)
	expect(t, at(body, "usage", "prompt_tokens_details", "cached_tokens"), 2)
	expect(t, at(body, "usage", "total_tokens"), 7)
	if strings.Contains(f.log.String(), "hello") {
		t.Error("the log holds the text of a prompt")
	}
}

func TestAChatIsStreamedInPieces(t *testing.T) {
	f := start(t, nil)
	events := f.stream("/v1/chat/completions", chat("one two", `,"stream":true,"stream_options":{"include_usage":true}`))
	text := ""
	for _, event := range events[:len(events)-1] {
		content, _ := at(f.object(event), "choices", 0, "delta", "content").(string)
		text += content
	}
	expect(t, text, "one two")
	expect(t, events[len(events)-1], "[DONE]")
	expect(t, at(f.object(events[len(events)-2]), "usage", "completion_tokens"), 2)
	expect(t, at(f.object(events[len(events)-3]), "choices", 0, "finish_reason"), "stop")
}

func TestCallsAndReasoningAreTheirOwnFields(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/chat/completions", chat("call weather {\"city\": \"Rome\"}", ""))
	expect(t, at(body, "choices", 0, "message", "tool_calls", 0, "function", "arguments"), `{"city": "Rome"}`)
	expect(t, at(body, "choices", 0, "message", "content"), nil)
	expect(t, at(body, "choices", 0, "finish_reason"), "tool_calls")
	body = f.post("/v1/chat/completions", chat("think hm|yes", ""))
	expect(t, at(body, "choices", 0, "message", "reasoning_content"), "hm")
	expect(t, at(body, "choices", 0, "message", "content"), "yes")
	var name, arguments string
	for _, event := range f.stream("/v1/chat/completions", chat("call weather {\"a\": 1}", `,"stream":true`)) {
		if event == "[DONE]" {
			break
		}
		call := at(f.object(event), "choices", 0, "delta", "tool_calls", 0)
		if call == nil {
			continue
		}
		expect(t, at(call, "index"), 0)
		part, _ := at(call, "function", "name").(string)
		name += part
		part, _ = at(call, "function", "arguments").(string)
		arguments += part
	}
	expect(t, name+arguments, `weather{"a": 1}`)
}

func TestSeveralAnswersHaveIndicesAndSeedsOfTheirOwn(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/chat/completions", chat("hi", `,"n":3,"seed":7,"logprobs":true,"top_logprobs":2`))
	expect(t, len(at(body, "choices").([]interface{})), 3)
	expect(t, at(body, "choices", 2, "index"), 2)
	expect(t, *f.engine.Last().Seed, 9)
	expect(t, at(body, "usage", "prompt_tokens"), 4)
	expect(t, at(body, "usage", "completion_tokens"), 3)
	expect(t, len(at(body, "choices", 1, "logprobs", "content", 0, "top_logprobs").([]interface{})), 2)
}

func TestEveryTextArrivesWhole(t *testing.T) {
	f := start(t, nil)
	text := "say \"a\" \\n <b>&amp; \x01\u2028 \u00e9\U0001F600 text_ \"content\":\"x\" \t end"
	quoted, _ := json.Marshal(text)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"m","n":2,"stream":true,"messages":[{"role":"user","content":` + string(quoted) + `}]}`,
		"/v1/completions":      `{"model":"m","n":2,"stream":true,"prompt":` + string(quoted) + `}`,
	} {
		texts, last := [2]string{}, [2]string{}
		for _, event := range f.stream(path, body) {
			if event == "[DONE]" {
				continue
			}
			var chunk struct {
				ID, Object, Model string
				Choices           []struct {
					Index        int
					Text         string
					Delta        struct{ Content string }
					FinishReason *string `json:"finish_reason"`
				}
			}
			if err := json.Unmarshal([]byte(event), &chunk); err != nil || chunk.ID == "" || chunk.Object == "" || chunk.Model != "m" {
				t.Fatalf("%v: %s", err, event)
			}
			for _, choice := range chunk.Choices {
				texts[choice.Index] += choice.Text + choice.Delta.Content
				if choice.FinishReason != nil {
					last[choice.Index] = *choice.FinishReason
				}
			}
		}
		for i := range texts {
			if texts[i] != text || last[i] != "stop" {
				t.Errorf("%s: %q, %s", path, texts[i], last[i])
			}
		}
	}
}

func TestAnErrorInsideAStreamEndsItWithAnErrorEvent(t *testing.T) {
	f := start(t, nil)
	events := f.stream("/v1/chat/completions", chat("fail", `,"stream":true`))
	last := f.object(events[len(events)-1])
	expect(t, at(last, "error", "type"), "server_error")
	if strings.Contains(events[len(events)-1], "secret") {
		t.Error("the client learns what is not its to know")
	}
}

func TestBadRequestsNameTheField(t *testing.T) {
	f := start(t, nil)
	for body, param := range map[string]string{
		`{"model":"m"}`:                                 "messages",
		`{"model":"m","messages":[]}`:                   "messages",
		chat("x", `,"n":0`):                             "n",
		chat("x", `,"n":1000`):                          "n",
		chat("x", `,"temperature":-1`):                  "temperature",
		chat("x", `,"top_p":1.5`):                       "top_p",
		chat("x", `,"max_tokens":0`):                    "max_tokens",
		chat("x", `,"tool_choice":"perhaps"`):           "tool_choice",
		chat("x", `,"logit_bias":{"a":1}`):              "logit_bias",
		chat("x", `,"logprobs":true,"top_logprobs":99`): "top_logprobs",
		chat("refuse", ""):                              "messages",
		`{"messages":[{"role":"user","content":"x"}]}`:  "model",
	} {
		response, text := f.do("POST", "/v1/chat/completions", body)
		expect(t, response.StatusCode, 400)
		expect(t, at(f.object(text), "error", "param"), param)
	}
	response, text := f.do("POST", "/v1/chat/completions", strings.Repeat("[", 20000))
	expect(t, response.StatusCode, 400)
	if len(text) > 500 {
		t.Errorf("%d bytes of error", len(text))
	}
	response, _ = f.do("GET", "/v1/chat/completions", "")
	expect(t, response.StatusCode, 405)
	response, _ = f.do("POST", "/v1/chat/completions", strings.Replace(chat("x", ""), `"m"`, `"nobody"`, 1))
	expect(t, response.StatusCode, 404)
}

func TestABodyOverTheLimitIsRefused(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Limits.MaxBodyBytes = 1000 })
	response, text := f.do("POST", "/v1/chat/completions", chat(strings.Repeat("a", 2000), ""))
	expect(t, response.StatusCode, 413)
	if !strings.Contains(text, "1000 bytes") {
		t.Error(text)
	}
}

func digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func TestKeysAreRequiredAndCounted(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Keys = []server.Key{{SHA256: digest("k1"), Owner: "a", RequestsPerMinute: 2, Models: []string{"m"}},
			{SHA256: digest("k2"), Owner: "b", TokensPerMinute: 8}}
	})
	response, _ := f.do("POST", "/v1/chat/completions", chat("x", ""))
	expect(t, response.StatusCode, 401)
	f.key = "k1"
	response, _ = f.do("POST", "/v1/chat/completions", strings.Replace(chat("x", ""), `"m"`, `"other"`, 1))
	expect(t, response.StatusCode, 404)
	f.post("/v1/chat/completions", chat("x", ""))
	expect(t, f.engine.Last().Namespace, "a")
	response, _ = f.do("POST", "/v1/chat/completions", chat("x", ""))
	expect(t, response.StatusCode, 429)
	if after := response.Header.Get("Retry-After"); after != "30" {
		t.Errorf("Retry-After is %q: half a minute brings one of two requests", after)
	}
	f.key = "k2"
	f.post("/v1/chat/completions", chat("four words of prompt", ""))
	response, _ = f.do("POST", "/v1/chat/completions", chat("x", ""))
	expect(t, response.StatusCode, 429)
}

func TestTheQueueIsBounded(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Limits.MaxQueue = 1 })
	ctx, cancel := context.WithCancel(context.Background())
	request, _ := http.NewRequestWithContext(ctx, "POST", f.URL+"/v1/chat/completions",
		strings.NewReader(chat("wait", `,"stream":true`)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	refused, _ := f.do("POST", "/v1/chat/completions", chat("x", ""))
	expect(t, refused.StatusCode, 429)
	expect(t, refused.Header.Get("Retry-After"), "1")
	cancel()
	response.Body.Close()
	eventually(t, func() bool { return f.engine.Open_.Load() == 0 })
	eventually(t, func() bool {
		after, _ := f.do("POST", "/v1/chat/completions", chat("x", ""))
		return after.StatusCode == 200
	})
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for i := 0; i < 500; i++ {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it never came to be")
}

func TestAClientThatGoesAwayEndsItsJob(t *testing.T) {
	f := start(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	request, _ := http.NewRequestWithContext(ctx, "POST", f.URL+"/v1/chat/completions",
		strings.NewReader(chat("wait", `,"stream":true`)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = bufio.NewReader(response.Body).ReadString('\n')
	expect(t, f.engine.Open_.Load(), 1)
	cancel()
	response.Body.Close()
	eventually(t, func() bool { return f.engine.Open_.Load() == 0 })
}

func TestADeadlineOfTheClientEndsTheRequest(t *testing.T) {
	f := start(t, nil)
	request, _ := http.NewRequest("POST", f.URL+"/v1/chat/completions", strings.NewReader(chat("wait", "")))
	request.Header.Set("x-request-timeout", "0.05")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	expect(t, response.StatusCode, 504)
}

func TestDrainWaitsForRunningRequestsAndRefusesNewOnes(t *testing.T) {
	f := start(t, nil)
	f.engine.Delay = 50 * time.Millisecond
	done := make(chan string)
	go func() {
		_, text := f.do("POST", "/v1/chat/completions", chat("a b c d", ""))
		done <- text
	}()
	eventually(t, func() bool { return f.engine.Open_.Load() == 1 })
	drained := make(chan error)
	go func() { drained <- f.server.Drain(context.Background()) }()
	eventually(t, func() bool {
		response, _ := f.do("GET", "/health/ready", "")
		return response.StatusCode == 503
	})
	response, _ := f.do("POST", "/v1/chat/completions", chat("x", ""))
	expect(t, response.StatusCode, 503)
	if text := <-done; !strings.Contains(text, "a b c d") {
		t.Error(text)
	}
	expect(t, <-drained, nil)
}

func TestFallbacksAndRoutesAreFollowed(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Fallbacks = map[string][]string{"m": {"other"}}
		c.Routes = []server.Route{{Model: "m", MinPromptBytes: 10000, To: "other"}}
	})
	f.engine.Broken["m"] = true
	body := f.post("/v1/chat/completions", strings.Replace(chat("x", ""), `"m"`, `"gpt-4o"`, 1))
	expect(t, at(body, "choices", 0, "message", "content"), "x")
	if !strings.Contains(f.log.String(), "does not load") {
		t.Error("the log does not say why")
	}
}

func TestCompletionsOfSeveralPrompts(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/completions", `{"model":"m","prompt":["a b","c"],"n":2,"echo":true,"logprobs":1,"max_tokens":5}`)
	expect(t, len(at(body, "choices").([]interface{})), 4)
	expect(t, at(body, "choices", 1, "text"), "a ba b")
	expect(t, at(body, "choices", 3, "text"), "cc")
	expect(t, at(body, "choices", 0, "logprobs", "text_offset"), []int{0, 0, 1, 2, 3, 5})
	expect(t, at(body, "usage", "prompt_tokens"), 9)
	events := f.stream("/v1/completions", `{"model":"m","prompt":"a b","stream":true,"max_tokens":1}`)
	expect(t, at(f.object(events[len(events)-2]), "choices", 0, "finish_reason"), "length")
}

func TestEmbeddingsInBothEncodings(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/embeddings", `{"model":"m","input":["a","bb"],"dimensions":2}`)
	expect(t, len(at(body, "data", 1, "embedding").([]interface{})), 2)
	body = f.post("/v1/embeddings", `{"model":"m","input":"a","encoding_format":"base64"}`)
	expect(t, at(body, "data", 0, "embedding"), "AACAPwAAAD8AAADAAAAAAA==")
}

func TestResponsesAreStoredForTheirOwner(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Keys = []server.Key{{SHA256: digest("k1"), Owner: "a"}, {SHA256: digest("k2"), Owner: "b"}}
	})
	f.key = "k1"
	first := f.post("/v1/responses", `{"model":"m","input":"hello","instructions":"be kind"}`)
	expect(t, at(first, "output", 0, "content", 0, "text"), "hello")
	expect(t, at(first, "status"), "completed")
	id := at(first, "id").(string)
	f.post("/v1/responses", `{"model":"m","input":"again","previous_response_id":"`+id+`"}`)
	var messages []map[string]interface{}
	_ = json.Unmarshal(f.engine.Last().Messages, &messages)
	expect(t, len(messages), 3)
	expect(t, messages[1]["content"], "hello")
	response, _ := f.do("GET", "/v1/responses/"+id, "")
	expect(t, response.StatusCode, 200)
	f.key = "k2"
	response, _ = f.do("GET", "/v1/responses/"+id, "")
	expect(t, response.StatusCode, 404)
	f.key = "k1"
	response, _ = f.do("DELETE", "/v1/responses/"+id, "")
	expect(t, response.StatusCode, 200)
	response, _ = f.do("POST", "/v1/responses", `{"model":"m","input":"again","previous_response_id":"`+id+`"}`)
	expect(t, response.StatusCode, 404)
}

func TestAStreamedResponseHasItsEventsInOrder(t *testing.T) {
	f := start(t, nil)
	var kinds []string
	for i, event := range f.stream("/v1/responses", `{"model":"m","input":"think a|b","stream":true}`) {
		object := f.object(event)
		expect(t, object["sequence_number"], i)
		kinds = append(kinds, strings.TrimPrefix(object["type"].(string), "response."))
	}
	expect(t, kinds, []string{"created", "in_progress", "output_item.added", "reasoning_text.delta",
		"reasoning_text.done", "output_item.done", "output_item.added", "content_part.added", "output_text.delta",
		"output_text.done", "content_part.done", "output_item.done", "completed"})
}

func TestMessagesOfAnthropic(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/messages", `{"model":"m","max_tokens":9,"system":"be kind","messages":[
		{"role":"user","content":"q"},
		{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"42"},{"type":"text","text":"call f {}"}]}],
		"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"}}`)
	expect(t, at(body, "stop_reason"), "tool_use")
	expect(t, at(body, "content", 0, "name"), "f")
	expect(t, f.engine.Last().ToolChoice, "function:f")
	var messages []map[string]interface{}
	_ = json.Unmarshal(f.engine.Last().Messages, &messages)
	expect(t, len(messages), 5)
	expect(t, messages[3]["role"], "tool")
	var kinds []string
	for _, event := range f.stream("/v1/messages", `{"model":"m","max_tokens":9,"stream":true,
		"messages":[{"role":"user","content":"think a|b"}]}`) {
		kinds = append(kinds, f.object(event)["type"].(string))
	}
	expect(t, kinds, []string{"message_start", "content_block_start", "content_block_delta", "content_block_stop",
		"content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"})
	response, text := f.do("POST", "/v1/messages", `{"model":"m","messages":[]}`)
	expect(t, response.StatusCode, 400)
	expect(t, at(f.object(text), "error", "type"), "invalid_request_error")
	expect(t, at(f.post("/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"four"}]}`),
		"input_tokens"), 4)
}

func TestTheAdminInterfaceNeedsItsKey(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Admin = []string{digest("root")} })
	response, _ := f.do("GET", "/admin/models", "")
	expect(t, response.StatusCode, 403)
}

func TestMetricsAndThePageAreServed(t *testing.T) {
	f := start(t, nil)
	f.post("/v1/chat/completions", chat("x", ""))
	_, text := f.do("GET", "/metrics", "")
	if !strings.Contains(text, `quire_server_requests_total{path="/v1/chat/completions",status="200"} 1`) {
		t.Error(text)
	}
	response, text := f.do("GET", "/", "")
	expect(t, response.StatusCode, 200)
	if strings.Contains(text, "http://") || strings.Contains(text, "https://") {
		t.Error("the page loads something from elsewhere")
	}
	response, _ = f.do("GET", "/nothing", "")
	expect(t, response.StatusCode, 404)
}

func TestAnInvalidConfigurationNamesTheField(t *testing.T) {
	for field, config := range map[string]server.Config{
		"models":      {},
		"models.a":    {Models: map[string]server.ModelConfig{"a": {}}},
		"aliases.b":   {Models: map[string]server.ModelConfig{"a": {Path: "x"}}, Aliases: map[string]string{"b": "c"}},
		"keys[0]":     {Models: map[string]server.ModelConfig{"a": {Path: "x"}}, Keys: []server.Key{{SHA256: "zz"}}},
		"routes[0]":   {Models: map[string]server.ModelConfig{"a": {Path: "x"}}, Routes: []server.Route{{To: "q"}}},
		"share":       {Models: map[string]server.ModelConfig{"a": {Path: "x"}}, Routes: []server.Route{{To: "a", Share: 1.5}}},
		"fallbacks.a": {Models: map[string]server.ModelConfig{"a": {Path: "x"}}, Fallbacks: map[string][]string{"a": {"q"}}},
	} {
		config := config
		if err := config.Check(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestAClientInTheSameProcessNeedsNoSocket(t *testing.T) {
	f := start(t, nil)
	client := &http.Client{Transport: server.Transport(f.server)}
	response, err := client.Post("http://in.process/v1/chat/completions", "application/json",
		strings.NewReader(chat("one two", `,"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	if !strings.HasSuffix(strings.TrimSpace(string(text)), "data: [DONE]") {
		t.Error(string(text))
	}
	ctx, cancel := context.WithCancel(context.Background())
	request, _ := http.NewRequestWithContext(ctx, "POST", "http://in.process/v1/chat/completions",
		strings.NewReader(chat("wait", `,"stream":true`)))
	response, err = client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	response.Body.Close()
	eventually(t, func() bool { return f.engine.Open_.Load() == 0 })
}
