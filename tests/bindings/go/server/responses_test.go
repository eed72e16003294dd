package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"quire.dev/quire/server"
)

// refusal sends a request that must be refused, and returns the field at fault, the code and the message.
func (f *fixture) refusal(method, path, body string, status int) (param, code, message string) {
	f.t.Helper()
	response, text := f.do(method, path, body)
	var failure struct {
		Error struct{ Message, Type, Param, Code string }
	}
	if err := json.Unmarshal([]byte(text), &failure); err != nil || response.StatusCode != status || failure.Error.Message == "" {
		f.t.Fatalf("%s %s %.200s: %d %s, not %d", method, path, body, response.StatusCode, text, status)
	}
	return failure.Error.Param, failure.Error.Code, failure.Error.Message
}

func (f *fixture) get(path string) map[string]interface{} {
	f.t.Helper()
	response, text := f.do("GET", path, "")
	if response.StatusCode != 200 {
		f.t.Fatalf("%s: %d %s", path, response.StatusCode, text)
	}
	return f.object(text)
}

// messages returns the messages of the last generation, each as its role and its text.
func (f *fixture) messages() []string {
	f.t.Helper()
	var messages []struct {
		Role    string
		Content interface{}
	}
	if err := json.Unmarshal(f.engine.Last().Messages, &messages); err != nil {
		f.t.Fatal(err)
	}
	out := []string{}
	for _, message := range messages {
		out = append(out, fmt.Sprint(message.Role, ": ", message.Content))
	}
	return out
}

const functionF = `{"type":"function","name":"f","parameters":{"type":"object"}}`
const functionG = `{"type":"function","name":"g","parameters":{"type":"object"}}`

func TestFieldsOfResponsesAreObeyedOrRefusedByName(t *testing.T) {
	f := start(t, nil)
	for more, param := range map[string]string{
		`"background":true,"store":false`:                              "background",
		`"conversation":"c","previous_response_id":"r"`:                "conversation",
		`"conversation":7`:                                             "conversation",
		`"include":["message.output_text.logprobs","all"]`:             "include",
		`"top_logprobs":21,"include":["message.output_text.logprobs"]`: "top_logprobs",
		`"top_logprobs":2`:                                             "top_logprobs",
		`"max_output_tokens":0`:                                        "max_output_tokens",
		`"max_tool_calls":-1`:                                          "max_tool_calls",
		`"n":2`:                                                        "n",
		`"truncation":"some"`:                                          "truncation",
		`"reasoning":{"effort":"huge"}`:                                "reasoning.effort",
		`"reasoning":{"context":"all_turns"}`:                          "reasoning.context",
		`"reasoning":{"mode":"pro"}`:                                   "reasoning.mode",
		`"reasoning":{"depth":3}`:                                      "reasoning.depth",
		`"reasoning":"much"`:                                           "reasoning",
		`"text":{"verbosity":"low"}`:                                   "text.verbosity",
		`"text":{"colour":"red"}`:                                      "text.colour",
		`"text":{"format":{"type":"json_schema","name":"n"}}`:          "text.format",
		`"text":{"format":{"type":"xml"}}`:                             "text.format",
		`"prompt":{"id":"p"}`:                                          "prompt",
		`"moderation":{"model":"m"}`:                                   "moderation",
		`"context_management":[{"type":"compaction"}]`:                 "context_management",
		`"best_of":2`:                                                  "best_of",
		`"Temperature":0`:                                              "Temperature",
		`"temperature":"warm"`:                                         "temperature",
		`"tools":[{"type":"web_search"}]`:                              "tools",
		`"tools":[{"type":"function","name":"f","allowed_callers":["programmatic"]}]`:                                               "tools",
		`"tools":[` + functionF + `],"tool_choice":{"type":"function","name":"g"}`:                                                  "tool_choice",
		`"tool_choice":{"type":"web_search"}`:                                                                                       "tool_choice",
		`"tool_choice":"perhaps"`:                                                                                                   "tool_choice",
		`"tools":[` + functionF + `],"tool_choice":{"type":"allowed_tools","mode":"none","tools":[]}`:                               "tool_choice",
		`"tools":[` + functionF + `],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"h"}]}`: "tool_choice",
		`"metadata":{"k":"` + strings.Repeat("v", 513) + `"}`:                                                                       "metadata",
		`"metadata":{"` + strings.Repeat("k", 65) + `":"v"}`:                                                                        "metadata",
		`"metadata":{"k":7}`: "metadata",
		`"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]`: "input",
		`"input":[{"role":"critic","content":"x"}]`:                                    "input",
		`"input":[{"role":"user"}]`:                                                    "input",
		`"input":[{"type":"item_reference","id":"msg_1"}]`:                             "input",
		`"input":[{"type":"function_call","name":"f","arguments":{}}]`:                 "input",
		`"input":[{"type":"computer_call"}]`:                                           "input",
		`"input":7`:                                                                    "input",
		`"input":"refuse"`:                                                             "input",
	} {
		body := `{"model":"m","input":"x",` + more + `}`
		if strings.HasPrefix(more, `"input"`) {
			body = `{"model":"m",` + more + `}`
		}
		if got, _, message := f.refusal("POST", "/v1/responses", body, 400); got != param {
			t.Errorf("%.100s: the fault is at %q, not %q: %s", more, got, param, message)
		}
	}
	_, code, _ := f.refusal("POST", "/v1/responses", `{"model":"m","input":"x","best_of":2}`, 400)
	expect(t, code, "unknown_parameter")
	param, _, message := f.refusal("POST", "/v1/responses", `{"model":"m","input":"x","`+strings.Repeat("a", 1<<20)+`":1}`, 400)
	if len(param)+len(message) > 1000 {
		t.Errorf("the refusal has %d bytes", len(param)+len(message))
	}
	f.refusal("POST", "/v1/responses", `["model"]`, 400)
	f.refusal("POST", "/v1/responses", `{"model":"m"}`, 400)
	f.post("/v1/responses", `{"model":"m","input":"x","user":"u","safety_identifier":"s","prompt_cache_key":"k",
		"prompt_cache_retention":"24h","prompt_cache_options":{"ttl":"30m"},"service_tier":"flex","prompt":null,"moderation":null,
		"reasoning":{"summary":"auto","effort":"low","context":"auto"},"text":{"verbosity":"medium","format":{"type":"text"}},
		"include":["reasoning.encrypted_content"],"stream_options":{"include_obfuscation":false},"truncation":"disabled",
		"max_tool_calls":0,"n":1,"metadata":{"k":"v"},"context_management":[]}`)
}

