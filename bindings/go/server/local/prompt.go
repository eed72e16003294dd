package local

import (
	"encoding/json"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// fillPrompt sets the prompt of a request: tokens, a text, or a conversation, which the model's template
// renders at submit. Special tokens of a conversation come only from the template.
func (m *model) fillPrompt(request *quire.Request, prompt *server.Prompt) error {
	request.Prompt, request.Tokens, request.NoSpecial = prompt.Text, prompt.Tokens, prompt.NoSpecial
	if prompt.Messages == nil {
		return nil
	}
	if prompt.Rendered != nil {
		request.Tokens, request.Tools = prompt.Rendered, string(prompt.Tools)
		return nil
	}
	if m.template == nil {
		return invalid("messages", "the model %q has no chat template; set one in the configuration, or use "+
			"/v1/completions", m.name)
	}
	messages, err := m.messages(prompt)
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
	if prompt.Rendered != nil {
		return prompt.Rendered, nil
	}
	var request quire.Request
	if err := m.fillPrompt(&request, prompt); err != nil {
		return nil, err
	}
	tokens, err := m.model.RenderChatTokens(request)
	return tokens, refusal(promptField(prompt), err)
}

// promptChanges returns the changes of a conversation as a JSON list.
func (m *model) promptChanges(prompt *server.Prompt) (json.RawMessage, error) {
	var request quire.Request
	if err := m.fillPrompt(&request, prompt); err != nil {
		return nil, err
	}
	changes, err := m.model.RenderChatChanges(request)
	return json.RawMessage(changes), refusal(promptField(prompt), err)
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
	if prompt.NoGenerationPrompt {
		arguments["add_generation_prompt"] = json.RawMessage("false")
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
