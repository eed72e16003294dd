package server_test

import (
	"encoding/json"
	"strings"
	"testing"
)

const functions = `[{"name":"f","parameters":{"type":"object"}}]`

func TestFunctionsAreToolsOfOneCall(t *testing.T) {
	f := start(t, nil)
	for choice, want := range map[string]string{"": "", `,"function_call":"auto"`: "auto", `,"function_call":"none"`: "none",
		`,"function_call":{"name":"f"}`: "function:f"} {
		body := f.post("/v1/chat/completions", chat(`call f {"a": 1}`, `,"functions":`+functions+choice))
		g := f.engine.Last()
		expect(t, g.ToolChoice, want)
		expect(t, g.ParallelCalls, false)
		expect(t, string(g.Tools), `[{"function":{"name":"f","parameters":{"type":"object"}},"type":"function"}]`)
		message := at(body, "choices", 0, "message")
		expect(t, at(message, "function_call"), map[string]string{"arguments": `{"a": 1}`, "name": "f"})
		expect(t, at(message, "tool_calls"), nil)
		expect(t, at(message, "content"), nil)
		expect(t, at(body, "choices", 0, "finish_reason"), "function_call")
	}
	body := f.post("/v1/chat/completions", chat("hello", `,"functions":`+functions))
	expect(t, at(body, "choices", 0, "message", "content"), "hello")
	expect(t, at(body, "choices", 0, "finish_reason"), "stop")
}

func TestACallOfAFunctionIsStreamedInItsForm(t *testing.T) {
	f := start(t, nil)
	name, arguments, finish := "", "", ""
	for _, event := range f.stream("/v1/chat/completions", chat(`call f {"a": 1}`, `,"stream":true,"functions":`+functions)) {
		if event == "[DONE]" {
			break
		}
		choice := at(f.object(event), "choices", 0)
		if at(choice, "delta", "tool_calls") != nil {
			t.Error("the form of tools: ", event)
		}
		part, _ := at(choice, "delta", "function_call", "name").(string)
		name += part
		part, _ = at(choice, "delta", "function_call", "arguments").(string)
		arguments += part
		if word, is := at(choice, "finish_reason").(string); is {
			finish = word
		}
	}
	expect(t, []string{name, arguments, finish}, []string{"f", `{"a": 1}`, "function_call"})
}

func TestAllowedToolsRestrictTheCallsAndKeepThePrompt(t *testing.T) {
	f := start(t, nil)
	tools := `,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]`
	for _, choice := range []string{
		`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]}}`,
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"g"}]}`,
	} {
		f.post("/v1/chat/completions", chat("x", tools+`,"tool_choice":`+choice))
		g := f.engine.Last()
		expect(t, g.ToolChoice, "required")
		expect(t, g.AllowedTools, []string{"g"})
		var list []interface{}
		_ = json.Unmarshal(g.Tools, &list)
		expect(t, len(list), 2)
	}
	f.post("/v1/chat/completions", chat("x", tools+`,"tool_choice":"auto"`))
	if f.engine.Last().AllowedTools != nil {
		t.Error(f.engine.Last().AllowedTools)
	}
	f.post("/v1/chat/completions", chat("x", `,"tools":[]`))
	if f.engine.Last().Tools != nil {
		t.Error("an empty list is a list of tools")
	}
	for _, choice := range []string{`{"type":"function","function":{"name":"h"}}`,
		`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"g"},{"type":"function","name":"h"}]}`} {
		param, _, message := f.refusal("POST", "/v1/chat/completions", chat("x", tools+`,"tool_choice":`+choice), 400)
		if param != "tool_choice" || !strings.Contains(message, `the function "h"`) {
			t.Error(param, message)
		}
	}
}

func TestReasoningIsLeftOutIfTheClientWantsNone(t *testing.T) {
	f := start(t, nil)
	body := f.post("/v1/chat/completions", chat("think hm|yes", `,"include_reasoning":false`))
	expect(t, at(body, "choices", 0, "message", "reasoning"), nil)
	expect(t, at(body, "choices", 0, "message", "content"), "yes")
	expect(t, at(body, "usage", "completion_tokens_details", "reasoning_tokens"), 1)
	for _, event := range f.stream("/v1/chat/completions", chat("think hm|yes", `,"include_reasoning":false,"stream":true`)) {
		if event != "[DONE]" && at(f.object(event), "choices", 0, "delta", "reasoning") != nil {
			t.Error(event)
		}
	}
}
