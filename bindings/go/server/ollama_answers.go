package server

import (
	"time"
)

// ollamaBody is an answer, or a part of one. A chat has `message`, the answer to a prompt has `response`.
type ollamaBody struct {
	Model      string                `json:"model"`
	CreatedAt  time.Time             `json:"created_at"`
	Message    *ollamaMessage        `json:"message,omitempty"`
	Response   *string               `json:"response,omitempty"`
	Thinking   string                `json:"thinking,omitempty"`
	Done       bool                  `json:"done"`
	DoneReason string                `json:"done_reason,omitempty"`
	LogProbs   []tokenLogProbWithTop `json:"logprobs,omitempty"`
	ollamaMetrics
}

// ollamaMetrics has durations in nanoseconds.
type ollamaMetrics struct {
	TotalDuration      time.Duration `json:"total_duration,omitempty"`
	LoadDuration       time.Duration `json:"load_duration,omitempty"`
	PromptEvalCount    int           `json:"prompt_eval_count,omitempty"`
	PromptEvalDuration time.Duration `json:"prompt_eval_duration,omitempty"`
	EvalCount          int           `json:"eval_count,omitempty"`
	EvalDuration       time.Duration `json:"eval_duration,omitempty"`
}

// ollamaAnswer is the form of an answer, and what is known before it begins.
type ollamaAnswer struct {
	model   string
	isChat  bool
	loading time.Duration
}

func (a *ollamaAnswer) body(content, thinking string, calls []ollamaToolCall) ollamaBody {
	body := ollamaBody{Model: a.model, CreatedAt: time.Now().UTC()}
	if a.isChat {
		body.Message = &ollamaMessage{Role: "assistant", Content: content, Thinking: thinking, ToolCalls: calls}
	} else {
		body.Response, body.Thinking = &content, thinking
	}
	return body
}

// finish completes the last body of an answer.
func (a *ollamaAnswer) finish(c *call, body *ollamaBody, result Result) {
	body.Done, body.DoneReason = true, "stop"
	if result.Finish == FinishLength {
		body.DoneReason = "length"
	}
	body.ollamaMetrics = ollamaMetrics{TotalDuration: time.Since(c.began), LoadDuration: a.loading,
		PromptEvalCount: result.Usage.Prompt, PromptEvalDuration: result.Times.Prompt, EvalCount: result.Usage.New,
		EvalDuration: result.Times.Generate}
}

// answerOllama submits a generation and answers with a stream or whole.
func (s *Server) answerOllama(c *call, request *ollamaCommon, model Model, g *Generation, form ollamaAnswer) error {
	form.model = request.Model
	streams, err := submitAll(c, model, g, 1)
	if err != nil {
		return err
	}
	defer closeAll(streams)
	if request.streams() {
		return s.streamOllama(c, &form, streams)
	}
	return s.wholeOllama(c, &form, streams)
}

func (s *Server) wholeOllama(c *call, form *ollamaAnswer, streams []Stream) error {
	gathered, err := gather(c, streams)
	if err != nil {
		return err
	}
	whole := gathered[0]
	content := whole.content.String()
	var calls []ollamaToolCall
	for _, each := range whole.calls {
		if call, is := ollamaCallOf(each, len(calls)); is {
			calls = append(calls, call)
		} else {
			content += each.Function.Name + each.Function.Arguments
		}
	}
	body := form.body(content, whole.reasoning.String(), calls)
	if logProbs := new(tokenFields).logProbsOf(whole.logProbs); logProbs != nil {
		body.LogProbs = logProbs.Content
	}
	form.finish(c, &body, whole.result)
	s.account(c, []Result{whole.result})
	return answer(c, body)
}

// streamOllama sends a body for each piece. A call is sent whole, at its end. After a silent interval a body
// without text is sent, since the format has no comments.
func (s *Server) streamOllama(c *call, form *ollamaAnswer, streams []Stream) error {
	out := newNDJSON(c)
	var result Result
	var calls wholeMessage // only the calls
	heartbeat := func() error { return out.send(form.body("", "", nil)) }
	err := c.relay(streams, c.heartbeat(), heartbeat, func(item indexed) error {
		if item.end {
			result = item.result
			return nil
		}
		body, is := form.piece(item.piece, &calls)
		if !is {
			return nil
		}
		if logProbs := new(tokenFields).logProbsOf(item.piece.LogProbs); logProbs != nil {
			body.LogProbs = logProbs.Content
		}
		return out.send(body)
	})
	if err != nil {
		return err
	}
	s.account(c, []Result{result})
	last := form.body("", "", nil)
	form.finish(c, &last, result)
	return out.send(last)
}

// piece returns the body of a piece; the result is false if the client gets nothing yet.
func (a *ollamaAnswer) piece(piece Piece, calls *wholeMessage) (ollamaBody, bool) {
	switch piece.Kind {
	case PieceText:
		return a.body(piece.Text, "", nil), true
	case PieceReasoning:
		return a.body("", piece.Text, nil), true
	case PieceCallEnded:
		index := len(calls.calls) - 1
		if index < 0 {
			return ollamaBody{}, false
		}
		whole := calls.calls[index]
		if call, is := ollamaCallOf(whole, index); is {
			return a.body("", "", []ollamaToolCall{call}), true
		}
		return a.body(whole.Function.Name+whole.Function.Arguments, "", nil), true
	}
	calls.add(Piece{Kind: piece.Kind, Text: piece.Text, CallID: piece.CallID, Name: piece.Name})
	return ollamaBody{}, false
}
