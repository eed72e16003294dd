package local_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A template that writes no tools, as many of small models.
const toollessTemplate = `{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

func (f *fixture) rendered(request string) string {
	f.t.Helper()
	var rendered struct {
		TokenIDs []int32 `json:"token_ids"`
	}
	f.post("/v1/chat/completions/render", request, &rendered)
	ids, _ := json.Marshal(rendered.TokenIDs)
	var text struct{ Prompt string }
	f.post("/v1/detokenize", `{"model":"story","tokens":`+string(ids)+`}`, &text)
	return text.Prompt
}

func TestATemplateWithoutToolsGetsThemInAGenericForm(t *testing.T) {
	f := startCalling(t, toollessTemplate)
	for seed := 0; seed < 4; seed++ {
		for choice, names := range map[string]string{`"required"`: toolNames, `{"type":"function","function":{"name":"time"}}`: "time"} {
			var got callingAnswer
			f.post("/v1/chat/completions", fmt.Sprintf(`%s%s,"seed":%d,"parallel_tool_calls":false,"tool_choice":%s}`, asksForCall,
				callingTools, seed, choice), &got)
			message := got.Choices[0].Message
			if len(message.ToolCalls) != 1 || got.Choices[0].FinishReason != "tool_calls" {
				t.Fatalf("%s: %+v", choice, got)
			}
			if err := isCall(message.ToolCalls[0], names); err != nil {
				t.Error(choice, err)
			}
		}
	}
	text := f.rendered(asksForCall + callingTools + "}")
	for _, part := range []string{"<|im_start|>system", `"name":"weather"`, `"name":"time"`, "Oslo", "How warm is it?"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in the prompt: %q", part, text)
		}
	}
	if text := f.rendered(asksForCall + callingTools + `,"tool_choice":"none"}`); strings.Contains(text, "weather") {
		t.Errorf("%q", text)
	}
}

func TestTheGenericFormKeepsHistories(t *testing.T) {
	f := startCalling(t, toollessTemplate)
	request := `{"model":"story","tools":` + callingTools + `,"messages":[{"role":"system","content":"Be brief."},
		{"role":"user","content":"How warm is it?"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Oslo\"}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"7 degrees"}]`
	text := f.rendered(request + "}")
	for _, part := range []string{"<|im_start|>system\nBe brief.\n\nYou can call", "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>",
		"7 degrees"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in the prompt: %q", part, text)
		}
	}
	if strings.Count(text, "<|im_start|>system") != 1 {
		t.Errorf("%q", text)
	}
	var got callingAnswer
	f.post("/v1/chat/completions", request+`,"max_tokens":20}`, &got)
}

func TestOnlyAllowedToolsAreCalled(t *testing.T) {
	for _, template := range []string{callingTemplate, toollessTemplate} {
		f := startCalling(t, template)
		choice := func(mode, name string) string {
			return `,"parallel_tool_calls":false,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"` + mode +
				`","tools":[{"type":"function","function":{"name":"` + name + `"}}]}}}`
		}
		for seed := 0; seed < 4; seed++ {
			var got callingAnswer
			f.post("/v1/chat/completions", fmt.Sprintf(`%s%s,"seed":%d%s`, asksForCall, callingTools, seed, choice("required", "time")), &got)
			calls := got.Choices[0].Message.ToolCalls
			if len(calls) != 1 || isCall(calls[0], "time") != nil {
				t.Fatalf("%+v", got)
			}
		}
		if text := f.rendered(asksForCall + callingTools + choice("auto", "time")); !strings.Contains(text, "weather") {
			t.Errorf("a tool that is not allowed has left the prompt: %q", text)
		}
		if param, _ := f.refused("/v1/chat/completions", asksForCall+callingTools+choice("auto", "sing"), http.StatusBadRequest); param != "tool_choice" {
			t.Error(param)
		}
	}
}

func TestAFunctionIsCalledInTheFirstForm(t *testing.T) {
	f := startCalling(t, callingTemplate)
	functions := `[{"name":"time","parameters":{"type":"object","properties":{"city":{"enum":["Oslo","Rome"]}},"required":["city"]}}]`
	var got struct {
		Choices []struct {
			Message struct {
				FunctionCall struct{ Name, Arguments string } `json:"function_call"`
			}
			FinishReason string `json:"finish_reason"`
		}
	}
	f.post("/v1/chat/completions", `{"model":"story","messages":[{"role":"user","content":"How late is it?"},
		{"role":"assistant","content":null,"function_call":{"name":"time","arguments":"{\"city\": \"Rome\"}"}},
		{"role":"function","name":"time","content":"noon"},{"role":"user","content":"And in Oslo?"}],
		"max_tokens":100,"functions":`+functions+`,"function_call":{"name":"time"}}`, &got)
	var arguments struct{ City string }
	call := got.Choices[0].Message.FunctionCall
	if err := json.Unmarshal([]byte(call.Arguments), &arguments); err != nil || call.Name != "time" || len(arguments.City) != 4 ||
		got.Choices[0].FinishReason != "function_call" {
		t.Errorf("%+v %v", got, err)
	}
}
