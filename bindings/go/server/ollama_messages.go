package server

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// ollamaMessage is a message of a chat, in requests and in answers.
type ollamaMessage struct {
	Role       string            `json:"role"`
	Content    string            `json:"content"`
	Thinking   string            `json:"thinking,omitempty"`
	Images     []json.RawMessage `json:"images,omitempty"` // refused
	ToolCalls  []ollamaToolCall  `json:"tool_calls,omitempty"`
	ToolName   string            `json:"tool_name,omitempty"`
	ToolCallID string            `json:"tool_call_id,omitempty"`
}

// ollamaToolCall is a call; its arguments are an object.
type ollamaToolCall struct {
	ID       string         `json:"id,omitempty"`
	Function ollamaFunction `json:"function"`
}

type ollamaFunction struct {
	Index     int             `json:"index"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// chatMessagesOf converts messages to OpenAI's format. ollama's calls may have no ids, so each call without one gets
// one, and each result without one gets that of the first call that has no result yet.
func chatMessagesOf(messages []ollamaMessage) ([]chatMessage, error) {
	out := make([]chatMessage, len(messages))
	var open []toolCall // calls without a result
	for i, message := range messages {
		if len(message.Images) > 0 {
			return nil, invalid("messages", "messages[%d].images is not supported", i)
		}
		out[i] = chatMessage{Role: message.Role, Content: message.Content, Reasoning: message.Thinking}
		calls, err := chatCalls(message.ToolCalls, i)
		if err != nil {
			return nil, err
		}
		out[i].ToolCalls = calls
		open = append(open, calls...)
		if message.Role == "tool" {
			out[i].Name, out[i].ToolCallID = message.ToolName, message.ToolCallID
			open = out[i].takeCall(open)
		}
	}
	return out, nil
}

func chatCalls(calls []ollamaToolCall, message int) ([]toolCall, error) {
	var out []toolCall
	for j, call := range calls {
		arguments := call.Function.Arguments
		if isAbsent(arguments) {
			arguments = json.RawMessage("{}")
		}
		if !bytes.HasPrefix(arguments, []byte("{")) {
			return nil, invalid("messages", "messages[%d].tool_calls[%d].function.arguments must be an object", message, j)
		}
		id := call.ID
		if id == "" {
			id = "call_" + strconv.Itoa(message) + "_" + strconv.Itoa(j)
		}
		out = append(out, toolCall{ID: id, Type: "function", Function: functionBody{call.Function.Name, string(arguments)}})
	}
	return out, nil
}

// takeCall gives a result the call that it belongs to, by id, otherwise by name, otherwise the first one. It returns
// the other calls.
func (m *chatMessage) takeCall(open []toolCall) []toolCall {
	found := -1
	for i, call := range open {
		if m.ToolCallID != "" && call.ID == m.ToolCallID || m.ToolCallID == "" && (m.Name == "" || call.Function.Name == m.Name) {
			found = i
			break
		}
	}
	if found < 0 {
		return open
	}
	m.ToolCallID, m.Name = open[found].ID, open[found].Function.Name
	return append(append([]toolCall{}, open[:found]...), open[found+1:]...)
}

// ollamaCallOf converts a call of an answer. The result is false if its arguments are not an object, such as those
// of a call that was cut off.
func ollamaCallOf(call toolCall, index int) (ollamaToolCall, bool) {
	arguments := json.RawMessage(call.Function.Arguments)
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(arguments, &object) != nil || object == nil {
		return ollamaToolCall{}, false
	}
	return ollamaToolCall{ID: call.ID, Function: ollamaFunction{index, call.Function.Name, arguments}}, true
}
