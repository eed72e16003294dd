package server

import (
	"encoding/json"
	"fmt"
	"strings"
)

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type contentBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// blocksOf returns the blocks of a content; a text is one block. Errors name the content by its path.
func blocksOf(path string, content json.RawMessage) ([]contentBlock, error) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []contentBlock{{Type: "text", Text: text}}, nil
	}
	var blocks []contentBlock
	if err := json.Unmarshal(content, &blocks); err != nil {
		return nil, invalid(path, "%s must be a text or a list of blocks", path)
	}
	return blocks, nil
}

func textOfBlocks(path string, content json.RawMessage) (string, error) {
	if isAbsent(content) {
		return "", nil
	}
	blocks, err := blocksOf(path, content)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for i, block := range blocks {
		if block.Type != "text" {
			return "", noBlock(fmt.Sprintf("%s[%d]", path, i), block.Type)
		}
		out.WriteString(block.Text)
	}
	return out.String(), nil
}

func noBlock(path, kind string) error {
	return invalid(path, "%s is a block of the type %q, which is not supported; this model reads text", path, kind)
}

// chatMessages converts one message to messages of chat completions, in which tool results are separate
// messages.
func (m *anthropicMessage) chatMessages(path string) ([]chatMessage, error) {
	if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
		return nil, invalid(path, "%s.role must be user, assistant or system, not %q", path, m.Role)
	}
	path += ".content"
	blocks, err := blocksOf(path, m.Content)
	if err != nil {
		return nil, err
	}
	message := chatMessage{Role: m.Role}
	var out []chatMessage
	var text strings.Builder
	for i, block := range blocks {
		path := fmt.Sprintf("%s[%d]", path, i)
		switch block.Type {
		case "text":
			text.WriteString(block.Text)
		case "thinking":
			message.Reasoning += block.Thinking
		case "redacted_thinking":
		case "tool_use":
			message.ToolCalls = append(message.ToolCalls, toolCall{ID: block.ID, Type: "function",
				Function: functionBody{block.Name, string(block.Input)}})
		case "tool_result":
			result, err := textOfBlocks(path+".content", block.Content)
			if err != nil {
				return nil, err
			}
			out = append(out, chatMessage{Role: "tool", ToolCallID: block.ToolUseID, Content: result})
		default:
			return nil, noBlock(path, block.Type)
		}
	}
	message.Content = text.String()
	if text.Len() > 0 || len(message.ToolCalls) > 0 || message.Reasoning != "" || len(out) == 0 {
		out = append(out, message)
	}
	return out, nil
}
