package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"quire.dev/quire/server"
)

const anthropicTools = `"tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}},{"name":"g","input_schema":{"type":"object"},"strict":true}]`

func message(text, more string) string {
	quoted, _ := json.Marshal(text)
	return `{"model":"m","max_tokens":50,"messages":[{"role":"user","content":` + string(quoted) + `}]` + more + `}`
}

// anthropicRefusal sends a request that must be refused in Anthropic's form, and returns the type and the message.
func (f *fixture) anthropicRefusal(method, path, body string, status int) (kind, message string) {
	f.t.Helper()
	response, text := f.do(method, path, body)
	var failure struct {
		Type      string
		RequestID string `json:"request_id"`
		Error     struct{ Type, Message string }
	}
	if err := json.Unmarshal([]byte(text), &failure); err != nil || response.StatusCode != status || failure.Type != "error" ||
		failure.Error.Message == "" {
		f.t.Fatalf("%s %s %.200s: %d %s, not %d", method, path, body, response.StatusCode, text, status)
	}
	if id := response.Header.Get("request-id"); id == "" || id != failure.RequestID {
		f.t.Errorf("the request id is %q in the header and %q in the body", id, failure.RequestID)
	}
	return failure.Error.Type, failure.Error.Message
}

func TestFieldsOfMessagesAreObeyedOrRefusedByName(t *testing.T) {
	f := start(t, nil)
	for more, word := range map[string]string{
		`,"container":"c"`:                     "container",
		`,"mcp_servers":[{}]`:                  "mcp_servers",
		`,"min_p":0.1`:                         "min_p",
		`,"n":2`:                               "n is not a field",
		`,"thinking":{"type":"between_tools"}`: "thinking.type",
		`,"thinking":{"type":"enabled","budget_tokens":-1}`:                                       "thinking.budget_tokens",
		`,"thinking":{"type":"adaptive","display":"loud"}`:                                        "thinking.display",
		`,"thinking":{"type":"adaptive","depth":1}`:                                               "thinking.depth",
		`,"output_config":{"effort":"huge"}`:                                                      "output_config.effort",
		`,"output_config":{"task_budget":{"tokens":1}}`:                                           "output_config.task_budget",
		`,"output_config":{"format":{"type":"json_object"}}`:                                      "output_config.format.type",
		`,"output_config":{"format":{"type":"json_schema"}}`:                                      "output_config.format.schema",
		`,"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}`:                   "context_management.edits[0]",
		`,"stop_sequences":["x",""]`:                                                              "stop_sequences[1]",
		`,"top_k":-1`:                                                                             "top_k",
		`,"temperature":-1`:                                                                       "temperature",
		`,"tools":[{"type":"web_search_20250305","name":"web_search"}]`:                           "tools[0]",
		`,"tools":[{"name":"f","input_schema":{},"allowed_callers":["code_execution_20250825"]}]`: "tools[0].allowed_callers",
		`,"tool_choice":{"type":"any"}`:                                                           "tool_choice",
		`,` + anthropicTools + `,"tool_choice":{"type":"some"}`:                                   "tool_choice.type",
		`,` + anthropicTools + `,"tool_choice":{"type":"tool"}`:                                   "tool_choice.name",
		`,` + anthropicTools + `,"tool_choice":{"type":"tool","name":"h"}`:                        "tool_choice.name",
		`,"system":[{"type":"image"}]`:                                                            "system[0]",
	} {
		kind, text := f.anthropicRefusal("POST", "/v1/messages", message("x", more), 400)
		if kind != "invalid_request_error" || !strings.Contains(text, word) {
			t.Errorf("%s: %s: %q does not name %s", more, kind, text, word)
		}
	}
	for content, word := range map[string]string{
		`[{"type":"text","text":"x"},{"type":"image","source":{}}]`:                           "messages[0].content[1]",
		`[{"type":"document","source":{}}]`:                                                   "messages[0].content[0]",
		`[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{}}]}]`: "messages[0].content[0].content[0]",
		`7`: "messages[0].content",
	} {
		_, text := f.anthropicRefusal("POST", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":`+content+`}]}`, 400)
		if !strings.Contains(text, word) {
			t.Errorf("%s: %q does not name %s", content, text, word)
		}
	}
	_, text := f.anthropicRefusal("POST", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"tool","content":"x"}]}`, 400)
	if !strings.Contains(text, "messages[0].role") {
		t.Error(text)
	}
	f.post("/v1/messages", message("x", `,"metadata":{"user_id":"u"},"cache_control":{"type":"ephemeral"},"service_tier":"auto",
		"inference_geo":"eu","speed":"fast","container":null,"mcp_servers":[],"diagnostics":null,"output_config":null,
		"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"stop_sequences":[],
		"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}}]`))
	expect(t, f.messages(), []string{"system: s", "user: x"})
}

