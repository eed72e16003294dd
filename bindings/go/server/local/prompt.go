package local

import (
	"encoding/json"
	"strings"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// fillPrompt sets the prompt of a request: tokens, a text, or a conversation, which the model's template
// renders at submit. Special tokens of a conversation come only from the template.
func (m *model) fillPrompt(request *quire.Request, prompt *server.Prompt) error {
	request.Prompt, request.Tokens = prompt.Text, prompt.Tokens
	if prompt.Messages == nil {
		return nil
	}
	if m.template == nil {
		return invalid("messages", "the model %q has no chat template; set one in the configuration, or use "+
			"/v1/completions", m.name)
	}
	messages, err := templateMessages(prompt.Messages)
	if err != nil {
		return err
	}
	request.Parts = []quire.PromptPart{{Messages: string(messages)}}
	request.Tools, request.ChatTemplate = string(prompt.Tools), m.template
	request.TemplateArguments, err = templateArguments(prompt)
	return err
}

// promptTokens returns the tokens of a prompt.
func (m *model) promptTokens(prompt *server.Prompt) ([]int32, error) {
	var request quire.Request
	if err := m.fillPrompt(&request, prompt); err != nil {
		return nil, err
	}
	tokens, err := m.model.RenderChatTokens(request)
	return tokens, refusal(promptField(prompt), err)
}

func promptField(prompt *server.Prompt) string {
	if prompt.Messages != nil {
		return "messages"
	}
	return "prompt"
}

// templateArguments returns the template's variables other than messages and tools.
func templateArguments(prompt *server.Prompt) (string, error) {
	arguments := map[string]json.RawMessage{}
	if prompt.TemplateArgs != nil && json.Unmarshal(prompt.TemplateArgs, &arguments) != nil {
		return "", invalid("chat_template_kwargs", "chat_template_kwargs must be an object")
	}
	for _, own := range []string{"messages", "tools"} {
		delete(arguments, own)
	}
	if prompt.ContinueFinal {
		arguments["continue_final_message"] = json.RawMessage("true")
	}
	setThinking(arguments, prompt.ReasoningEffort)
	if len(arguments) == 0 {
		return "", nil
	}
	text, err := json.Marshal(arguments)
	return string(text), err
}

// setThinking sets the amount of reasoning, by the names that templates use for it. Variables set by the
// client stay.
func setThinking(input map[string]json.RawMessage, effort string) {
	if effort == "" {
		return
	}
	set := func(name string, value interface{}) {
		if _, exists := input[name]; !exists {
			input[name], _ = json.Marshal(value)
		}
	}
	set("enable_thinking", effort != "none")
	set("thinking", effort != "none")
	if effort != "none" {
		set("reasoning_effort", effort)
	}
}

// templateMessages converts messages to the form that the library expects: each content is a text, and
// reasoning has one of two possible names.
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
		if _, exists := message["reasoning_content"]; !exists && message["reasoning"] != nil {
			message["reasoning_content"] = message["reasoning"]
		}
		delete(message, "reasoning")
	}
	return json.Marshal(messages)
}

// joinedParts returns the text of a list of parts; nil if the content is no list.
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
