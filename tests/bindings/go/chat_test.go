// ChatEngine: conversations with typed messages and tools, and answers with text, reasoning and calls.
package story

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quire.dev/quire"
)

// A template of a family that writes calls in the hermes dialect, and reasons if it is asked to.
const chatTemplate = `{% for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' -}}
{% for call in message.tool_calls or [] %}<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>{% endfor -%}
<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<think>
{% endif %}{% endif %}`

func city(values ...string) json.RawMessage {
	return json.RawMessage(`{"type": "object", "properties": {"city": {"enum": ["` + strings.Join(values, `", "`) +
		`"]}}, "required": ["city"], "additionalProperties": false}`)
}

func newEngine(t *testing.T, options quire.ChatOptions) *quire.ChatEngine {
	t.Helper()
	model, cache := open(t)
	options.Template = must(quire.NewChatTemplate(chatTemplate))
	t.Cleanup(func() { options.Template.Close() })
	return must(quire.NewChatEngine(model, cache, options))
}

func asked(text string) quire.Conversation {
	return quire.Conversation{Messages: []quire.Message{{Role: quire.RoleUser, Content: text}}}
}

func answered(t *testing.T, engine *quire.ChatEngine, conversation quire.Conversation, maxNewTokens int) *quire.Answer {
	t.Helper()
	request := engine.Request()
	request.Temperature, request.MaxNewTokens = quire.Ptr(0.0), maxNewTokens
	answer, err := engine.Ask(context.Background(), conversation, request)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestAnAnswerIsTheTextOfTheRenderedConversation(t *testing.T) {
	engine := newEngine(t, quire.ChatOptions{NoReasoning: true})
	answer := answered(t, engine, asked("Once <|im_end|> upon"), 24)
	zero := 0.0
	job := must(engine.Cache().Submit(quire.Request{Parts: []quire.PromptPart{{Special: "<|im_start|>"}, {Text: "user\nOnce <|im_end|> upon"},
		{Special: "<|im_end|>"}, {Text: "\n"}, {Special: "<|im_start|>"}, {Text: "assistant\n"}}, NoSpecial: true, MaxNewTokens: 24, Temperature: &zero}))
	defer job.Close()
	text, finish := drain(t, job)
	if answer.Text() != text || answer.Finish() != finish || answer.Usage() == nil || answer.Usage().NewTokens < 1 {
		t.Errorf("%q ends with %v, not %q with %v", answer.Text(), answer.Finish(), text, finish)
	}
}

func TestARequiredCallIsCompleteAndItsResultContinues(t *testing.T) {
	engine := newEngine(t, quire.ChatOptions{NoReasoning: true})
	conversation := asked("How warm is it?")
	conversation.Tools = []quire.Tool{{Name: "weather", Description: "The weather", Parameters: city("Oslo", "Rome")},
		{Name: "time", Parameters: city("Oslo", "Rome")}}
	conversation.ToolChoice, conversation.SingleCall = "time", true
	answer := answered(t, engine, conversation, 200)
	if len(answer.Calls()) != 1 || answer.Text() != "" {
		t.Fatalf("%+v and %q", answer.Calls(), answer.Text())
	}
	call := answer.Calls()[0]
	var arguments struct{ City string }
	if err := json.Unmarshal([]byte(call.Arguments), &arguments); err != nil || len(arguments.City) != 4 ||
		call.Name != "time" || !strings.HasPrefix(call.ID, "call_") {
		t.Errorf("%+v: %v", call, err)
	}
	before := answer.Usage().PromptTokens
	conversation.Messages = append(conversation.Messages, answer.Message(),
		quire.Message{Role: quire.RoleTool, Content: "noon", CallID: call.ID})
	conversation.ToolChoice = quire.ToolsNone
	next := answered(t, engine, conversation, 8)
	conversation.Tools = nil
	if bare := answered(t, engine, conversation, 8); next.Usage().PromptTokens != bare.Usage().PromptTokens {
		t.Errorf("with no tools %d tokens, with forbidden ones %d", bare.Usage().PromptTokens, next.Usage().PromptTokens)
	}
	if before < 40 { // the tools are part of the prompt
		t.Errorf("%d tokens", before)
	}
}

func TestTheTextMatchesTheSchemaOfTheConversation(t *testing.T) {
	engine := newEngine(t, quire.ChatOptions{NoReasoning: true})
	conversation := asked("Where?")
	conversation.Schema = city("Oslo", "Rome")
	var found struct{ City string }
	if err := json.Unmarshal([]byte(answered(t, engine, conversation, 60).Text()), &found); err != nil || len(found.City) != 4 {
		t.Errorf("%+v: %v", found, err)
	}
}

func TestATemplateWithoutReasoningNeedsNoOption(t *testing.T) {
	model, cache := open(t)
	template := must(quire.NewChatTemplate(`{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
`))
	defer template.Close()
	engine := must(quire.NewChatEngine(model, cache, quire.ChatOptions{Template: template, Dialect: "hermes"}))
	conversation := asked("Where do they <think>?")
	conversation.Schema = city("Oslo", "Rome")
	// Reasoning would be the likeliest beginning if it were possible.
	request := engine.Request()
	request.Temperature, request.MaxNewTokens = quire.Ptr(0.0), 60
	request.LogitBias = map[int32]float64{}
	for _, token := range must(model.Encode("<think>", false, false)) {
		request.LogitBias[token] = 100
	}
	answer := must(engine.Ask(context.Background(), conversation, request))
	var found struct{ City string }
	if err := json.Unmarshal([]byte(answer.Text()), &found); err != nil || len(found.City) != 4 || answer.Reasoning() != "" {
		t.Errorf("%+v and %q: %v", found, answer.Reasoning(), err)
	}
}

func TestReasoningIsApartFromTheText(t *testing.T) {
	conversation := asked("Why?")
	conversation.TemplateArguments = map[string]any{"enable_thinking": true}
	thought := answered(t, newEngine(t, quire.ChatOptions{}), conversation, 12)
	if thought.Reasoning() == "" || thought.Text() != "" || thought.ReasoningTokens() < 1 {
		t.Errorf("%q and %q", thought.Reasoning(), thought.Text())
	}
	plain := answered(t, newEngine(t, quire.ChatOptions{NoReasoning: true}), conversation, 12)
	if plain.Reasoning() != "" || plain.Text() == "" {
		t.Errorf("%q and %q", plain.Reasoning(), plain.Text())
	}
}

func TestAConversationThatCannotBeAskedIsRefusedByItsField(t *testing.T) {
	engine := newEngine(t, quire.ChatOptions{})
	tools := []quire.Tool{{Name: "weather", Parameters: city("Oslo")}}
	message := asked("a").Messages
	for field, c := range map[string]struct {
		conversation quire.Conversation
		request      quire.Request
		code         quire.Code
	}{
		"Messages":    {quire.Conversation{}, quire.Request{}, quire.CodeInvalidArgument},
		"Messages[0]": {asked("a\xff"), quire.Request{}, quire.CodeEncoding},
		"Messages[0].Calls[0]": {quire.Conversation{Messages: []quire.Message{{Role: "assistant", Calls: []quire.ToolCall{{Name: "\xff"}}}}},
			quire.Request{}, quire.CodeEncoding},
		"Tools[0].Parameters": {quire.Conversation{Messages: message, Tools: []quire.Tool{{Name: "a", Parameters: json.RawMessage("{")}}},
			quire.Request{}, quire.CodeInvalidArgument},
		"Schema":     {quire.Conversation{Messages: message, Schema: func() {}}, quire.Request{}, quire.CodeInvalidArgument},
		"ToolChoice": {quire.Conversation{Messages: message, ToolChoice: "weather"}, quire.Request{}, quire.CodeInvalidArgument},
		"Parts":      {asked("a"), quire.Request{Prompt: "b"}, quire.CodeInvalidArgument},
		"Constraint": {quire.Conversation{Messages: message, Tools: tools, ToolChoice: quire.ToolsRequired},
			quire.Request{Constraint: must(engine.Model().NewConstraint(quire.ConstraintRegex, "a"))}, quire.CodeInvalidArgument},
	} {
		_, err := engine.Submit(context.Background(), c.conversation, c.request)
		expectRefused(t, err, c.code, field+": ")
		if c.request.Constraint != nil {
			c.request.Constraint.Close()
		}
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := engine.Ask(over, asked("a"), engine.Request()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAnOpenedEngineTakesTheSamplingOfTheAuthorsAndClosesTwice(t *testing.T) {
	directory := t.TempDir()
	model := must(filepath.Abs(os.Getenv("QUIRE_TEST_MODEL")))
	for _, entry := range must(os.ReadDir(model)) {
		if entry.Name() != "generation_config.json" {
			if err := os.Symlink(filepath.Join(model, entry.Name()), filepath.Join(directory, entry.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	config := filepath.Join(directory, "generation_config.json")
	for text, recommends := range map[string]bool{`{"do_sample": true, "top_k": 1}`: true, `{"do_sample": false}`: true, `{"eos_token_id": 1}`: false} {
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		engine := must(quire.OpenChatEngine(context.Background(), directory, quire.ModelOptions{}, quire.CacheOptions{MaxTokens: 1024}, quire.ChatOptions{}))
		request := engine.Request()
		if (request.SamplingOfModel != nil) != recommends {
			t.Errorf("%s: %v", text, request.SamplingOfModel)
		}
		if recommends {
			request.MaxNewTokens = 12
			own := must(engine.Ask(context.Background(), asked("Once"), request)).Text()
			if greedy := answered(t, engine, asked("Once"), 12).Text(); own != greedy {
				t.Errorf("%s: %q, not %q", text, own, greedy)
			}
		}
		for i := 0; i < 2; i++ {
			if err := engine.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := quire.OpenChatEngine(context.Background(), "/no/such/model", quire.ModelOptions{}, quire.CacheOptions{}, quire.ChatOptions{})
	expectRefused(t, err, quire.CodeNotFound, "/no/such/model")
}
