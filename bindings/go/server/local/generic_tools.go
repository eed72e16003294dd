package local

import (
	"encoding/json"
	"strings"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// The generic form of calls, for templates that write no tools and for models whose dialect is unknown: a system message
// describes the tools, and calls are written in a dialect that every tokenizer can spell. Answers are constrained, since
// the model was not trained to it.

const genericDialect = "hermes"

// isGeneric reports whether the calls of an answer have the generic form.
func (m *model) isGeneric(g *server.Generation) bool {
	return wantsCalls(g) && (!m.writesTools || m.dialect == plainDialect)
}

// dialectFor returns the dialect of an answer. A text that continues no conversation has none.
func (m *model) dialectFor(g *server.Generation) string {
	if g.Messages == nil {
		return plainDialect
	}
	if m.dialect == plainDialect && wantsCalls(g) {
		return genericDialect
	}
	return m.dialect
}

const probedTool = "quire_probed_tool"

// templateWritesTools renders a tool to find out whether the template writes it. If the template refuses the
// conversation, its source decides.
func (m *model) templateWritesTools(config server.ModelConfig) bool {
	text, err := m.model.RenderChat(quire.Request{ChatTemplate: m.template,
		Parts: []quire.PromptPart{{Messages: `[{"role":"user","content":"a"}]`}},
		Tools: `[{"type":"function","function":{"name":"` + probedTool + `","description":"` + probedTool + `",` +
			`"parameters":{"type":"object","properties":{}}}}]`})
	if err != nil {
		return strings.Contains(templateSource(config), "tools")
	}
	return strings.Contains(text, probedTool)
}

// messages returns the messages of a prompt, with its tools if the template does not write them.
func (m *model) messages(prompt *server.Prompt) (json.RawMessage, error) {
	if prompt.Tools == nil || m.writesTools && m.dialect != plainDialect {
		return prompt.Messages, nil
	}
	var messages []map[string]json.RawMessage
	var tools []struct {
		Function json.RawMessage `json:"function"`
	}
	if json.Unmarshal(prompt.Messages, &messages) != nil || json.Unmarshal(prompt.Tools, &tools) != nil {
		return prompt.Messages, nil // the library reports the fault
	}
	var text strings.Builder
	text.WriteString("You can call these functions:\n")
	for _, tool := range tools {
		text.Write(tool.Function)
		text.WriteByte('\n')
	}
	if m.dialect == plainDialect || m.dialect == genericDialect {
		text.WriteString("To call a function, answer with its name and its arguments:\n" +
			"<tool_call>\n{\"name\": \"NAME\", \"arguments\": {...}}\n</tool_call>")
		for _, message := range messages {
			spellCalls(message)
		}
	}
	return json.Marshal(withSystemText(messages, strings.TrimSpace(text.String())))
}

// withSystemText adds a text to the system message at the beginning, or adds such a message.
func withSystemText(messages []map[string]json.RawMessage, text string) []map[string]json.RawMessage {
	quoted, _ := json.Marshal(text)
	if len(messages) > 0 && (string(messages[0]["role"]) == `"system"` || string(messages[0]["role"]) == `"developer"`) {
		var before string
		var parts []json.RawMessage
		switch content := messages[0]["content"]; {
		case json.Unmarshal(content, &before) == nil:
			messages[0]["content"], _ = json.Marshal(strings.TrimSpace(before + "\n\n" + text))
			return messages
		case json.Unmarshal(content, &parts) == nil:
			part, _ := json.Marshal(map[string]interface{}{"type": "text", "text": "\n\n" + text})
			messages[0]["content"], _ = json.Marshal(append(parts, part))
			return messages
		}
	}
	system := map[string]json.RawMessage{"role": json.RawMessage(`"system"`), "content": quoted}
	return append([]map[string]json.RawMessage{system}, messages...)
}

// spellCalls turns the calls of an earlier answer into text, as the model is to write them. A message that has another
// form is left to the library.
func spellCalls(message map[string]json.RawMessage) {
	var calls []struct {
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	}
	var content string
	if json.Unmarshal(message["tool_calls"], &calls) != nil || len(calls) == 0 {
		return
	}
	if given := message["content"]; given != nil && json.Unmarshal(given, &content) != nil {
		return
	}
	lines := []string{}
	if content != "" {
		lines = append(lines, content)
	}
	for _, call := range calls {
		arguments := call.Function.Arguments
		var asText string
		if json.Unmarshal(arguments, &asText) == nil {
			arguments = json.RawMessage(asText)
		}
		if len(arguments) == 0 {
			arguments = json.RawMessage("{}")
		}
		if !json.Valid(arguments) {
			return
		}
		name, _ := json.Marshal(call.Function.Name)
		lines = append(lines, "<tool_call>\n{\"name\": "+string(name)+", \"arguments\": "+string(arguments)+"}\n</tool_call>")
	}
	message["content"], _ = json.Marshal(strings.Join(lines, "\n"))
	delete(message, "tool_calls")
}
