package server

import (
	"net/http"
	"time"
)

// Items of a response's output.
type (
	outputText struct {
		Type        string          `json:"type"`
		Text        string          `json:"text"`
		Annotations []interface{}   `json:"annotations"`
		LogProbs    []outputLogProb `json:"logprobs"`
	}
	messageItem struct {
		ID      string       `json:"id"`
		Type    string       `json:"type"`
		Role    string       `json:"role"`
		Status  string       `json:"status"`
		Content []outputText `json:"content"`
	}
	callItem struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
		Status    string `json:"status"`
	}
	reasoningText struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	reasoningItem struct {
		ID      string          `json:"id"`
		Type    string          `json:"type"`
		Summary []interface{}   `json:"summary"`
		Content []reasoningText `json:"content,omitempty"`
		Status  string          `json:"status"`
	}
)

func newOutputText(text string) outputText {
	return outputText{"output_text", text, []interface{}{}, []outputLogProb{}}
}

// responseWriter converts pieces to the events and the object of one response. At most one item is open at a
// time.
type responseWriter struct {
	body     *responseBody
	send     func(event string, value interface{}) error
	beat     func() error
	sequence int
	open     interface{}    // *messageItem, *callItem, *reasoningItem or nil
	early    []TokenLogProb // of tokens before the first text of a message
	result   Result
	keep     func() error // stores the finished response, before the client is told of its end
}

// newResponseWriter returns a writer that sends no events.
func newResponseWriter(body *responseBody) *responseWriter {
	nothing := func() error { return nil }
	return &responseWriter{body: body, send: func(string, interface{}) error { return nil }, beat: nothing, keep: nothing}
}

type fields map[string]interface{}

func (w *responseWriter) event(kind string, more fields) error {
	more["type"] = kind
	more["sequence_number"] = w.sequence
	w.sequence++
	return w.send(kind, more)
}

// announce sends events that have only the response.
func (w *responseWriter) announce(kinds ...string) error {
	for _, kind := range kinds {
		if err := w.event(kind, fields{"response": w.body}); err != nil {
			return err
		}
	}
	return nil
}

// run sends the events of an answer from its beginning.
func (w *responseWriter) run(c *call, stream Stream) error {
	if err := w.announce("response.created", "response.in_progress"); err != nil {
		return err
	}
	return w.answer(c, stream)
}

// answer sends the events of the items and of the end.
func (w *responseWriter) answer(c *call, stream Stream) error {
	err := c.relay([]Stream{stream}, c.heartbeat(), w.beat, func(item indexed) error {
		if item.end {
			w.result = item.result
			return nil
		}
		return w.piece(item.piece)
	})
	if err != nil {
		return err
	}
	return w.end()
}

func (w *responseWriter) piece(piece Piece) error {
	switch piece.Kind {
	case PieceText:
		return w.text(piece)
	case PieceReasoning:
		return w.reasoning(piece.Text)
	case PieceCallBegun:
		if err := w.close(statusCompleted); err != nil {
			return err
		}
		return w.add(&callItem{newID("fc_"), "function_call", piece.CallID, piece.Name, "", statusInProgress})
	case PieceArguments:
		if item, is := w.open.(*callItem); is {
			item.Arguments += piece.Text
			return w.event("response.function_call_arguments.delta", fields{"item_id": item.ID,
				"output_index": w.index(), "delta": piece.Text})
		}
		return nil
	default:
		return w.close(statusCompleted)
	}
}

func (w *responseWriter) index() int { return len(w.body.Output) }

// add opens an item and sends its current state.
func (w *responseWriter) add(item interface{}) error {
	w.open = item
	return w.event("response.output_item.added", fields{"output_index": w.index(), "item": item})
}

