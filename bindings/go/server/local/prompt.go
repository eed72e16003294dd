package local

import (
	"encoding/json"
	"strings"

	"quire.dev/quire/server"
)

// promptTokens are the tokens of a prompt: as they are, of its text, or of the conversation as the model's template
// writes it. Special tokens of a conversation come from the template alone.
func (m *model) promptTokens(prompt *server.Prompt) ([]int32, error) {
	switch {
	case prompt.Messages != nil:
		return m.conversationTokens(prompt)
	case prompt.Tokens != nil:
		return prompt.Tokens, nil
	}
	tokens, err := m.model.Encode(prompt.Text, true, false)
	return tokens, refusal("prompt", err)
}

func (m *model) conversationTokens(prompt *server.Prompt) ([]int32, error) {
	if m.template == nil {
		return nil, invalid("messages", "the model %q has no chat template; name one in the configuration, or use "+
			"/v1/completions", m.name)
	}
	text, err := conversation(prompt)
	if err != nil {
		return nil, err
	}
	tokens, err := m.template.Tokens(m.model, text)
	return tokens, refusal("messages", err)
}

// conversation is the input of the template.
func conversation(prompt *server.Prompt) (string, error) {
	input := map[string]json.RawMessage{}
	if prompt.TemplateArgs != nil && json.Unmarshal(prompt.TemplateArgs, &input) != nil {
		return "", invalid("chat_template_kwargs", "chat_template_kwargs must be an object")
	}
	messages, err := templateMessages(prompt.Messages)
	if err != nil {
		return "", err
	}
	input["messages"] = messages
	if prompt.Tools != nil {
		input["tools"] = prompt.Tools
	}
	if prompt.ContinueFinal {
		input["continue_final_message"] = json.RawMessage("true")
	}
	setThinking(input, prompt.ReasoningEffort)
	if _, says := input["continue_final_message"]; !says {
		if _, says := input["add_generation_prompt"]; !says {
			input["add_generation_prompt"] = json.RawMessage("true")
		}
	}
	text, err := json.Marshal(input)
	return string(text), err
}

// setThinking tells the template how much the model is to think, by the names that templates have for it. What the client
// says to the template itself stays.
func setThinking(input map[string]json.RawMessage, effort string) {
	if effort == "" {
		return
	}
	set := func(name string, value interface{}) {
		if _, says := input[name]; !says {
			input[name], _ = json.Marshal(value)
		}
	}
	set("enable_thinking", effort != "none")
	set("thinking", effort != "none")
	if effort != "none" {
		set("reasoning_effort", effort)
	}
}

// templateMessages puts messages into the form that templates expect: contents are texts, the arguments of calls
// are the objects that they are, not texts of them, and reasoning has one of its two names.
func templateMessages(text json.RawMessage) (json.RawMessage, error) {
	var messages []map[string]json.RawMessage
	if err := json.Unmarshal(text, &messages); err != nil {
		return nil, invalid("messages", "messages must be a list of objects")
	}
	for i, message := range messages {
		var role string
		if json.Unmarshal(message["role"], &role) != nil || role == "" {
			return nil, invalid("messages", "messages[%d].role is missing", i)
		}
		content, err := joinedParts(message["content"])
		if err != nil {
			return nil, invalid("messages", "messages[%d].content: %v", i, err)
		}
		if content != nil {
			message["content"] = content
		}
		if _, says := message["reasoning_content"]; !says && message["reasoning"] != nil {
			message["reasoning_content"] = message["reasoning"]
		}
		delete(message, "reasoning")
		if calls := message["tool_calls"]; calls != nil {
			message["tool_calls"] = withObjects(calls)
		}
	}
	return json.Marshal(messages)
}

// joinedParts is the text of a list of parts; nil where the content is no list.
func joinedParts(content json.RawMessage) (json.RawMessage, error) {
	if len(content) == 0 || content[0] != '[' {
		return nil, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return nil, invalid("", "a part must be an object with its type and text")
	}
	var texts []string
	for _, part := range parts {
		if part.Type != "text" && part.Type != "refusal" {
			return nil, invalid("", "a part of the type %q is not supported; this model reads text", part.Type)
		}
		texts = append(texts, part.Text)
	}
	return json.Marshal(strings.Join(texts, "\n"))
}

// withObjects turns the arguments of calls from texts into objects, where they are such.
func withObjects(calls json.RawMessage) json.RawMessage {
	var list []map[string]json.RawMessage
	if json.Unmarshal(calls, &list) != nil {
		return calls
	}
	for _, call := range list {
		var function map[string]json.RawMessage
		var arguments string
		if json.Unmarshal(call["function"], &function) != nil || function == nil ||
			json.Unmarshal(function["arguments"], &arguments) != nil {
			continue
		}
		if trimmed := strings.TrimSpace(arguments); strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) {
			function["arguments"] = json.RawMessage(trimmed)
			call["function"], _ = json.Marshal(function)
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return calls
	}
	return text
}
