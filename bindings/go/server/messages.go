package server

import (
	"encoding/json"
	"strings"
)

// messagesRequest is the body of Anthropic's /v1/messages.
type messagesRequest struct {
	Model         string             `json:"model"`
	MaxTokens     *int               `json:"max_tokens"`
	Messages      []anthropicMessage `json:"messages"`
	System        json.RawMessage    `json:"system"`
	StopSequences []string           `json:"stop_sequences"`
	Stream        bool               `json:"stream"`
	Temperature   *float64           `json:"temperature"`
	TopP          *float64           `json:"top_p"`
	TopK          *int               `json:"top_k"`
	Tools         []anthropicTool    `json:"tools"`
	ToolChoice    *struct {
		Type            string `json:"type"`
		Name            string `json:"name"`
		DisableParallel bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Thinking *struct {
		Type         string `json:"type"`
		BudgetTokens *int   `json:"budget_tokens"`
	} `json:"thinking"`
}

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type anthropicTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
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

// blocksOf returns the blocks of a message's content; a text is one block.
func blocksOf(content json.RawMessage) ([]contentBlock, error) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []contentBlock{{Type: "text", Text: text}}, nil
	}
	var blocks []contentBlock
	if err := json.Unmarshal(content, &blocks); err != nil {
		return nil, invalid("messages", "the content of a message must be a text or a list of blocks")
	}
	return blocks, nil
}

func textOfBlocks(content json.RawMessage) (string, error) {
	if isAbsent(content) {
		return "", nil
	}
	blocks, err := blocksOf(content)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, block := range blocks {
		if block.Type != "text" {
			return "", invalid("messages", "a block of the type %q is not supported here", block.Type)
		}
		out.WriteString(block.Text)
	}
	return out.String(), nil
}

// chatMessages converts one message to messages of chat completions, in which tool results are separate
// messages.
func (m *anthropicMessage) chatMessages() ([]chatMessage, error) {
	blocks, err := blocksOf(m.Content)
	if err != nil {
		return nil, err
	}
	message := chatMessage{Role: m.Role}
	var out []chatMessage
	var text strings.Builder
	for _, block := range blocks {
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
			result, err := textOfBlocks(block.Content)
			if err != nil {
				return nil, err
			}
			out = append(out, chatMessage{Role: "tool", ToolCallID: block.ToolUseID, Content: result})
		default:
			return nil, invalid("messages", "a block of the type %q is not supported; this model reads text", block.Type)
		}
	}
	message.Content = text.String()
	if text.Len() > 0 || len(message.ToolCalls) > 0 || message.Reasoning != "" || len(out) == 0 {
		out = append(out, message)
	}
	return out, nil
}

func (r *messagesRequest) promptMessages() (json.RawMessage, error) {
	if len(r.Messages) == 0 {
		return nil, invalid("messages", "messages must be a list of at least one message")
	}
	system, err := textOfBlocks(r.System)
	if err != nil {
		return nil, err
	}
	var messages []chatMessage
	if system != "" {
		messages = append(messages, chatMessage{Role: "system", Content: system})
	}
	for i := range r.Messages {
		more, err := r.Messages[i].chatMessages()
		if err != nil {
			return nil, err
		}
		messages = append(messages, more...)
	}
	return json.Marshal(messages)
}

func (r *messagesRequest) chatTools() (json.RawMessage, error) {
	if len(r.Tools) == 0 {
		return nil, nil
	}
	out := []map[string]interface{}{}
	for i, tool := range r.Tools {
		if tool.Type != "" && tool.Type != "custom" {
			return nil, invalid("tools", "tools[%d] is of the type %q; only custom tools are supported", i, tool.Type)
		}
		function := map[string]interface{}{"name": tool.Name, "parameters": tool.InputSchema}
		if tool.Description != "" {
			function["description"] = tool.Description
		}
		out = append(out, map[string]interface{}{"type": "function", "function": function})
	}
	return json.Marshal(out)
}

func (r *messagesRequest) generation(c *call) (*Generation, error) {
	messages, err := r.promptMessages()
	if err != nil {
		return nil, err
	}
	tools, err := r.chatTools()
	if err != nil {
		return nil, err
	}
	common := commonFields{Temperature: r.Temperature, TopP: r.TopP, TopK: r.TopK}
	sampling, err := common.sampling()
	if err != nil {
		return nil, err
	}
	g := &Generation{Sampling: sampling, Scheduling: c.scheduling(nil), StopTexts: r.StopSequences, ParallelCalls: true}
	g.Messages, g.Tools = messages, tools
	g.ContinueFinal = r.Messages[len(r.Messages)-1].Role == "assistant"
	if r.Thinking != nil {
		g.ReasoningEffort = map[string]string{"enabled": "medium", "disabled": "none"}[r.Thinking.Type]
		g.ReasoningBudget = r.Thinking.BudgetTokens
		if g.ReasoningBudget != nil && *g.ReasoningBudget < 0 {
			return nil, invalid("thinking", "thinking.budget_tokens must be a number of tokens from 0 on, not %d", *g.ReasoningBudget)
		}
	}
	if r.ToolChoice != nil {
		g.ParallelCalls = !r.ToolChoice.DisableParallel
		choice, known := map[string]string{"auto": "auto", "any": "required", "none": "none",
			"tool": "function:" + r.ToolChoice.Name}[r.ToolChoice.Type]
		if !known {
			return nil, invalid("tool_choice", "tool_choice.type must be auto, any, tool or none, not %q", r.ToolChoice.Type)
		}
		g.ToolChoice = choice
	}
	return g, nil
}

type anthropicUsage struct {
	InputTokens  int `json:"input_tokens"`
	CacheRead    int `json:"cache_read_input_tokens"`
	OutputTokens int `json:"output_tokens"`
}