func TestZeroIsAValueInMessages(t *testing.T) {
	f := start(t, nil)
	f.post("/v1/messages", message("x", `,"temperature":0,"top_k":0,"thinking":{"type":"enabled","budget_tokens":0}`))
	g := f.engine.Last()
	expect(t, []interface{}{*g.Temperature, *g.TopK, *g.ReasoningBudget}, []int{0, 0, 0})
	f.post("/v1/messages", message("x", `,"top_p":0`))
	expect(t, *f.engine.Last().Temperature, 0)
	_, text := f.anthropicRefusal("POST", "/v1/messages", strings.Replace(message("x", ""), "50", "0", 1), 400)
	if !strings.Contains(text, "max_tokens") {
		t.Error(text)
	}
}

func TestTheFormatOfAMessageIsAConstraint(t *testing.T) {
	f := start(t, nil)
	want := json.RawMessage(`{"json_schema":{"name":"output","schema":{"type":"object"},"strict":true},"type":"json_schema"}`)
	format := `{"type":"json_schema","schema":{"type":"object"}}`
	for _, more := range []string{`,"output_config":{"format":` + format + `}`, `,"output_format":` + format} {
		f.post("/v1/messages", message("x", more))
		expect(t, f.engine.Last().ResponseFormat, want)
	}
	f.post("/v1/messages", message("x", `,"output_config":{"effort":"low","format":null}`))
	expect(t, f.engine.Last().ResponseFormat, json.RawMessage("null"))
	expect(t, f.engine.Last().ReasoningEffort, "low")
}

func TestToolChoicesOfMessages(t *testing.T) {
	f := start(t, nil)
	for choice, want := range map[string][]interface{}{
		`{"type":"auto"}`: {"auto", true},
		`{"type":"any","disable_parallel_tool_use":true}`:              {"required", false},
		`{"type":"tool","name":"g","disable_parallel_tool_use":false}`: {"function:g", true},
		`{"type":"none"}`: {"none", true},
	} {
		f.post("/v1/messages", message("x", `,`+anthropicTools+`,"tool_choice":`+choice))
		expect(t, []interface{}{f.engine.Last().ToolChoice, f.engine.Last().ParallelCalls}, want)
	}
	var tools []interface{}
	_ = json.Unmarshal(f.engine.Last().Tools, &tools)
	expect(t, []interface{}{at(tools, 0, "function", "strict"), at(tools, 1, "function", "strict")}, []interface{}{nil, true})
}

func TestFormsOfThinking(t *testing.T) {
	f := start(t, nil)
	for more, effort := range map[string]string{
		``: "",
		`,"thinking":{"type":"enabled","budget_tokens":1024}`:               "medium",
		`,"thinking":{"type":"adaptive"}`:                                   "medium",
		`,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}`: "high",
		`,"thinking":{"type":"disabled"},"output_config":{"effort":"high"}`: "none",
	} {
		f.post("/v1/messages", message("x", more))
		expect(t, f.engine.Last().ReasoningEffort, effort)
	}
	omitted := `,"thinking":{"type":"adaptive","display":"omitted"}`
	body := f.post("/v1/messages", message("think hm|yes", omitted))
	expect(t, []interface{}{at(body, "content", 0, "thinking"), at(body, "content", 1, "text")}, []string{"", "yes"})
	expect(t, at(body, "usage", "output_tokens_details", "thinking_tokens"), 1)
	for _, event := range f.stream("/v1/messages", message("think hm|yes", omitted+`,"stream":true`)) {
		if strings.Contains(event, "hm") {
			t.Errorf("the thinking is not omitted: %s", event)
		}
	}
}

func TestAStreamedMessageBeginsWithItsInputTokens(t *testing.T) {
	f := start(t, nil)
	events := f.stream("/v1/messages", message("one two", `,"stream":true`))
	expect(t, at(f.object(events[0]), "message", "usage", "input_tokens"), 7)
	last := f.object(events[len(events)-2])
	expect(t, []interface{}{last["type"], at(last, "usage", "input_tokens"), at(last, "usage", "cache_read_input_tokens"),
		at(last, "usage", "output_tokens")}, []interface{}{"message_delta", 3, 2, 2})
}

func TestTheReasonOfTheEndOfAMessage(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/messages", strings.Replace(message("one two three", ""), "50", "2", 1))
	expect(t, []interface{}{body["stop_reason"], body["stop_sequence"]}, []interface{}{"max_tokens", nil})
	body = f.post("/v1/messages", message("one two STOP three", `,"stop_sequences":["no","STOP"]`))
	expect(t, []interface{}{body["stop_reason"], body["stop_sequence"], at(body, "content", 0, "text")},
		[]interface{}{"stop_sequence", "STOP", "one two "})
	body = f.post("/v1/messages", message("fill the context", ""))
	expect(t, body["stop_reason"], "model_context_window_exceeded")
}

