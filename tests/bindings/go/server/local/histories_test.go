package local_test

import (
	"reflect"
	"testing"
)

// A template that joins arguments to a text and tests whether the content is null.
const joiningTemplate = `{% for m in messages %}[{{ m.role }}]
{%- if m.role == 'assistant' and m['content'] is none -%}
{%- for c in m.tool_calls %}{{ 'call ' + c.function.name + ' with ' + c.function.arguments }}{% endfor -%}
{%- else %}{{ m['content'].strip() }}{% endif %}
{% endfor %}`

type renderedHistory struct {
	TokenIDs []int32 `json:"token_ids"`
	Changes  []struct{ Field, Change string }
}

// history returns a request whose second turn follows a call.
func history(role, content, arguments string) string {
	return `{"model":"story","messages":[{"role":"` + role + `","content":"Be brief."},{"role":"user","content":"go"},
		{"role":"assistant","content":` + content + `,"tool_calls":[{"id":"a1","type":"function","function":
		{"name":"clock","arguments":` + arguments + `}}]},{"role":"tool","tool_call_id":"a1","content":"noon"}]}`
}

func TestHistoriesGetTheFormThatTheTemplateNeeds(t *testing.T) {
	f := startCalling(t, joiningTemplate)
	const text = `"{\"zone\": \"utc\"}"`
	var want renderedHistory
	f.post("/v1/chat/completions/render", history("system", "null", text), &want)
	for _, body := range []string{history("developer", "null", text), history("system", `""`, text),
		history("system", "null", `{"zone": "utc"}`)} {
		var got renderedHistory
		f.post("/v1/chat/completions/render", body, &got)
		if !reflect.DeepEqual(got.TokenIDs, want.TokenIDs) || len(got.Changes) == 0 {
			t.Errorf("%s: %+v, not %+v", body, got, want)
		}
	}
	const items = `{"model":"story","max_output_tokens":1,"input":[{"role":"developer","content":[
		{"type":"input_text","text":"Be brief."}]},{"role":"user","content":"go"},{"type":"function_call","call_id":"a1",
		"name":"clock","arguments":"{\"zone\": \"utc\"}"},{"type":"function_call_output","call_id":"a1","output":"noon"}]}`
	var response struct {
		Usage struct {
			Input int `json:"input_tokens"`
		}
	}
	f.post("/v1/responses", items, &response)
	if response.Usage.Input != len(want.TokenIDs) {
		t.Errorf("%d tokens of the input, not %d", response.Usage.Input, len(want.TokenIDs))
	}
	var counted struct {
		Input int `json:"input_tokens"`
	}
	f.post("/v1/messages/count_tokens", `{"model":"story","max_tokens":1,"system":"Be brief.","messages":[
		{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"a1","name":"clock",
		"input":{"zone": "utc"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a1","content":"noon"}]}]}`,
		&counted)
	if counted.Input != len(want.TokenIDs) {
		t.Errorf("%d tokens counted, not %d", counted.Input, len(want.TokenIDs))
	}
}

func TestPartsThatAreNoTextAreRefused(t *testing.T) {
	f := startCalling(t, joiningTemplate)
	param, _ := f.refused("/v1/chat/completions", `{"model":"story","messages":[{"role":"user","content":[
		{"type":"image_url","image_url":{"url":"data:"}}]}]}`, 400)
	if param != "messages" {
		t.Errorf("the field is %q", param)
	}
}
