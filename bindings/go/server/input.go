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

// inputItem is any item of `input`: a message, a call, its output, or reasoning.
type inputItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

// messagesOfInput converts items to messages. The template decides whether reasoning of earlier turns is
// kept.
func messagesOfInput(input json.RawMessage) ([]chatMessage, error) {
	var text string
	if json.Unmarshal(input, &text) == nil {
		return []chatMessage{{Role: "user", Content: text}}, nil
	}
	var items []inputItem
	if err := json.Unmarshal(input, &items); err != nil {
		return nil, invalid("input", "input must be a text or a list of items: %v", err)
	}
	var messages []chatMessage
	for i, item := range items {
		switch item.Type {
		case "", "message":
			messages = append(messages, chatMessage{Role: item.Role, Content: contentOf(item.Content)})
		case "function_call":
			messages = appendCall(messages, toolCall{ID: item.CallID, Type: "function",
				Function: functionBody{item.Name, item.Arguments}})
		case "function_call_output":
			messages = append(messages, chatMessage{Role: "tool", ToolCallID: item.CallID, Content: contentOf(item.Output)})
		case "reasoning":
			if reasoning := joinedText(item.Content); reasoning != "" {
				messages = append(messages, chatMessage{Role: "assistant", Reasoning: reasoning})
			}
		default:
			return nil, invalid("input", "input[%d] is of the type %q, which is not supported", i, item.Type)
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

// contentOf returns a content as it is: the library gives it the form that the template needs. The result is
// empty if there is none.
func contentOf(content json.RawMessage) interface{} {
	if isAbsent(content) {
		return ""
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

// chatTools converts the flat tools of this interface to those of chat completions. Tools that the server
// would have to run are refused.
func chatTools(tools json.RawMessage) (json.RawMessage, error) {
	if isAbsent(tools) {
		return nil, nil
	}
	var list []map[string]json.RawMessage
	if json.Unmarshal(tools, &list) != nil {
		return nil, invalid("tools", "tools must be a list")
	}
	out := []map[string]interface{}{}
	for i, tool := range list {
		var kind string
		_ = json.Unmarshal(tool["type"], &kind)
		if kind != "function" {
			return nil, invalid("tools", "tools[%d] is of the type %q; only functions are supported", i, kind)
		}
		function := map[string]json.RawMessage{}
		for _, field := range []string{"name", "description", "parameters", "strict"} {
			if value, has := tool[field]; has && !isAbsent(value) {
				function[field] = value
			}
		}
		out = append(out, map[string]interface{}{"type": "function", "function": function})
	}
	if len(out) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(out)
	return text, err
}

// chatFormat converts text.format to response_format.
func chatFormat(format json.RawMessage) json.RawMessage {
	if isAbsent(format) {
		return nil
	}
	var flat struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(format, &flat) != nil || flat.Type == "text" {
		return nil
	}
	if flat.Type != "json_schema" {
		return format
	}
	text, _ := json.Marshal(map[string]interface{}{"type": "json_schema", "json_schema": json.RawMessage(format)})
	return text
}
