package server_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"quire.dev/quire-test/server/fake"
	"quire.dev/quire/server"
)

// lines returns the objects of a stream of ollama.
func (f *fixture) lines(path, body string) []map[string]interface{} {
	f.t.Helper()
	response, text := f.do("POST", path, body)
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/x-ndjson" {
		f.t.Fatalf("%s: %d %s", path, response.StatusCode, text)
	}
	var objects []map[string]interface{}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		objects = append(objects, f.object(line))
	}
	return objects
}

func ollamaChat(text, more string) string {
	message, _ := json.Marshal(text)
	return `{"model":"m","messages":[{"role":"user","content":` + string(message) + `}]` + more + `}`
}

func TestAChatOfOllamaIsStreamed(t *testing.T) {
	f := start(t, nil)
	lines := f.lines("/api/chat", ollamaChat("one two", ""))
	expect(t, len(lines), 3)
	expect(t, at(lines[0], "message"), map[string]string{"role": "assistant", "content": "one "})
	expect(t, lines[0]["done"], false)
	last := lines[2]
	expect(t, last["done"], true)
	expect(t, last["done_reason"], "stop")
	expect(t, last["model"], "m")
	expect(t, last["eval_count"], 2)
	expect(t, last["prompt_eval_count"], 5)
	expect(t, last["eval_duration"], int64(4*time.Millisecond))
	expect(t, last["prompt_eval_duration"], int64(3*time.Millisecond))
	if total := last["total_duration"].(float64); total <= 0 || total > float64(time.Minute) {
		t.Error(total)
	}
	if _, err := time.Parse(time.RFC3339Nano, last["created_at"].(string)); err != nil {
		t.Error(err)
	}
}

func TestAChatOfOllamaIsAnsweredWhole(t *testing.T) {
	f := start(t, nil)
	body := f.post("/api/chat", ollamaChat("think a|b", `,"stream":false`))
	expect(t, body["message"], map[string]string{"role": "assistant", "content": "b", "thinking": "a"})
	expect(t, body["done"], true)
	body = f.post("/api/chat", ollamaChat("one two", `,"stream":false,"options":{"num_predict":1}`))
	expect(t, at(body, "message", "content"), "one ")
	expect(t, body["done_reason"], "length")
	body = f.post("/api/chat", ollamaChat("hi", `,"stream":false,"logprobs":true,"top_logprobs":1`))
	expect(t, at(body, "logprobs", 0, "top_logprobs", 0, "token"), "t0")
	lines := f.lines("/api/chat", ollamaChat("think a|b", ""))
	expect(t, at(lines[0], "message", "thinking"), "a")
	expect(t, at(lines[1], "message", "content"), "b")
}

func TestACallOfOllamaHasItsArgumentsAsAnObject(t *testing.T) {
	f := start(t, nil)
	tools := `"tools":[{"type":"function","function":{"name":"weather","parameters":{}}}]`
	call := []map[string]interface{}{{"id": "call_1", "function": map[string]interface{}{"index": 0, "name": "weather",
		"arguments": map[string]string{"city": "Rome"}}}}
	body := f.post("/api/chat", ollamaChat(`call weather {"city": "Rome"}`, `,"stream":false,`+tools))
	expect(t, at(body, "message", "tool_calls"), call)
	expect(t, body["done_reason"], "stop")
	lines := f.lines("/api/chat", ollamaChat(`call weather {"city": "Rome"}`, `,`+tools))
	expect(t, len(lines), 2) // the call is not divided
	expect(t, at(lines[0], "message", "tool_calls"), call)
	body = f.post("/api/chat", ollamaChat(`call weather {"city": `, `,"stream":false,`+tools)) // cut off
	expect(t, at(body, "message", "tool_calls"), nil)
	expect(t, at(body, "message", "content"), `weather{"city": `)
	lines = f.lines("/api/chat", ollamaChat(`call weather [1]`, `,`+tools))
	expect(t, at(lines[0], "message", "content"), "weather[1]")
}

