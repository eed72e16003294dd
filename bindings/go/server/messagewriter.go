package server

import "encoding/json"

// anthropicUsage counts tokens; those that were found in the cache are no input tokens.
type anthropicUsage struct {
	InputTokens   int `json:"input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"` // always 0: nothing is charged for it
	CacheRead     int `json:"cache_read_input_tokens"`
	OutputTokens  int `json:"output_tokens"`
	OutputDetails struct {
		Thinking int `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func newAnthropicUsage(usage Usage) anthropicUsage {
	out := anthropicUsage{InputTokens: usage.Prompt - usage.Cached, CacheRead: usage.Cached, OutputTokens: usage.New}
	out.OutputDetails.Thinking = usage.Reasoning
	return out
}

func (s *Server) wholeMessage(c *call, writer *messageWriter, stream Stream) error {
	gathered, err := gather(c, []Stream{stream})
	if err != nil {
		return err
	}
	whole := gathered[0]
	content := []interface{}{}
	if reasoning := whole.reasoning.String(); reasoning != "" {
		if writer.omitsThinking {
			reasoning = ""
		}
		content = append(content, fields{"type": "thinking", "thinking": reasoning, "signature": ""})
	}
	if text := whole.content.String(); text != "" {
		content = append(content, fields{"type": "text", "text": text})
	}
	for _, call := range whole.calls {
		content = append(content, fields{"type": "tool_use", "id": call.ID, "name": call.Function.Name,
			"input": argumentsObject(call.Function.Arguments)})
	}
	s.account(c, resultsOf(gathered))
	body := writer.message(content, whole.result.Usage)
	writer.setStop(body, whole.result)
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

func (w *messageWriter) setStop(body fields, result Result) {
	body["stop_reason"] = [...]string{"end_turn", "max_tokens", "tool_use"}[result.Finish]
	body["stop_sequence"] = nil
	if result.Finish == FinishLength && result.Usage.New < w.maxTokens {
		body["stop_reason"] = "model_context_window_exceeded"
	}
	if result.StopText != "" {
		body["stop_reason"] = "stop_sequence"
		body["stop_sequence"] = result.StopText
	}
}

// messageWriter converts pieces to the events of one message. At most one block is open at a time.
type messageWriter struct {
	id, model     string
	maxTokens     int
	omitsThinking bool
	out           *sse
	open          string // type of the open block, or ""
	index         int
}

func (w *messageWriter) message(content []interface{}, usage Usage) fields {
	return fields{"id": w.id, "type": "message", "role": "assistant", "model": w.model, "content": content,
		"stop_reason": nil, "stop_sequence": nil, "usage": newAnthropicUsage(usage)}
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
			if err := w.begin("text", fields{"text": ""}); err != nil {
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
		if w.omitsThinking {
			return nil
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

// streamMessage begins with the number of prompt tokens. How many of them were cached is known at the end.
func (s *Server) streamMessage(c *call, writer *messageWriter, stream Stream, promptTokens int) error {
	writer.out = newSSE(c)
	if err := writer.event("message_start", fields{"message": writer.message([]interface{}{},
		Usage{Prompt: promptTokens})}); err != nil {
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
	writer.setStop(delta, result)
	if err := writer.event("message_delta", fields{"delta": delta, "usage": newAnthropicUsage(result.Usage)}); err != nil {
		return err
	}
	return writer.event("message_stop", fields{})
}

func (w *messageWriter) ping() error { return w.event("ping", fields{}) }
