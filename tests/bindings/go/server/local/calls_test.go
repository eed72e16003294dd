package local_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quire.dev/quire/server"
)

// A template of a model family that writes calls in the hermes dialect.
const callingTemplate = `{% for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' -}}
{% for call in message.tool_calls or [] %}<tool_call>{{ call.function.arguments.city }}</tool_call>{% endfor -%}
<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// With `enable_thinking` the template begins the reasoning.
const thinkingTemplate = callingTemplate + `{% if enable_thinking %}<think>
{% endif %}`

const toolNames = "weather time"

var callingTools = func() string {
	var tools []string
	for _, name := range strings.Fields(toolNames) {
		tools = append(tools, `{"type":"function","function":{"name":"`+name+`","parameters":{"type":"object","properties":
			{"city":{"enum":["Oslo","Rome"]}},"required":["city"],"additionalProperties":false}}}`)
	}
	return "[" + strings.Join(tools, ",") + "]"
}()

// startCalling starts a server with the embedded model, as one of a family that calls tools.
func startCalling(t *testing.T, template string) *fixture {
	t.Helper()
	path := filepath.Join(t.TempDir(), "template.jinja")
	if err := os.WriteFile(path, []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, func(c *server.Config) {
		c.Models["story"] = server.ModelConfig{Path: modelPath(t), CacheTokens: 8192, ChatTemplate: path}
	})
}

type called struct {
	Index    *int
	ID       string
	Type     string
	Function struct{ Name, Arguments string }
}

type callingMessage struct {
	Content          *string
	ReasoningContent string   `json:"reasoning_content"`
	Reasoning        string   `json:"reasoning"`
	ToolCalls        []called `json:"tool_calls"`
}

type callingAnswer struct {
	Choices []struct {
		Message      callingMessage
		Delta        callingMessage
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		Prompt  int `json:"prompt_tokens"`
		Details struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
}

const asksForCall = `{"model":"story","messages":[{"role":"user","content":"How warm is it?"}],"max_tokens":400,"tools":`

// isCall returns the error in a call, or nil.
func isCall(c called, names string) error {
	var arguments struct{ City *string }
	decoder := json.NewDecoder(strings.NewReader(c.Function.Arguments))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&arguments); err != nil {
		return fmt.Errorf("%w: %q", err, c.Function.Arguments)
	}
	if arguments.City == nil || (*arguments.City != "Oslo" && *arguments.City != "Rome") || c.ID == "" ||
		c.Type != "function" || !strings.Contains(names, c.Function.Name) {
		return fmt.Errorf("%+v", c)
	}
	return nil
}

func TestARequiredCallIsReturnedAsACall(t *testing.T) {
	f := startCalling(t, callingTemplate)
	for seed := 0; seed < 6; seed++ {
		for choice, names := range map[string]string{`"required"`: toolNames,
			`{"type":"function","function":{"name":"time"}}`: "time"} {
			var got callingAnswer
			f.post("/v1/chat/completions", fmt.Sprintf(`%s%s,"seed":%d,"parallel_tool_calls":false,"tool_choice":%s}`, asksForCall,
				callingTools, seed, choice), &got)
			message := got.Choices[0].Message
			if len(message.ToolCalls) != 1 || message.Content != nil || got.Choices[0].FinishReason != "tool_calls" {
				t.Fatalf("%s: %+v", choice, got)
			}
			if err := isCall(message.ToolCalls[0], names); err != nil {
				t.Error(choice, err)
			}
		}
	}
}

// chunks returns the decoded data of a stream's events.
func chunks[T any](t *testing.T, stream []byte) (all []T) {
	t.Helper()
	for _, line := range strings.Split(string(stream), "\n") {
		if data := strings.TrimPrefix(line, "data: "); strings.HasPrefix(data, "{") {
			var chunk T
			if err := json.Unmarshal([]byte(data), &chunk); err != nil {
				t.Fatal(err)
			}
			all = append(all, chunk)
		}
	}
	return all
}

func TestACallIsStreamedWhileItIsGenerated(t *testing.T) {
	f := startCalling(t, callingTemplate)
	body := asksForCall + callingTools + `,"temperature":0,"parallel_tool_calls":false,"tool_choice":"required"`
	var whole callingAnswer
	f.post("/v1/chat/completions", body+"}", &whole)
	_, stream := f.send("/v1/chat/completions", body+`,"stream":true}`)
	var joined called
	pieces, finish := 0, ""
	for _, chunk := range chunks[callingAnswer](t, stream) {
		finish = chunk.Choices[0].FinishReason
		for _, delta := range chunk.Choices[0].Delta.ToolCalls {
			if delta.Index == nil || *delta.Index != 0 || (delta.ID == "") != (pieces > 0) {
				t.Errorf("%+v", delta)
			}
			joined.ID += delta.ID
			joined.Type += delta.Type
			joined.Function.Name += delta.Function.Name
			joined.Function.Arguments += delta.Function.Arguments
			pieces++
		}
	}
	if err := isCall(joined, toolNames); err != nil || pieces < 3 || finish != "tool_calls" {
		t.Error(err, pieces, finish)
	}
	if joined.Function != whole.Choices[0].Message.ToolCalls[0].Function {
		t.Errorf("%+v, not %+v", joined, whole)
	}
}

func TestForbiddenToolsAreNotInThePrompt(t *testing.T) {
	f := startCalling(t, callingTemplate)
	var none, without, auto callingAnswer
	f.post("/v1/chat/completions", asksForCall+callingTools+`,"temperature":0,"tool_choice":"none"}`, &none)
	f.post("/v1/chat/completions", asksForCall+`null,"temperature":0}`, &without)
	f.post("/v1/chat/completions", asksForCall+callingTools+`,"temperature":0}`, &auto)
	if *none.Choices[0].Message.Content != *without.Choices[0].Message.Content || none.Usage != without.Usage ||
		auto.Usage.Prompt <= none.Usage.Prompt || len(none.Choices[0].Message.ToolCalls) > 0 {
		t.Errorf("%+v, %+v, %+v", none, without, auto)
	}
	if text := *without.Choices[0].Message.Content; strings.Contains(text, "<|") {
		t.Errorf("a special token is in the text: %q", text)
	}
}

func TestCallsHaveTheFormOfTheResponsesInterface(t *testing.T) {
	f := startCalling(t, callingTemplate)
	body := `{"model":"story","input":"How warm is it?","temperature":0,"max_output_tokens":400,"parallel_tool_calls":false,
		"tool_choice":{"type":"function","name":"weather"},"tools":[{"type":"function","name":"weather","parameters":
		{"type":"object","properties":{"city":{"enum":["Oslo","Rome"]}},"required":["city"],"additionalProperties":false}}]`
	type item struct {
		Type, Name, Arguments, Status string
		CallID                        string `json:"call_id"`
	}
	check := func(i item) {
		t.Helper()
		c := called{ID: i.CallID, Type: "function"}
		c.Function.Name, c.Function.Arguments = i.Name, i.Arguments
		if err := isCall(c, "weather"); err != nil || i.Type != "function_call" || i.Status != "completed" {
			t.Error(i, err)
		}
	}
	var whole struct {
		ID     string
		Status string
		Output []item
	}
	f.post("/v1/responses", body+"}", &whole)
	if len(whole.Output) != 1 || whole.Status != "completed" {
		t.Fatalf("%+v", whole)
	}
	check(whole.Output[0])
	_, stream := f.send("/v1/responses", body+`,"stream":true}`)
	deltas, done := "", 0
	for _, event := range chunks[struct {
		Type, Delta string
		Item        item
	}](t, stream) {
		switch event.Type {
		case "response.function_call_arguments.delta":
			deltas += event.Delta
		case "response.output_item.done":
			check(event.Item)
			done++
		}
	}
	if deltas != whole.Output[0].Arguments || done != 1 {
		t.Errorf("%q, not %q", deltas, whole.Output[0].Arguments)
	}
	var more struct {
		Usage struct {
			Input int `json:"input_tokens"`
		}
	}
	f.post("/v1/responses", fmt.Sprintf(`{"model":"story","previous_response_id":%q,"max_output_tokens":4,"input":[{"type":
		"function_call_output","call_id":%q,"output":"warm"}]}`, whole.ID, whole.Output[0].CallID), &more)
	if more.Usage.Input < 20 {
		t.Errorf("%+v", more)
	}
}

func TestACallThatIsCutOffIsIncomplete(t *testing.T) {
	f := startCalling(t, callingTemplate)
	var response struct {
		Status string
		Output []struct{ Type, Status string }
	}
	function := `"name":"say","parameters":{"type":"object","properties":{"word":{"enum":["` + strings.Repeat("a long word ", 40) +
		`"]}},"required":["word"],"additionalProperties":false}}`
	f.post("/v1/responses", `{"model":"story","input":"a","temperature":0,"max_output_tokens":80,"tool_choice":"required","tools":[
		{"type":"function",`+function+`]}`, &response)
	if response.Status != "incomplete" || len(response.Output) != 1 || response.Output[0].Status != "incomplete" ||
		response.Output[0].Type != "function_call" {
		t.Errorf("%+v", response)
	}
	var chat callingAnswer
	f.post("/v1/chat/completions", strings.Replace(asksForCall, "400", "80", 1)+`[{"type":"function","function":{`+function+
		`}],"temperature":0,"tool_choice":"required"}`, &chat)
	if choice := chat.Choices[0]; choice.FinishReason != "length" || len(choice.Message.ToolCalls) != 1 {
		t.Errorf("%+v", choice)
	}
}

func TestCallsHaveAnthropicsForm(t *testing.T) {
	f := startCalling(t, callingTemplate)
	body := `{"model":"story","max_tokens":400,"temperature":0,"messages":[{"role":"user","content":"How warm is it?"}],
		"tool_choice":{"type":"any","disable_parallel_tool_use":true},"tools":[{"name":"weather","input_schema":
		{"type":"object","properties":{"city":{"enum":["Oslo","Rome"]}},"required":["city"],"additionalProperties":false}}]`
	var whole struct {
		Content []struct {
			Type, ID, Name string
			Input          struct{ City string }
		}
		StopReason string `json:"stop_reason"`
	}
	f.post("/v1/messages", body+"}", &whole)
	if len(whole.Content) != 1 || whole.StopReason != "tool_use" || whole.Content[0].Type != "tool_use" ||
		whole.Content[0].ID == "" || whole.Content[0].Name != "weather" || len(whole.Content[0].Input.City) != 4 {
		t.Fatalf("%+v", whole)
	}
	_, stream := f.send("/v1/messages", body+`,"stream":true}`)
	arguments := ""
	for _, event := range chunks[struct {
		Delta struct {
			Arguments string `json:"partial_json"`
		}
	}](t, stream) {
		arguments += event.Delta.Arguments
	}
	var input struct{ City string }
	if err := json.Unmarshal([]byte(arguments), &input); err != nil || input != whole.Content[0].Input {
		t.Errorf("%v: %q", err, arguments)
	}
}

func TestReasoningBegunByThePromptIsReasoning(t *testing.T) {
	f := startCalling(t, thinkingTemplate)
	body := `{"model":"story","messages":[{"role":"user","content":"Why?"}],"temperature":0,"max_tokens":12,`
	var told, off callingAnswer
	f.post("/v1/chat/completions", body+`"reasoning_effort":"low"}`, &told)
	message := told.Choices[0].Message
	if message.ReasoningContent == "" || message.Reasoning != message.ReasoningContent || *message.Content != "" ||
		told.Usage.Details.Reasoning == 0 {
		t.Errorf("%+v", told)
	}
	f.post("/v1/chat/completions", body+`"reasoning_effort":"none"}`, &off)
	if off.Choices[0].Message.ReasoningContent != "" || off.Usage.Prompt >= told.Usage.Prompt {
		t.Errorf("%+v", off)
	}
	_, stream := f.send("/v1/chat/completions", body+`"reasoning_effort":"low","stream":true}`)
	streamed := ""
	for _, chunk := range chunks[callingAnswer](t, stream) {
		streamed += chunk.Choices[0].Delta.ReasoningContent
	}
	if streamed != message.ReasoningContent {
		t.Errorf("%q, not %q", streamed, message.ReasoningContent)
	}
	var thought struct {
		Content []struct{ Type, Thinking string }
	}
	f.post("/v1/messages", body+`"thinking":{"type":"enabled","budget_tokens":1024}}`, &thought)
	if len(thought.Content) != 1 || thought.Content[0].Type != "thinking" || thought.Content[0].Thinking == "" {
		t.Errorf("%+v", thought)
	}
}

// The template opens reasoning without a word that would show it.
const secretlyThinkingTemplate = callingTemplate + `{% if add_generation_prompt %}{{ '<th' ~ 'ink>' }}
{% endif %}`

func TestTheConfigurationDecidesWhetherAModelThinksAndNotItsDialect(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		template string
		thinks   *bool
		reasons  bool
	}{"a dialect alone": {secretlyThinkingTemplate, nil, false}, "configured": {secretlyThinkingTemplate, &yes, true},
		"by its template": {thinkingTemplate, nil, true}, "against its template": {thinkingTemplate, &no, false}} {
		path := filepath.Join(t.TempDir(), "template.jinja")
		if err := os.WriteFile(path, []byte(c.template), 0o600); err != nil {
			t.Fatal(err)
		}
		f := start(t, func(config *server.Config) {
			config.Models["story"] = server.ModelConfig{Path: modelPath(t), CacheTokens: 2048, ChatTemplate: path, Dialect: "hermes",
				Thinks: c.thinks}
		})
		var got callingAnswer
		f.post("/v1/chat/completions", `{"model":"story","messages":[{"role":"user","content":"Why?"}],"temperature":0,
			"max_tokens":12,"reasoning_effort":"low"}`, &got)
		if reasoned := got.Choices[0].Message.ReasoningContent != ""; reasoned != c.reasons {
			t.Errorf("%s: %+v", name, got.Choices[0].Message)
		}
	}
}

func TestAMarkInAMessageBeginsNoReasoning(t *testing.T) {
	f := startCalling(t, thinkingTemplate)
	var got callingAnswer
	f.post("/v1/chat/completions", `{"model":"story","messages":[{"role":"user","content":"Say <think>"}],"temperature":0,
		"max_tokens":12,"reasoning_effort":"none"}`, &got)
	if message := got.Choices[0].Message; message.ReasoningContent != "" || *message.Content == "" {
		t.Errorf("%+v", message)
	}
}

func TestReasoningEndsAfterItsBudget(t *testing.T) {
	f := startCalling(t, thinkingTemplate)
	body := `{"model":"story","messages":[{"role":"user","content":"Why?"}],"temperature":0,"max_tokens":60,`
	for _, budget := range []int{0, 3} {
		var got callingAnswer
		f.post("/v1/chat/completions", fmt.Sprintf(`%s"ignore_eos":true,"reasoning_effort":"low","reasoning_budget":%d}`, body,
			budget), &got)
		message := got.Choices[0].Message
		thought := strings.TrimSpace(message.ReasoningContent)
		if (thought == "") != (budget == 0) || len(thought) > 40 || *message.Content == "" ||
			strings.Contains(*message.Content, "think>") {
			t.Errorf("%d: %q, %q", budget, thought, *message.Content)
		}
	}
	var said struct {
		Content []struct{ Type, Thinking, Text string }
	}
	f.post("/v1/messages", body+`"thinking":{"type":"enabled","budget_tokens":2}}`, &said)
	if len(said.Content) != 2 || len(said.Content[0].Thinking) > 40 || said.Content[1].Type != "text" {
		t.Errorf("%+v", said)
	}
	f.refused("/v1/messages", body+`"thinking":{"type":"enabled","budget_tokens":-1}}`, http.StatusBadRequest)
}

func TestAResponseFormatHoldsTogetherWithTools(t *testing.T) {
	f := startCalling(t, thinkingTemplate)
	for seed := 0; seed < 6; seed++ {
		var got callingAnswer
		f.post("/v1/chat/completions", fmt.Sprintf(`%s%s,"seed":%d,"response_format":{"type":"json_schema","json_schema":{"name":"x",
			"schema":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false}}}}`,
			asksForCall, callingTools, seed), &got)
		choice := got.Choices[0]
		if choice.FinishReason == "length" {
			continue // it reasons, or calls without end
		}
		for _, call := range choice.Message.ToolCalls {
			if err := isCall(call, toolNames); err != nil {
				t.Error(err)
			}
		}
		var said struct{ A *bool }
		if len(choice.Message.ToolCalls) == 0 && (json.Unmarshal([]byte(*choice.Message.Content), &said) != nil || said.A == nil) {
			t.Errorf("%q", *choice.Message.Content)
		}
	}
}

func TestImpossibleToolChoicesAreRefusedByName(t *testing.T) {
	f := startCalling(t, callingTemplate)
	for body, param := range map[string]string{
		`null,"tool_choice":"required"}`:                                                "tool_choice",
		callingTools + `,"tool_choice":{"type":"function","function":{"name":"sing"}}}`: "tool_choice",
		callingTools + `,"tool_choice":"sometimes"}`:                                    "tool_choice",
		callingTools + `,"tool_choice":"required","grammar":"root ::= \"a\""}`:          "grammar",
		`{"name":"a"}}`: "tools",
		`[{"type":"function","function":{"name":"a","parameters":{"$ref":"http://a"}}}],"tool_choice":"required"}`: "tools",
		`null,"reasoning_budget":-5}`: "reasoning_budget",
	} {
		if got, _ := f.refused("/v1/chat/completions", asksForCall+body, http.StatusBadRequest); got != param {
			t.Errorf("%s: %q, not %q", body, got, param)
		}
	}
	wrong := start(t, func(c *server.Config) {
		c.Models["story"] = server.ModelConfig{Path: modelPath(t), Dialect: "nobody's"}
	})
	wrong.refused("/v1/completions", `{"model":"story","prompt":"a"}`, http.StatusServiceUnavailable)
	if !strings.Contains(wrong.log.String(), "nobody's") {
		t.Error(wrong.log.String())
	}
}