func TestTheSettingsOfOllamaReachTheModel(t *testing.T) {
	f := start(t, nil)
	f.post("/api/chat", ollamaChat("hi", `,"stream":false,"format":"json","think":false,"keep_alive":"10m","truncate":true,
		"options":{"temperature":0.5,"top_k":4,"top_p":0.9,"min_p":0.1,"seed":7,"num_predict":9,"repeat_penalty":1.2,
		"presence_penalty":0.1,"frequency_penalty":0.2,"stop":["x"],"num_ctx":2048,"num_thread":8,"mirostat":0,"typical_p":1.0}`))
	g := f.engine.Last()
	expect(t, []interface{}{*g.Temperature, *g.TopK, *g.TopP, *g.MinP, *g.Seed, g.MaxNewTokens, *g.RepetitionPenalty,
		*g.PresencePenalty, *g.FrequencyPenalty, g.StopTexts}, []interface{}{0.5, 4, 0.9, 0.1, 7, 9, 1.2, 0.1, 0.2, []string{"x"}})
	expect(t, g.ReasoningEffort, "none")
	expect(t, string(g.ResponseFormat), `{"type":"json_object"}`)
	f.engine.Reasons = true
	f.post("/api/chat", ollamaChat("hi", `,"stream":false,"format":{"type":"object"},"think":"high","options":{"seed":-1,"num_predict":-1}`))
	g = f.engine.Last()
	expect(t, g.ReasoningEffort, "high")
	expect(t, g.Seed, nil)
	expect(t, g.MaxNewTokens, 0)
	expect(t, at(f.object(string(g.ResponseFormat)), "json_schema", "schema", "type"), "object")
	f.post("/api/chat", ollamaChat("hi", `,"stream":false,"think":true`))
	expect(t, f.object(string(f.engine.Last().TemplateArgs)), map[string]bool{"enable_thinking": true, "thinking": true})
}

func TestAHistoryOfOllamaHasIDsOfItsCalls(t *testing.T) {
	f := start(t, nil)
	f.post("/api/chat", `{"model":"m","stream":false,"messages":[
		{"role":"user","content":"q"},
		{"role":"assistant","content":"","thinking":"hm","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}},
			{"function":{"name":"g"}},{"id":"mine","function":{"name":"h","arguments":{}}}]},
		{"role":"tool","content":"2","tool_name":"g"},
		{"role":"tool","content":"1"},
		{"role":"tool","content":"3","tool_call_id":"mine"},
		{"role":"user","content":"hi"}]}`)
	var messages []map[string]interface{}
	_ = json.Unmarshal(f.engine.Last().Messages, &messages)
	expect(t, messages[1]["reasoning_content"], "hm")
	expect(t, at(messages[1], "tool_calls", 0, "function", "arguments"), `{"a":1}`)
	expect(t, at(messages[1], "tool_calls", 1, "function", "arguments"), "{}")
	expect(t, messages[2]["tool_call_id"], at(messages[1], "tool_calls", 1, "id"))
	expect(t, messages[3]["tool_call_id"], at(messages[1], "tool_calls", 0, "id"))
	expect(t, messages[3]["name"], "f")
	expect(t, messages[4]["tool_call_id"], "mine")
}

func TestAPromptOfOllamaIsAnsweredAsAChatOrRaw(t *testing.T) {
	f := start(t, nil)
	body := f.post("/api/generate", `{"model":"m","prompt":"think a|b","system":"be kind","stream":false}`)
	expect(t, body["response"], "b")
	expect(t, body["thinking"], "a")
	expect(t, body["message"], nil)
	expect(t, body["done_reason"], "stop")
	var messages []map[string]interface{}
	_ = json.Unmarshal(f.engine.Last().Messages, &messages)
	expect(t, messages, []map[string]string{{"role": "system", "content": "be kind"}, {"role": "user", "content": "think a|b"}})
	lines := f.lines("/api/generate", `{"model":"m","prompt":"one two","raw":true,"format":"json","options":{"num_predict":5,"temperature":0}}`)
	expect(t, []interface{}{lines[0]["response"], lines[1]["response"], lines[2]["response"]}, []string{"one ", "two", ""})
	g := f.engine.Last()
	expect(t, []interface{}{len(g.Tokens), g.MaxNewTokens, *g.Temperature, string(g.ResponseFormat)},
		[]interface{}{8, 5, 0, `{"type":"json_object"}`})
}

func TestASuffixOfOllamaNeedsAModelForIt(t *testing.T) {
	f := start(t, nil)
	f.refused("/api/generate", `{"model":"m","prompt":"a","suffix":"b"}`, 400, "does not support text between")
	f.engine.Infills = true
	f.post("/api/generate", `{"model":"m","prompt":"a","suffix":"b","stream":false}`)
	expect(t, f.engine.Last().Tokens, []int{0, 257, 97, 258, 98, 259})
}

