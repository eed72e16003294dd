package server

import (
	"encoding/json"
	"strings"
	"time"
)

// responsesRequest is the body of /v1/responses.
type responsesRequest struct {
	commonFields
	Input              json.RawMessage   `json:"input"`
	Instructions       *string           `json:"instructions"`
	PreviousResponseID *string           `json:"previous_response_id"`
	Store              *bool             `json:"store"`
	MaxOutputTokens    *int              `json:"max_output_tokens"`
	Tools              json.RawMessage   `json:"tools"`
	ToolChoice         json.RawMessage   `json:"tool_choice"`
	ParallelToolCalls  *bool             `json:"parallel_tool_calls"`
	Metadata           map[string]string `json:"metadata"`
	Reasoning          *struct {
		Effort string `json:"effort"`
	} `json:"reasoning"`
	Text *struct {
		Format json.RawMessage `json:"format"`
	} `json:"text"`
}

func (s *Server) responsesGeneration(c *call, request *responsesRequest) (*Generation, []chatMessage, error) {
	if isAbsent(request.Input) {
		return nil, nil, invalid("input", "input is missing")
	}
	messages, err := messagesOfInput(request.Input)
	if err != nil {
		return nil, nil, err
	}
	if request.PreviousResponseID != nil {
		stored := s.stored.get(*request.PreviousResponseID, c.key.Owner)
		if stored == nil {
			return nil, nil, notFound("previous_response_not_found", "there is no stored response %q",
				*request.PreviousResponseID)
		}
		messages = append(append([]chatMessage{}, stored.messages...), messages...)
	}
	prompt := messages
	if request.Instructions != nil && *request.Instructions != "" {
		prompt = append([]chatMessage{{Role: "system", Content: *request.Instructions}}, messages...)
	}
	text, err := json.Marshal(prompt)
	if err != nil {
		return nil, nil, err
	}
	chat := chatRequest{commonFields: request.commonFields, Messages: text, ToolChoice: request.ToolChoice,
		ParallelToolCalls: request.ParallelToolCalls, MaxTokens: request.MaxOutputTokens}
	if request.Reasoning != nil {
		chat.ReasoningEffort = request.Reasoning.Effort
	}
	if request.Text != nil {
		chat.ResponseFormat = chatFormat(request.Text.Format)
	}
	if chat.Tools, err = chatTools(request.Tools); err != nil {
		return nil, nil, err
	}
	g, err := chat.generation(c)
	return g, messages, err
}

func (s *Server) createResponse(c *call) error {
	var request responsesRequest
	if err := c.read(&request); err != nil {
		return err
	}
	g, messages, err := s.responsesGeneration(c, &request)
	if err != nil {
		return err
	}
	stream, err := s.submit(c, request.Model, g)
	if err != nil {
		return err
	}
	defer stream.Close()
	writer := &responseWriter{body: newResponseBody(&request), send: func(string, interface{}) error { return nil },
		beat: func() error { return nil }}
	if request.Stream {
		out := newSSE(c)
		writer.send, writer.beat = out.send, out.heartbeat
	}
	if err := writer.run(c, stream); err != nil {
		return writer.fail(err)
	}
	s.account(c, []Result{writer.result})
	if request.Store == nil || *request.Store {
		s.stored.put(&storedResponse{writer.body, append(messages, writer.message()), c.key.Owner})
	}
	if request.Stream {
		return nil
	}
	return answer(c, writer.body)
}