func newAnthropicUsage(usage Usage) anthropicUsage {
	return anthropicUsage{usage.Prompt - usage.Cached, usage.Cached, usage.New}
}

func (s *Server) messages(c *call) error {
	var request messagesRequest
	if err := c.read(&request); err != nil {
		return err
	}
	if request.MaxTokens == nil || *request.MaxTokens < 1 {
		return invalid("max_tokens", "max_tokens must be 1 or more")
	}
	g, err := request.generation(c)
	if err != nil {
		return err
	}
	g.MaxNewTokens = *request.MaxTokens
	stream, err := s.submit(c, request.Model, g)
	if err != nil {
		return err
	}
	defer stream.Close()
	writer := &messageWriter{id: newID("msg_"), model: request.Model}
	if request.Stream {
		return s.streamMessage(c, writer, stream)
	}
	return s.wholeMessage(c, writer, stream)
}

func (s *Server) wholeMessage(c *call, writer *messageWriter, stream Stream) error {
	gathered, err := gather(c, []Stream{stream})
	if err != nil {
		return err
	}
	whole := gathered[0]
	content := []interface{}{}
	if reasoning := whole.reasoning.String(); reasoning != "" {
		content = append(content, fields{"type": "thinking", "thinking": reasoning, "signature": ""})
	}
	if text := whole.content.String(); text != "" {
		content = append(content, fields{"type": "text", "text": text, "citations": nil})
	}
	for _, call := range whole.calls {
		content = append(content, fields{"type": "tool_use", "id": call.ID, "name": call.Function.Name,
			"input": argumentsObject(call.Function.Arguments)})
	}
	s.account(c, resultsOf(gathered))
	body := writer.message(content)
	body["usage"] = newAnthropicUsage(whole.result.Usage)
	setStop(body, whole.result)
	return answer(c, body)
}

// argumentsObject returns the arguments as an object. Arguments cut off by the length limit are no valid JSON
// and become a text field.
func argumentsObject(text string) interface{} {
	if text == "" {
		return fields{}
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return fields{"partial": text}
}

func setStop(body fields, result Result) {
	body["stop_reason"] = [...]string{"end_turn", "max_tokens", "tool_use"}[result.Finish]
	body["stop_sequence"] = nil
	if result.StopText != "" {
		body["stop_reason"] = "stop_sequence"
		body["stop_sequence"] = result.StopText
	}
}

// messageWriter converts pieces to the events of one message. At most one block is open at a time.
type messageWriter struct {
	id, model string
	out       *sse
	open      string // type of the open block, or ""
	index     int
}

func (w *messageWriter) message(content []interface{}) fields {
	return fields{"id": w.id, "type": "message", "role": "assistant", "model": w.model, "content": content,
		"stop_reason": nil, "stop_sequence": nil, "usage": anthropicUsage{}}
}

func (w *messageWriter) event(kind string, more fields) error {
	more["type"] = kind
	return w.out.send(kind, more)
}

func (w *messageWriter) begin(kind string, block fields) error {
	if err := w.end(); err != nil {
		return err
	}
	w.open = kind
	block["type"] = kind
	return w.event("content_block_start", fields{"index": w.index, "content_block": block})
}

func (w *messageWriter) end() error {
	if w.open == "" {
		return nil
	}
	w.open = ""
	w.index++
	return w.event("content_block_stop", fields{"index": w.index - 1})
}

func (w *messageWriter) delta(delta fields) error {
	return w.event("content_block_delta", fields{"index": w.index, "delta": delta})
}

func (w *messageWriter) piece(piece Piece) error {
	switch piece.Kind {
	case PieceText:
		if w.open != "text" {
			if err := w.begin("text", fields{"text": "", "citations": nil}); err != nil {
				return err
			}
		}
		return w.delta(fields{"type": "text_delta", "text": piece.Text})
	case PieceReasoning:
		if w.open != "thinking" {
			if err := w.begin("thinking", fields{"thinking": "", "signature": ""}); err != nil {
				return err
			}
		}
		return w.delta(fields{"type": "thinking_delta", "thinking": piece.Text})
	case PieceCallBegun:
		return w.begin("tool_use", fields{"id": piece.CallID, "name": piece.Name, "input": fields{}})
	case PieceArguments:
		return w.delta(fields{"type": "input_json_delta", "partial_json": piece.Text})
	default:
		return w.end()
	}
}

func (s *Server) streamMessage(c *call, writer *messageWriter, stream Stream) error {
	writer.out = newSSE(c)
	if err := writer.event("message_start", fields{"message": writer.message([]interface{}{})}); err != nil {
		return err
	}
	var result Result
	err := c.relay([]Stream{stream}, c.heartbeat(), writer.ping, func(item indexed) error {
		if item.end {
			result = item.result
			return nil
		}
		return writer.piece(item.piece)
	})
	if err != nil {
		return err
	}
	if err := writer.end(); err != nil {
		return err
	}
	s.account(c, []Result{result})
	delta := fields{}
	setStop(delta, result)
	if err := writer.event("message_delta", fields{"delta": delta, "usage": newAnthropicUsage(result.Usage)}); err != nil {
		return err
	}
	return writer.event("message_stop", fields{})
}

func (w *messageWriter) ping() error { return w.event("ping", fields{}) }

func (s *Server) countTokens(c *call) error {
	var request messagesRequest
	if err := c.read(&request); err != nil {
		return err
	}
	g, err := request.generation(c)
	if err != nil {
		return err
	}
	model, err := s.open(c, request.Model, len(g.Messages))
	if err != nil {
		return err
	}
	prompt, err := model.PromptTokens(g)
	if err != nil {
		return err
	}
	return answer(c, map[string]int{"input_tokens": len(prompt)})
}