func TestWhatOllamasRequestsCannotObeyIsRefusedInItsForm(t *testing.T) {
	f := start(t, nil)
	for words, more := range map[string]string{
		"options.mirostat":    `"options":{"mirostat":1}`,
		"options.num_predict": `"options":{"num_predict":"a"}`,
		"options.nonsense":    `"options":{"nonsense":1}`,
		"format must":         `"format":"xml"`,
		"think must":          `"think":7`,
		"not support think":   `"think":true`,
		"keep_alive must":     `"keep_alive":{}`,
		"top_logprobs":        `"top_logprobs":99,"logprobs":true`,
	} {
		if strings.HasPrefix(words, "keep") {
			f.refused("/api/chat", `{"model":"m","messages":[],`+more+`}`, 400, words)
			continue
		}
		expect(t, len(f.refused("/api/chat", ollamaChat("hi", `,`+more), 400, words)), 1) // only "error"
	}
	f.refused("/api/chat", `{"model":"m","messages":[{"role":"user","content":"a","images":["x"]}]}`, 400, "messages[0].images")
	f.refused("/api/chat", `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"x"}}]}]}`,
		400, "must be an object")
	f.refused("/api/chat", `{"model":"nobody","messages":[{"role":"user","content":"a"}]}`, 404, "nobody")
	for words, body := range map[string]string{"template": `"template":"x"`, "context": `"context":[1]`, "images": `"images":["x"]`,
		"a raw prompt": `"raw":true,"system":"x"`, "think needs": `"raw":true,"think":true`} {
		f.refused("/api/generate", `{"model":"m","prompt":"a",`+body+`}`, 400, words)
	}
	for _, path := range []string{"/api/pull", "/api/push", "/api/create", "/api/copy"} {
		f.refused(path, `{"model":"x"}`, 403, "configuration")
	}
	response, text := f.do("DELETE", "/api/delete", `{"model":"m"}`)
	expect(t, response.StatusCode, 403)
	expect(t, len(f.object(text)), 1)
	response, text = f.do("GET", "/api/nothing", "")
	expect(t, response.StatusCode, 404)
	expect(t, f.object(text)["error"] != nil, true)
}

func TestAnErrorWithinAStreamOfOllamaIsALine(t *testing.T) {
	f := start(t, nil)
	lines := f.lines("/api/chat", ollamaChat("fail", ""))
	expect(t, lines[len(lines)-1], map[string]string{
		"error": "the request failed inside the server; its log has the reason, beside the x-request-id of the answer"})
}

func TestASilentStreamOfOllamaSendsEmptyMessages(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Limits.HeartbeatSeconds = 1 })
	f.engine.Delay = 1500 * time.Millisecond
	lines := f.lines("/api/chat", ollamaChat("hi", ""))
	expect(t, at(lines[0], "message", "content"), "")
	expect(t, lines[0]["done"], false)
	expect(t, lines[len(lines)-1]["done"], true)
}

func TestAnEmptyRequestOfOllamaLoadsOrUnloads(t *testing.T) {
	engine := &fake.Managed{}
	f := startManaged(t, func(c *server.Config) { c.Admin = []string{digest("root")} }, engine)
	body := f.post("/api/chat", `{"model":"m","messages":[]}`)
	expect(t, body["done_reason"], "load")
	expect(t, body["message"], map[string]string{"role": "assistant", "content": ""})
	expect(t, f.post("/api/generate", `{"model":"m:latest","keep_alive":-1}`)["done_reason"], "load")
	f.refused("/api/generate", `{"model":"m","keep_alive":0}`, 403, "keep_alive")
	expect(t, engine.Evicted("m"), false)
	f.key = "root"
	expect(t, f.post("/api/generate", `{"model":"m:latest","keep_alive":"0s"}`)["done_reason"], "unload")
	expect(t, engine.Evicted("m"), true)
	f.refused("/api/chat", `{"model":"m","messages":[],"keep_alive":"soon"}`, 400, "soon")
}