// responseBody is the response object.
type responseBody struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	CreatedAt          int64              `json:"created_at"`
	Status             string             `json:"status"`
	Error              *responseError     `json:"error"`
	IncompleteDetails  *incompleteDetails `json:"incomplete_details"`
	Instructions       *string            `json:"instructions"`
	MaxOutputTokens    *int               `json:"max_output_tokens"`
	Model              string             `json:"model"`
	Output             []interface{}      `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PreviousResponseID *string            `json:"previous_response_id"`
	Temperature        *float64           `json:"temperature"`
	TopP               *float64           `json:"top_p"`
	ToolChoice         interface{}        `json:"tool_choice"`
	Tools              json.RawMessage    `json:"tools"`
	Metadata           map[string]string  `json:"metadata"`
	Usage              *responseUsage     `json:"usage,omitempty"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	InputTokens  int `json:"input_tokens"`
	InputDetails struct {
		Cached  int `json:"cached_tokens"`
		Written int `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens  int `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

func newResponseBody(request *responsesRequest) *responseBody {
	body := &responseBody{ID: newID("resp_"), Object: "response", CreatedAt: time.Now().Unix(), Status: "in_progress",
		Instructions: request.Instructions, MaxOutputTokens: request.MaxOutputTokens, Model: request.Model,
		Output: []interface{}{}, PreviousResponseID: request.PreviousResponseID,
		ParallelToolCalls: request.ParallelToolCalls == nil || *request.ParallelToolCalls,
		Temperature:       request.Temperature, TopP: request.TopP, ToolChoice: "auto", Tools: json.RawMessage("[]"),
		Metadata: request.Metadata}
	if body.Metadata == nil {
		body.Metadata = map[string]string{}
	}
	if !isAbsent(request.Tools) {
		body.Tools = request.Tools
	}
	if !isAbsent(request.ToolChoice) {
		body.ToolChoice = request.ToolChoice
	}
	one := 1.0
	if body.Temperature == nil {
		body.Temperature = &one
	}
	if body.TopP == nil {
		body.TopP = &one
	}
	return body
}

// Items of a response's output.
type (
	outputText struct {
		Type        string        `json:"type"`
		Text        string        `json:"text"`
		Annotations []interface{} `json:"annotations"`
		LogProbs    []interface{} `json:"logprobs"`
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
	return outputText{"output_text", text, []interface{}{}, []interface{}{}}
}

// responseWriter converts pieces to the events and the object of one response. At most one item is open at a
// time.
type responseWriter struct {
	body     *responseBody
	send     func(event string, value interface{}) error
	beat     func() error
	sequence int
	open     interface{} // *messageItem, *callItem, *reasoningItem or nil
	result   Result
}

type fields map[string]interface{}

func (w *responseWriter) event(kind string, more fields) error {
	more["type"] = kind
	more["sequence_number"] = w.sequence
	w.sequence++
	return w.send(kind, more)
}

func (w *responseWriter) run(c *call, stream Stream) error {
	for _, kind := range []string{"response.created", "response.in_progress"} {
		if err := w.event(kind, fields{"response": w.body}); err != nil {
			return err
		}
	}
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
		return w.text(piece.Text)
	case PieceReasoning:
		return w.reasoning(piece.Text)
	case PieceCallBegun:
		if err := w.close(statusCompleted); err != nil {
			return err
		}
		return w.add(&callItem{newID("fc_"), "function_call", piece.CallID, piece.Name, "", "in_progress"})
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

func (w *responseWriter) text(text string) error {
	item, is := w.open.(*messageItem)
	if !is {
		if err := w.close(statusCompleted); err != nil {
			return err
		}
		item = &messageItem{newID("msg_"), "message", "assistant", "in_progress", []outputText{}}
		if err := w.add(item); err != nil {
			return err
		}
		item.Content = []outputText{newOutputText("")}
		if err := w.event("response.content_part.added", fields{"item_id": item.ID, "output_index": w.index(),
			"content_index": 0, "part": item.Content[0]}); err != nil {
			return err
		}
	}
	item.Content[0].Text += text
	return w.event("response.output_text.delta", fields{"item_id": item.ID, "output_index": w.index(),
		"content_index": 0, "delta": text, "logprobs": []interface{}{}})
}

func (w *responseWriter) reasoning(text string) error {
	item, is := w.open.(*reasoningItem)
	if !is {
		if err := w.close(statusCompleted); err != nil {
			return err
		}
		item = &reasoningItem{newID("rs_"), "reasoning", []interface{}{}, nil, "in_progress"}
		if err := w.add(item); err != nil {
			return err
		}
		item.Content = []reasoningText{{"reasoning_text", ""}}
	}
	item.Content[0].Text += text
	return w.event("response.reasoning_text.delta", fields{"item_id": item.ID, "output_index": w.index(),
		"content_index": 0, "delta": text})
}

const (
	statusCompleted  = "completed"
	statusIncomplete = "incomplete" // cut off by the length limit
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
			"content_index": 0, "text": text.Text, "logprobs": []interface{}{}})
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
	if w.body.Status == statusIncomplete {
		w.body.IncompleteDetails = &incompleteDetails{"max_output_tokens"}
		return w.event("response.incomplete", fields{"response": w.body})
	}
	return w.event("response.completed", fields{"response": w.body})
}

// fail sends the event that ends a started stream. It returns the error, which is the answer if there is no
// stream.
func (w *responseWriter) fail(err error) error {
	failure := failureOf(err)
	w.body.Status = "failed"
	w.body.Error = &responseError{"server_error", failure.Message}
	_ = w.event("response.failed", fields{"response": w.body})
	return err
}

// message returns the answer as a message for the next turn.
func (w *responseWriter) message() chatMessage {
	out := chatMessage{Role: "assistant"}
	var text strings.Builder
	for _, item := range w.body.Output {
		switch item := item.(type) {
		case *messageItem:
			text.WriteString(item.Content[0].Text)
		case *reasoningItem:
			out.Reasoning += item.Content[0].Text
		case *callItem:
			out.ToolCalls = append(out.ToolCalls, toolCall{ID: item.CallID, Type: "function",
				Function: functionBody{item.Name, item.Arguments}})
		}
	}
	out.Content = text.String()
	return out
}
