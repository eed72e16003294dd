package server

import (
	"encoding/json"
	"strings"
)

// chatMessage is a message in OpenAI's chat format, as templates expect it.
type chatMessage struct {
	Role       string      `json:"role"`
	Content    interface{} `json:"content,omitempty"`
	Reasoning  string      `json:"reasoning_content,omitempty"`
	ToolCalls  []toolCall  `json:"tool_calls,omitempty"`
	ToolCallID string      `json:"tool_call_id,omitempty"`
	Name       string      `json:"name,omitempty"`
}

// messagesOfItems converts items to messages. The template decides whether reasoning of earlier turns is kept.
func messagesOfItems(items []item) ([]chatMessage, error) {
	var messages []chatMessage
	for i := range items {
		var fields itemFields
		if err := json.Unmarshal(items[i].text, &fields); err != nil {
			return nil, err
		}
		switch fields.Type {
		case "message":
			messages = append(messages, chatMessage{Role: fields.Role, Content: contentOf(fields.Content)})
		case "function_call":
			messages = appendCall(messages, toolCall{ID: fields.CallID, Type: "function",
				Function: functionBody{fields.Name, fields.Arguments}})
		case "function_call_output":
			messages = append(messages, chatMessage{Role: "tool", ToolCallID: fields.CallID, Content: contentOf(fields.Output)})
		case "reasoning":
			if reasoning := joinedText(fields.Content); reasoning != "" {
				messages = append(messages, chatMessage{Role: "assistant", Reasoning: reasoning})
			}
		}
	}
	return joined(messages), nil
}

// appendCall adds a call to the assistant message before it, or as a message of its own.
func appendCall(messages []chatMessage, call toolCall) []chatMessage {
	if last := len(messages) - 1; last >= 0 && messages[last].Role == "assistant" {
		messages[last].ToolCalls = append(messages[last].ToolCalls, call)
		return messages
	}
	return append(messages, chatMessage{Role: "assistant", ToolCalls: []toolCall{call}})
}

// joined moves reasoning into the assistant message after it.
func joined(messages []chatMessage) []chatMessage {
	var out []chatMessage
	for _, message := range messages {
		last := len(out) - 1
		if last >= 0 && message.Role == "assistant" && out[last].Role == "assistant" && out[last].Content == nil &&
			len(out[last].ToolCalls) == 0 {
			message.Reasoning = out[last].Reasoning
			out[last] = message
			continue
		}
		out = append(out, message)
	}
	return out
}

// contentOf returns a content of one text as that text, and any other as it is: the library gives it the form
// that the template needs. The result is empty if there is none.
func contentOf(content json.RawMessage) interface{} {
	if isAbsent(content) {
		return ""
	}
	var parts []struct {
		Text *string `json:"text"`
	}
	if json.Unmarshal(content, &parts) == nil {
		switch {
		case len(parts) == 0:
			return ""
		case len(parts) == 1 && parts[0].Text != nil:
			return *parts[0].Text
		}
	}
	return content
}

// joinedText returns the joined texts of the parts of an item.
func joinedText(content json.RawMessage) string {
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(content, &parts)
	var out strings.Builder
	for _, part := range parts {
		out.WriteString(part.Text)
	}
	return out.String()
}

// responsesTool is a function in the flat form of this interface.
type responsesTool struct {
	Type           string          `json:"type"`
	Name           string          `json:"name"`
	Description    json.RawMessage `json:"description"`
	Parameters     json.RawMessage `json:"parameters"`
	Strict         json.RawMessage `json:"strict"`
	AllowedCallers []string        `json:"allowed_callers"`
}

// chatTool is a tool in the form of chat completions.
func (t *responsesTool) chatTool() map[string]interface{} {
	function := map[string]interface{}{"name": t.Name}
	for field, value := range map[string]json.RawMessage{"description": t.Description, "parameters": t.Parameters,
		"strict": t.Strict} {
		if !isAbsent(value) {
			function[field] = value
		}
	}
	return map[string]interface{}{"type": "function", "function": function}
}

// toolsOf reads tools. Tools that the server would have to run are refused.
func toolsOf(tools json.RawMessage) ([]responsesTool, error) {
	if isAbsent(tools) {
		return nil, nil
	}
	var list []responsesTool
	if json.Unmarshal(tools, &list) != nil {
		return nil, invalid("tools", "tools must be a list of functions")
	}
	for i, tool := range list {
		if tool.Type != "function" {
			return nil, invalid("tools", "tools[%d] is of the type %q; only functions are supported", i, tool.Type)
		}
		if tool.AllowedCallers != nil && !isListed("direct", tool.AllowedCallers) {
			return nil, invalid("tools", "tools[%d].allowed_callers must contain direct: only the model calls tools", i)
		}
	}
	return list, nil
}

// chatToolsOf returns the tools in the form of chat completions; nil if there are none.
func chatToolsOf(tools []responsesTool) (json.RawMessage, error) {
	if len(tools) == 0 {
		return nil, nil
	}
	out := make([]map[string]interface{}, len(tools))
	for i := range tools {
		out[i] = tools[i].chatTool()
	}
	return json.Marshal(out)
}

func isListed(text string, list []string) bool {
	for _, each := range list {
		if each == text {
			return true
		}
	}
	return false
}