func TestEmbeddingsOfOllama(t *testing.T) {
	f := start(t, nil)
	body := f.post("/api/embed", `{"model":"m","input":["a","bb"],"dimensions":2,"options":{"num_ctx":9}}`)
	vectors := body["embeddings"].([]interface{})
	expect(t, len(vectors), 2)
	expect(t, len(vectors[1].([]interface{})), 2)
	x, y := at(vectors[1], 0).(float64), at(vectors[1], 1).(float64)
	if length := x*x + y*y; length < 0.999 || length > 1.001 {
		t.Error(length)
	}
	expect(t, body["prompt_eval_count"], 3)
	expect(t, len(f.post("/api/embed", `{"model":"m","input":"a"}`)["embeddings"].([]interface{})), 1)
	expect(t, len(f.post("/api/embeddings", `{"model":"m","prompt":"a"}`)["embedding"].([]interface{})), 4)
	expect(t, f.post("/api/embeddings", `{"model":"m","prompt":""}`)["embedding"], []int{})
	long := strings.Repeat("b", 5000)
	f.post("/api/embed", `{"model":"m","input":"`+long+`"}`)
	expect(t, len(f.engine.LastEmbedded().Tokens), 4096)
	f.post("/api/embed", `{"model":"m","input":"`+long+`","truncate":false}`)
	expect(t, f.engine.LastEmbedded().Text, long)
	f.refused("/api/embed", `{"model":"m","input":"a","dimensions":9}`, 400, "dimensions")
	f.refused("/api/embed", `{"model":"m","input":{}}`, 400, "input")
}

func TestModelsInTheFormOfOllama(t *testing.T) {
	expires := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	engine := &fake.Managed{Description: server.Description{Family: "llama", Format: "safetensors", Quantization: "EXL2-4.0bpw",
		Parameters: 15_300_000, Bytes: 99, Digest: "d", ContextTokens: 2048, Layers: 8, Template: "{{ messages }}", Calls: true,
		Infills: true, Expires: expires, DeviceBytes: 77}}
	f := startManaged(t, func(c *server.Config) {
		c.Models["other:7b"] = server.ModelConfig{Path: "y"}
		c.Aliases = map[string]string{"gpt": "m"}
	}, engine)
	_, text := f.do("GET", "/api/tags", "")
	models := f.object(text)["models"]
	details := map[string]interface{}{"parent_model": "", "format": "safetensors", "family": "llama", "families": []string{"llama"},
		"parameter_size": "15.3M", "quantization_level": "EXL2-4.0bpw"}
	expect(t, at(models, 0), map[string]interface{}{"name": "gpt:latest", "model": "gpt:latest", "modified_at": "2026-01-02T03:04:05Z",
		"size": 99, "digest": "d", "details": details})
	expect(t, at(models, 1, "name"), "m:latest")
	expect(t, at(models, 2, "name"), "other:7b")
	shown := f.post("/api/show", `{"model":"m"}`)
	expect(t, shown["template"], "{{ messages }}")
	expect(t, shown["details"], details)
	expect(t, at(shown, "model_info", "llama.context_length"), 2048)
	expect(t, at(shown, "model_info", "general.parameter_count"), 15300000)
	expect(t, shown["capabilities"], []string{"completion", "tools", "insert"})
	expect(t, f.post("/api/show", `{"name":"gpt:latest"}`)["template"], "{{ messages }}")
	_ = engine.Evict("other:7b")
	_, text = f.do("GET", "/api/ps", "")
	running := f.object(text)["models"].([]interface{})
	expect(t, len(running), 2)
	expect(t, at(running[0], "expires_at"), "2026-05-06T07:08:09Z")
	expect(t, at(running[0], "size_vram"), 77)
	expect(t, at(running[0], "context_length"), 2048)
	_, text = f.do("GET", "/api/version", "")
	expect(t, f.object(text)["quire"], "1.2.3")
}

func TestSamplersAndLimitsAreOptionsOfOllama(t *testing.T) {
	f := start(t, nil)
	const options = `"options":{"repeat_last_n":32,"mirostat":2,"typical_p":0.9,"min_tokens":2,"ignore_eos":true}`
	for path, prompt := range map[string]string{
		"/api/chat":     `"messages":[{"role":"user","content":"hi"}]`,
		"/api/generate": `"prompt":"hi","raw":true`,
	} {
		f.post(path, `{"model":"m","stream":false,`+prompt+`,`+options+`}`)
		g := f.engine.Last()
		expect(t, []interface{}{*g.PenaltyRange, *g.MirostatTau, *g.Typical, g.MinNewTokens, g.IgnoreEOS},
			[]interface{}{32, 5, 0.9, 2, true})
		f.refused(path, `{"model":"m",`+prompt+`,"options":{"typical_p":7}}`, 400, "options.typical_p must")
		f.refused(path, `{"model":"m",`+prompt+`,"options":{"n":2}}`, 400, "options.n must be 1")
		f.refused(path, `{"model":"m",`+prompt+`,"options":{"dry_multiplier":1,"dry_sequence_breakers":["a"]}}`, 400,
			"options.dry_sequence_breakers")
	}
}