func (w *responseWriter) text(piece Piece) error {
	item, is := w.open.(*messageItem)
	if !is && piece.Text == "" { // only log-probabilities
		w.early = append(w.early, piece.LogProbs...)
		return nil
	}
	if !is {
		if err := w.close(statusCompleted); err != nil {
			return err
		}
		item = &messageItem{newID("msg_"), "message", "assistant", statusInProgress, []outputText{}}
		if err := w.add(item); err != nil {
			return err
		}
		item.Content = []outputText{newOutputText("")}
		if err := w.event("response.content_part.added", fields{"item_id": item.ID, "output_index": w.index(),
			"content_index": 0, "part": item.Content[0]}); err != nil {
			return err
		}
	}
	logProbs := outputLogProbs(append(w.early, piece.LogProbs...))
	w.early = nil
	item.Content[0].Text += piece.Text
	item.Content[0].LogProbs = append(item.Content[0].LogProbs, logProbs...)
	return w.event("response.output_text.delta", fields{"item_id": item.ID, "output_index": w.index(),
		"content_index": 0, "delta": piece.Text, "logprobs": logProbs})
}

func (w *responseWriter) reasoning(text string) error {
	item, is := w.open.(*reasoningItem)
	if !is {
		if err := w.close(statusCompleted); err != nil {
			return err
		}
		item = &reasoningItem{newID("rs_"), "reasoning", []interface{}{}, nil, statusInProgress}
		if err := w.add(item); err != nil {
			return err
		}
		item.Content = []reasoningText{{"reasoning_text", ""}}
	}
	item.Content[0].Text += text
	return w.event("response.reasoning_text.delta", fields{"item_id": item.ID, "output_index": w.index(),
		"content_index": 0, "delta": text})
}

// States of a response and of its items.
const (
	statusQueued     = "queued"
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete" // cut off by the length limit
	statusCancelled  = "cancelled"
	statusFailed     = "failed"
)

// close ends the open item, if any.
func (w *responseWriter) close(status string) error {
	var err error
	switch item := w.open.(type) {
	case nil:
		return nil
	case *messageItem:
		item.Status = status
		text := item.Content[0]
		err = w.event("response.output_text.done", fields{"item_id": item.ID, "output_index": w.index(),
			"content_index": 0, "text": text.Text, "logprobs": text.LogProbs})
		if err == nil {
			err = w.event("response.content_part.done", fields{"item_id": item.ID, "output_index": w.index(),
				"content_index": 0, "part": text})
		}
	case *callItem:
		item.Status = status
		err = w.event("response.function_call_arguments.done", fields{"item_id": item.ID, "name": item.Name,
			"output_index": w.index(), "arguments": item.Arguments})
	case *reasoningItem:
		item.Status = status
		err = w.event("response.reasoning_text.done", fields{"item_id": item.ID, "output_index": w.index(),
			"content_index": 0, "text": item.Content[0].Text})
	}
	if err == nil {
		err = w.event("response.output_item.done", fields{"output_index": w.index(), "item": w.open})
	}
	w.body.Output = append(w.body.Output, w.open)
	w.open = nil
	return err
}

func (w *responseWriter) end() error {
	w.body.Status = statusCompleted
	if w.result.Finish == FinishLength {
		w.body.Status = statusIncomplete
	}
	if err := w.close(w.body.Status); err != nil {
		return err
	}
	usage := &responseUsage{InputTokens: w.result.Usage.Prompt, OutputTokens: w.result.Usage.New,
		TotalTokens: w.result.Usage.Prompt + w.result.Usage.New}
	usage.InputDetails.Cached = w.result.Usage.Cached
	usage.OutputDetails.Reasoning = w.result.Usage.Reasoning
	w.body.Usage = usage
	kind := "response.completed"
	if w.body.Status == statusIncomplete {
		w.body.IncompleteDetails = &incompleteDetails{"max_output_tokens"}
		kind = "response.incomplete"
	} else {
		now := time.Now().Unix()
		w.body.CompletedAt = &now
	}
	if err := w.keep(); err != nil {
		return err
	}
	return w.event(kind, fields{"response": w.body})
}

// fail sends the event that ends a started stream. It returns the error, which is the answer if there is no
// stream.
func (w *responseWriter) fail(err error) error {
	w.body.setFailed(err)
	_ = w.event("response.failed", fields{"response": w.body})
	return err
}

func (b *responseBody) setFailed(err error) {
	failure := failureOf(err)
	code := "server_error"
	switch failure.Status {
	case http.StatusBadRequest:
		code = "invalid_prompt"
	case http.StatusTooManyRequests:
		code = "rate_limit_exceeded"
	}
	b.Status, b.CompletedAt = statusFailed, nil
	b.Error = &responseError{code, failure.shortMessage()}
}