func TestZeroIsAValueInResponses(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/responses", `{"model":"m","input":"x","temperature":0,"top_k":0,"min_p":0,"seed":0,"top_logprobs":0,
		"include":["message.output_text.logprobs"]}`)
	g := f.engine.Last()
	expect(t, []interface{}{*g.Temperature, *g.TopK, *g.MinP, *g.Seed, g.LogProbs, g.TopLogProbs}, []interface{}{0, 0, 0, 0, true, 0})
	expect(t, body["temperature"], 0)
	expect(t, body["top_p"], 1)
	expect(t, at(body, "output", 0, "content", 0, "logprobs", 0, "top_logprobs"), []int{})
}

func TestLogProbsOfResponsesAreInTheTextAndInItsEvents(t *testing.T) {
	f := start(t, nil)
	asked := `{"model":"m","input":"one two","include":["message.output_text.logprobs"],"top_logprobs":2`
	body := f.post("/v1/responses", asked+"}")
	entries := at(body, "output", 0, "content", 0, "logprobs").([]interface{})
	expect(t, len(entries), 2)
	expect(t, at(entries, 1, "token"), "two")
	expect(t, at(entries, 1, "logprob"), -0.5)
	expect(t, at(entries, 1, "bytes"), []int{116, 119, 111})
	expect(t, at(entries, 1, "top_logprobs", 1, "token"), "t1")
	numDelta, numDone := 0, 0
	for _, text := range f.stream("/v1/responses", asked+`,"stream":true}`) {
		event := f.object(text)
		switch event["type"] {
		case "response.output_text.delta":
			expect(t, at(event, "logprobs", 0, "token"), event["delta"])
			numDelta++
		case "response.output_text.done":
			numDone = len(event["logprobs"].([]interface{}))
		}
	}
	expect(t, []int{numDelta, numDone}, []int{2, 2})
	expect(t, at(f.post("/v1/responses", `{"model":"m","input":"a"}`), "output", 0, "content", 0, "logprobs"), []int{})
}

func TestAllowedToolsMeanTheSameInResponses(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/responses", `{"model":"m","input":"x","tools":[`+functionF+`,`+functionG+`],
		"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"g"},{"type":"function","name":"g"}]}}`)
	var tools []map[string]interface{}
	_ = json.Unmarshal(f.engine.Last().Tools, &tools)
	expect(t, len(tools), 2)
	expect(t, f.engine.Last().AllowedTools, []string{"g"})
	expect(t, f.engine.Last().ToolChoice, "required")
	expect(t, at(body, "tool_choice", "type"), "allowed_tools")
	expect(t, len(body["tools"].([]interface{})), 2)
	f.post("/v1/responses", `{"model":"m","input":"x","tools":[`+functionF+`,`+functionG+`],"tool_choice":{"type":"function","name":"f"}}`)
	expect(t, f.engine.Last().ToolChoice, "function:f")
}

