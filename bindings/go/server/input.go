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
			content, err := contentText(item.Content)
			if err != nil {
				return nil, invalid("input", "input[%d].content: %v", i, err)
			}
			role := item.Role
			if role == "developer" {
				role = "system"
			}
			messages = append(messages, chatMessage{Role: role, Content: content})
		case "function_call":
			messages = appendCall(messages, toolCall{ID: item.CallID, Type: "function",
				Function: functionBody{item.Name, item.Arguments}})
		case "function_call_output":
			output, err := contentText(item.Output)
			if err != nil {
				return nil, invalid("input", "input[%d].output: %v", i, err)
			}
			messages = append(messages, chatMessage{Role: "tool", ToolCallID: item.CallID, Content: output})
		case "reasoning":
			reasoning, err := contentText(item.Content)
			if err == nil && reasoning != "" {
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

// contentText returns a text, or the joined texts of a list of parts.
func contentText(content json.RawMessage) (string, error) {
	if isAbsent(content) {
		return "", nil
	}
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return "", invalid("", "must be a text or a list of parts")
	}
	var out strings.Builder
	for _, part := range parts {
		switch part.Type {
		case "input_text", "output_text", "text", "reasoning_text", "summary_text", "refusal":
			out.WriteString(part.Text)
		default:
			return "", invalid("", "a part of the type %q is not supported; this model reads text", part.Type)
		}
	}
	return out.String(), nil
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