func TestToolsCountAsInputTokens(t *testing.T) {
	f := start(t, nil)
	count := func(more string) float64 {
		return f.post("/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"four"}]`+more+`}`)["input_tokens"].(float64)
	}
	expect(t, count(""), 4)
	if count(`,`+anthropicTools) <= 50 {
		t.Errorf("%v tokens with tools", count(`,`+anthropicTools))
	}
	expect(t, count(`,`+anthropicTools+`,"tool_choice":{"type":"none"}`), 4)
	expect(t, count(`,"system":"be"`), 6)
	f.anthropicRefusal("POST", "/v1/messages/count_tokens", `{"model":"m","messages":[],"container":"c"}`, 400)
}

// The official client sends all messages if a refusal has this code.
func TestARefusedThreadHasTheCodeThatClientsRecognize(t *testing.T) {
	f := start(t, nil)
	f.anthropicRefusal("POST", "/v1/messages", message("x", `,"thread":{"type":"create"}`), 400)
	_, text := f.do("POST", "/v1/messages", message("x", `,"thread":{"type":"create"}`))
	expect(t, at(f.object(text), "error", "details"), map[string]interface{}{"error_code": "thread_unsupported_request",
		"unsupported": []string{"thread"}})
	f.post("/v1/messages", message("x", `,"thread":null,"fallbacks":"default","betas":["x"]`))
}

func TestBatchesAreRefusedInAnthropicsForm(t *testing.T) {
	f := start(t, nil)
	for _, each := range []string{"POST /v1/messages/batches", "GET /v1/messages/batches", "GET /v1/messages/batches/b_1",
		"GET /v1/messages/batches/b_1/results", "POST /v1/messages/batches/b_1/cancel", "DELETE /v1/messages/batches/b_1"} {
		method, path, _ := strings.Cut(each, " ")
		kind, text := f.anthropicRefusal(method, path, `{"requests":[]}`, 404)
		if kind != "not_found_error" || !strings.Contains(text, "batches of messages are not supported") {
			t.Errorf("%s: %s: %s", each, kind, text)
		}
	}
}

func TestEveryAnswerToAnthropicsClientHasARequestID(t *testing.T) {
	f := start(t, nil)
	response, _ := f.do("POST", "/v1/messages", message("x", ""))
	if id := response.Header.Get("request-id"); !strings.HasPrefix(id, "req_") {
		t.Errorf("the request id is %q", id)
	}
	kind, _ := f.anthropicRefusal("POST", "/v1/messages", strings.Replace(message("x", ""), `"m"`, `"nobody"`, 1), 404)
	expect(t, kind, "not_found_error")
	f.anthropicRefusal("POST", "/v1/messages", `{`, 400)
	f.anthropicRefusal("GET", "/v1/messages", "", 405)
	response, _ = f.do("POST", "/v1/chat/completions", chat("x", ""))
	expect(t, response.Header.Get("request-id"), "")
}

// anthropicGet sends a GET as Anthropic's client does.
func (f *fixture) anthropicGet(path string, status int) map[string]interface{} {
	f.t.Helper()
	request, _ := http.NewRequest("GET", f.URL+path, nil)
	request.Header.Set("anthropic-version", "2023-06-01")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	var body map[string]interface{}
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil || response.StatusCode != status {
		f.t.Fatalf("%s: %d %v %v", path, response.StatusCode, body, err)
	}
	return body
}

func TestModelsAreListedInAnthropicsFormForItsClient(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Aliases["claude"] = "m" }) // claude, gpt-4o, m, other
	all := f.anthropicGet("/v1/models", 200)
	expect(t, []interface{}{len(all["data"].([]interface{})), all["has_more"], all["first_id"], all["last_id"]},
		[]interface{}{4, false, "claude", "other"})
	model := f.anthropicGet("/v1/models/m", 200)
	expect(t, []interface{}{model["type"], model["id"], model["display_name"]}, []string{"model", "m", "m"})
	if created, _ := model["created_at"].(string); !strings.HasSuffix(created, "Z") {
		t.Errorf("created at %q", created)
	}
	for query, want := range map[string][]interface{}{
		"limit=2":                   {2, true, "claude", "gpt-4o"},
		"limit=2&after_id=gpt-4o":   {2, false, "m", "other"},
		"limit=1&before_id=m":       {1, true, "gpt-4o", "gpt-4o"},
		"after_id=other":            {0, false, nil, nil},
		"before_id=claude&limit=20": {0, false, nil, nil},
	} {
		page := f.anthropicGet("/v1/models?"+query, 200)
		expect(t, []interface{}{len(page["data"].([]interface{})), page["has_more"], page["first_id"], page["last_id"]}, want)
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "after_id=nobody", "before_id=nobody"} {
		expect(t, f.anthropicGet("/v1/models?"+query, 400)["type"], "error")
	}
	expect(t, at(f.anthropicGet("/v1/models/nobody", 404), "error", "type"), "not_found_error")
	expect(t, f.get("/v1/models")["object"], "list")
	expect(t, f.get("/v1/models/m")["object"], "model")
}

// Vercel's AI SDK refuses an answer whose text block has null citations.
func TestATextBlockHasNoCitations(t *testing.T) {
	f := start(t, nil)
	block, _ := at(f.post("/v1/messages", message("x", "")), "content", 0).(map[string]interface{})
	expect(t, block, map[string]string{"type": "text", "text": "x"})
	for _, event := range f.stream("/v1/messages", message("x", `,"stream":true`)) {
		if strings.Contains(event, "citations") {
			t.Error(event)
		}
	}
}