func TestTheFormatOfATextIsAConstraint(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/responses", `{"model":"m","input":"x","text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}}}`)
	expect(t, f.engine.Last().ResponseFormat, json.RawMessage(
		`{"json_schema":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true},"type":"json_schema"}`))
	expect(t, at(body, "text", "format", "name"), "n")
	f.post("/v1/responses", `{"model":"m","input":"x","text":{"format":{"type":"json_object"}}}`)
	expect(t, f.engine.Last().ResponseFormat, json.RawMessage(`{"type":"json_object"}`))
}

func TestInstructionsAreNotCarriedOver(t *testing.T) {
	f := start(t, nil)
	first := f.post("/v1/responses", `{"model":"m","input":"hello","instructions":"be kind"}`)
	expect(t, f.messages(), []string{"system: be kind", "user: hello"})
	f.post("/v1/responses", `{"model":"m","input":"again","instructions":"be brief","previous_response_id":"`+first["id"].(string)+`"}`)
	expect(t, f.messages(), []string{"system: be brief", "user: hello", "assistant: hello", "user: again"})
}

func TestInputItemsAreListedInPages(t *testing.T) {
	f := start(t, nil)
	first := f.post("/v1/responses", `{"model":"m","input":"one"}`)
	second := f.post("/v1/responses", `{"model":"m","previous_response_id":"`+first["id"].(string)+`","input":[
		{"role":"user","content":[{"type":"input_text","text":"two"}]},
		{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
		{"type":"function_call_output","call_id":"c1","output":"42"},
		{"type":"reasoning","id":"rs_1","content":[{"type":"reasoning_text","text":"hm"}]}]}`)
	path := "/v1/responses/" + second["id"].(string) + "/input_items"
	all := f.get(path + "?order=asc")
	var kinds []interface{}
	for _, item := range all["data"].([]interface{}) {
		kinds = append(kinds, at(item, "type"))
		if id, _ := at(item, "id").(string); id == "" || at(item, "status") == nil {
			t.Errorf("an item without id or status: %v", item)
		}
	}
	expect(t, kinds, []string{"message", "message", "message", "function_call", "function_call_output", "reasoning"})
	expect(t, at(all, "data", 0, "content", 0), map[string]string{"type": "input_text", "text": "one"})
	expect(t, at(all, "data", 1, "content", 0, "text"), "one")
	expect(t, all["has_more"], false)
	expect(t, at(f.get(path), "data", 0, "id"), "rs_1")
	page := f.get(path + "?order=asc&limit=2&after=" + all["first_id"].(string))
	expect(t, []interface{}{len(page["data"].([]interface{})), page["has_more"], page["first_id"]},
		[]interface{}{2, true, at(all, "data", 1, "id")})
	expect(t, f.get(path + "?after=rs_1&order=asc")["data"], []int{})
	for query, param := range map[string]string{"limit=0": "limit", "limit=101": "limit", "limit=x": "limit", "order=up": "order",
		"after=nothing": "after"} {
		got, _, _ := f.refusal("GET", path+"?"+query, "", 400)
		expect(t, got, param)
	}
	f.refusal("GET", "/v1/responses/resp_0/input_items", "", 404)
	f.refusal("GET", "/v1/responses/resp_0/nothing", "", 404)
	f.refusal("POST", path, "", 405)
	param, _, message := f.refusal("GET", "/v1/responses/"+second["id"].(string)+"?stream=true", "", 400)
	if param != "stream" || !strings.Contains(message, "background and stream") {
		t.Error(param, message)
	}
	param, _, _ = f.refusal("GET", "/v1/responses/"+second["id"].(string)+"?starting_after=3", "", 400)
	expect(t, param, "starting_after")
}

func TestItemsAreReferredToById(t *testing.T) {
	f := start(t, nil)
	first := f.post("/v1/responses", `{"model":"m","input":"say yes"}`)
	id := at(first, "output", 0, "id").(string)
	f.post("/v1/responses", `{"model":"m","input":[{"type":"item_reference","id":"`+id+`"},{"role":"user","content":"next"}]}`)
	expect(t, f.messages(), []string{"assistant: say yes", "user: next"})
	f.post("/v1/responses", `{"model":"m","input":[{"id":"`+id+`"},{"role":"user","content":"next"}]}`)
	expect(t, f.messages(), []string{"assistant: say yes", "user: next"})
}

func TestInputTokensAreCountedWithoutAnAnswer(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/responses/input_tokens", `{"model":"m","input":"four"}`)
	expect(t, body, map[string]interface{}{"object": "response.input_tokens", "input_tokens": 4})
	more := f.post("/v1/responses/input_tokens", `{"model":"m","input":"four","instructions":"two","tools":[`+functionF+`]}`)
	if more["input_tokens"].(float64) <= 7 {
		t.Errorf("%v tokens with instructions and tools", more["input_tokens"])
	}
	if f.engine.Last() != nil {
		t.Error("counting has generated")
	}
	param, _, _ := f.refusal("POST", "/v1/responses/input_tokens", `{"model":"m","input":"x","personality":"pragmatic"}`, 400)
	expect(t, param, "personality")
	f.refusal("GET", "/v1/responses/input_tokens", "", 405)
}

func TestTruncationDropsTheOldestTurns(t *testing.T) {
	f := start(t, nil) // the context has 4096 tokens, and each byte is one
	turn := func(letter string) string {
		return `{"role":"user","content":"` + strings.Repeat(letter, 1000) + `"},{"role":"assistant","content":"yes"}`
	}
	input := `"input":[{"role":"developer","content":"rule"},` + turn("a") + `,` + turn("b") + `,` + turn("c") + `,` + turn("d") +
		`,{"role":"user","content":"last"}]`
	firsts := func() string {
		out := ""
		for _, message := range f.messages() {
			_, text, _ := strings.Cut(message, ": ")
			out += text[:1]
		}
		return out
	}
	f.post("/v1/responses", `{"model":"m","truncation":"auto",`+input+`}`)
	expect(t, firsts(), "rbycydyl")
	f.post("/v1/responses", `{"model":"m","truncation":"auto","max_output_tokens":1900,`+input+`}`)
	expect(t, firsts(), "rcydyl")
	f.post("/v1/responses", `{"model":"m",`+input+`}`)
	expect(t, firsts(), "raybycydyl")
	f.post("/v1/responses", `{"model":"m","truncation":"auto","input":"`+strings.Repeat("z", 5000)+`"}`)
	expect(t, firsts(), "z")
}

func TestABackgroundResponseIsPolled(t *testing.T) {
	f := start(t, nil)
	queued := f.post("/v1/responses", `{"model":"m","input":"say yes","background":true}`)
	expect(t, []interface{}{queued["status"], queued["background"], queued["output"]}, []interface{}{"queued", true, []int{}})
	path := "/v1/responses/" + queued["id"].(string)
	var done map[string]interface{}
	eventually(t, func() bool { done = f.get(path); return done["status"] == "completed" })
	expect(t, at(done, "output", 0, "content", 0, "text"), "say yes")
	expect(t, at(done, "usage", "output_tokens"), 2)
	eventually(t, func() bool {
		return strings.Contains(f.log.String(), `"message":"background response","model":"m","new_tokens":2`)
	})
	f.post("/v1/responses", `{"model":"m","input":"more","previous_response_id":"`+queued["id"].(string)+`"}`)
	expect(t, f.messages(), []string{"user: say yes", "assistant: say yes", "user: more"})
	after := f.post(path+"/cancel", "")
	expect(t, after["status"], "completed")
	failed := f.post("/v1/responses", `{"model":"m","input":"fail","background":true}`)
	eventually(t, func() bool {
		done = f.get("/v1/responses/" + failed["id"].(string))
		return done["status"] == "failed"
	})
	expect(t, at(done, "error", "code"), "server_error")
	if text, _ := json.Marshal(done); strings.Contains(string(text), "secret") {
		t.Errorf("an internal failure is revealed: %s", text)
	}
	refused := f.post("/v1/responses", `{"model":"m","input":"refuse","background":true}`)
	eventually(t, func() bool {
		done = f.get("/v1/responses/" + refused["id"].(string))
		return done["status"] == "failed"
	})
	expect(t, at(done, "error", "code"), "invalid_prompt")
	f.refusal("POST", "/v1/responses", `{"model":"nobody","input":"x","background":true}`, 404)
	f.refusal("POST", "/v1/responses", `{"input":"x","background":true}`, 400)
}

func TestABackgroundResponseIsCancelled(t *testing.T) {
	f := start(t, nil)
	path := "/v1/responses/" + f.post("/v1/responses", `{"model":"m","input":"wait","background":true}`)["id"].(string)
	eventually(t, func() bool { return f.get(path)["status"] == "in_progress" })
	expect(t, f.engine.Open_.Load(), 1)
	expect(t, f.post(path+"/cancel", "")["status"], "cancelled")
	expect(t, f.post(path+"/cancel", "")["status"], "cancelled")
	eventually(t, func() bool { return f.engine.Open_.Load() == 0 })
	eventually(t, func() bool { return strings.Contains(f.log.String(), `"status":"cancelled"`) })
	expect(t, f.get(path)["status"], "cancelled")
	if strings.Contains(f.log.String(), "failed") {
		t.Errorf("a cancelled response counts as failed: %s", f.log)
	}
	deleted := "/v1/responses/" + f.post("/v1/responses", `{"model":"m","input":"wait","background":true}`)["id"].(string)
	eventually(t, func() bool { return f.engine.Open_.Load() == 1 })
	response, _ := f.do("DELETE", deleted, "")
	expect(t, response.StatusCode, 200)
	eventually(t, func() bool { return f.engine.Open_.Load() == 0 })
	f.refusal("GET", deleted, "", 404)
	whole := f.post("/v1/responses", `{"model":"m","input":"x"}`)["id"].(string)
	f.refusal("POST", "/v1/responses/"+whole+"/cancel", "", 400)
	f.refusal("POST", "/v1/responses/resp_0/cancel", "", 404)
	f.refusal("GET", "/v1/responses/"+whole+"/cancel", "", 405)
}

func TestABackgroundResponseCountsAsARunningRequest(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Limits.MaxQueue = 1 })
	path := "/v1/responses/" + f.post("/v1/responses", `{"model":"m","input":"wait","background":true}`)["id"].(string)
	f.refusal("POST", "/v1/responses", `{"model":"m","input":"x"}`, 429)
	f.post(path+"/cancel", "")
	eventually(t, func() bool {
		response, _ := f.do("POST", "/v1/responses", `{"model":"m","input":"x"}`)
		return response.StatusCode == 200
	})
}

func TestADeadlineEndsABackgroundResponse(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Limits.RequestSeconds = 1 })
	path := "/v1/responses/" + f.post("/v1/responses", `{"model":"m","input":"wait","background":true}`)["id"].(string)
	eventually(t, func() bool { return f.get(path)["status"] == "failed" })
	expect(t, at(f.get(path), "error", "message"),
		"the deadline of the request has passed; ask for fewer tokens, or for more time with x-request-timeout")
}
