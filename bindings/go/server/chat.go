package server

import (
	"encoding/json"
	"strings"
	"time"
)

// chatRequest is the body of /v1/chat/completions.
type chatRequest struct {
	commonFields
	Messages            json.RawMessage `json:"messages"`
	Tools               json.RawMessage `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	ResponseFormat      json.RawMessage `json:"response_format"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	LogProbs            bool            `json:"logprobs"`
	TopLogProbs         int             `json:"top_logprobs"`
	ReasoningEffort     string          `json:"reasoning_effort"`
	TemplateArgs        json.RawMessage `json:"chat_template_kwargs"`
	Grammar             string          `json:"grammar"`
	ReasoningBudget     *int            `json:"reasoning_budget"`
}

func (r *chatRequest) generation(c *call) (*Generation, error) {
	if isAbsent(r.Messages) {
		return nil, invalid("messages", "messages is missing")
	}
	var messages []json.RawMessage
	if json.Unmarshal(r.Messages, &messages) != nil || len(messages) == 0 {
		return nil, invalid("messages", "messages must be a list of at least one message")
	}
	sampling, err := r.sampling()
	if err != nil {
		return nil, err
	}
	choice, err := toolChoice(r.ToolChoice)
	if err != nil {
		return nil, err
	}
	if r.TopLogProbs < 0 || r.TopLogProbs > 20 {
		return nil, invalid("top_logprobs", "top_logprobs must be from 0 to 20, not %d", r.TopLogProbs)
	}
	if r.TopLogProbs > 0 && !r.LogProbs {
		return nil, invalid("top_logprobs", "top_logprobs needs logprobs to be true")
	}
	if r.ReasoningBudget != nil && *r.ReasoningBudget < 0 {
		return nil, invalid("reasoning_budget", "reasoning_budget must be a number of tokens from 0 on, not %d", *r.ReasoningBudget)
	}
	g := &Generation{Sampling: sampling, Scheduling: c.scheduling(r.Priority), StopTexts: r.Stop, IgnoreEOS: r.IgnoreEOS,
		LogProbs: r.LogProbs, TopLogProbs: r.TopLogProbs, ToolChoice: choice,
		ParallelCalls: r.ParallelToolCalls == nil || *r.ParallelToolCalls, Grammar: r.Grammar}
	g.ReasoningEffort, g.ReasoningBudget = r.ReasoningEffort, r.ReasoningBudget
	g.Messages = r.Messages
	g.Tools = present(r.Tools)
	g.TemplateArgs = present(r.TemplateArgs)
	g.ResponseFormat = present(r.ResponseFormat)
	g.MaxNewTokens, err = maxNewTokens(r.MaxCompletionTokens, r.MaxTokens)
	return g, err
}

func isAbsent(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

func present(value json.RawMessage) json.RawMessage {
	if isAbsent(value) {
		return nil
	}
	return value
}

func maxNewTokens(first, second *int) (int, error) {
	value := first
	if value == nil {
		value = second
	}
	if value == nil {
		return 0, nil
	}
	if *value < 1 {
		return 0, invalid("max_tokens", "the number of tokens to generate must be 1 or more, not %d", *value)
	}
	return *value, nil
}

// toolChoice parses "none", "auto", "required" or {"type": "function", "function": {"name": NAME}}.
func toolChoice(value json.RawMessage) (string, error) {
	if isAbsent(value) {
		return "", nil
	}
	var word string
	if json.Unmarshal(value, &word) == nil {
		if word == "none" || word == "auto" || word == "required" {
			return word, nil
		}
		return "", invalid("tool_choice", "tool_choice must be none, auto, required or a function, not %q", word)
	}
	var named struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(value, &named) == nil && named.Type == "function" {
		if named.Function.Name != "" {
			return "function:" + named.Function.Name, nil
		}
		if named.Name != "" {
			return "function:" + named.Name, nil
		}
	}
	return "", invalid("tool_choice", "tool_choice must be none, auto, required or a function with its name")
}

type functionBody struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type toolCall struct {
	Index    *int         `json:"index,omitempty"` // only in chunks
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function functionBody `json:"function"`
}

type tokenLogProb struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

type chatLogProbs struct {
	Content []tokenLogProbWithTop `json:"content"`
	Refusal []tokenLogProbWithTop `json:"refusal"`
}

// tokenLogProbWithTop always has a list of top tokens; the entries of that list have none.
type tokenLogProbWithTop struct {
	tokenLogProb
	TopLogProbs []tokenLogProb `json:"top_logprobs"`
}

func logProbsOf(entries []TokenLogProb) *chatLogProbs {
	if len(entries) == 0 {
		return nil
	}
	out := &chatLogProbs{}
	for _, entry := range entries {
		converted := tokenLogProbWithTop{logProbOf(entry), []tokenLogProb{}}
		for _, top := range entry.Top {
			converted.TopLogProbs = append(converted.TopLogProbs, logProbOf(top))
		}
		out.Content = append(out.Content, converted)
	}
	return out
}

func logProbOf(entry TokenLogProb) tokenLogProb {
	return tokenLogProb{entry.Token, entry.Log, bytesOf(entry.Bytes)}
}

func bytesOf(text []byte) []int {
	out := make([]int, len(text))
	for i, b := range text {
		out[i] = int(b)
	}
	return out
}

func finishWord(finish Finish) string {
	return [...]string{"stop", "length", "tool_calls"}[finish]
}

// chatHead holds the first fields of a whole answer and of each chunk.
type chatHead struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	System  string `json:"system_fingerprint"`
}

func (s *Server) chatCompletions(c *call) error {
	var request chatRequest
	if err := c.read(&request); err != nil {
		return err
	}
	g, err := request.generation(c)
	if err != nil {
		return err
	}
	num, err := request.choices(&c.config.Limits)
	if err != nil {
		return err
	}
	model, err := s.open(c, request.Model, len(request.Messages))
	if err != nil {
		return err
	}
	streams, err := submitAll(c, model, g, num)
	if err != nil {
		return err
	}
	defer closeAll(streams)
	head := chatHead{newID("chatcmpl-"), "chat.completion", time.Now().Unix(), request.Model, s.fingerprint(c)}
	if request.Stream {
		head.Object = "chat.completion.chunk"
		return s.streamChat(c, &request, head, streams)
	}
	return s.wholeChat(c, head, streams)
}

// wholeMessage collects the pieces of one answer.
type wholeMessage struct {
	content   strings.Builder
	reasoning strings.Builder
	calls     []toolCall
	logProbs  []TokenLogProb
	result    Result
}

func (m *wholeMessage) add(piece Piece) {
	m.logProbs = append(m.logProbs, piece.LogProbs...)
	switch piece.Kind {
	case PieceText:
		m.content.WriteString(piece.Text)
	case PieceReasoning:
		m.reasoning.WriteString(piece.Text)
	case PieceCallBegun:
		m.calls = append(m.calls, toolCall{ID: piece.CallID, Type: "function", Function: functionBody{Name: piece.Name}})
	case PieceArguments:
		if len(m.calls) > 0 {
			m.calls[len(m.calls)-1].Function.Arguments += piece.Text
		}
	}
}

// gather reads all pieces of all streams.
func gather(c *call, streams []Stream) ([]*wholeMessage, error) {
	messages := make([]*wholeMessage, len(streams))
	for i := range messages {
		messages[i] = &wholeMessage{}
	}
	err := c.relay(streams, time.Hour, func() error { return nil }, func(item indexed) error {
		if item.end {
			messages[item.choice].result = item.result
		} else {
			messages[item.choice].add(item.piece)
		}
		return nil
	})
	return messages, err
}

func resultsOf(messages []*wholeMessage) []Result {
	results := make([]Result, len(messages))
	for i, message := range messages {
		results[i] = message.result
	}
	return results
}

func (s *Server) wholeChat(c *call, head chatHead, streams []Stream) error {
	type message struct {
		Role    string  `json:"role"`
		Content *string `json:"content"`
		Refusal *string `json:"refusal"`
		reasoningField
		ToolCalls []toolCall `json:"tool_calls,omitempty"`
	}
	type choice struct {
		Index        int           `json:"index"`
		Message      message       `json:"message"`
		LogProbs     *chatLogProbs `json:"logprobs"`
		FinishReason string        `json:"finish_reason"`
	}
	gathered, err := gather(c, streams)
	if err != nil {
		return err
	}
	choices := make([]choice, len(gathered))
	for i, whole := range gathered {
		text := whole.content.String()
		choices[i] = choice{Index: i, LogProbs: logProbsOf(whole.logProbs), FinishReason: finishWord(whole.result.Finish),
			Message: message{Role: "assistant", reasoningField: newReasoningField(whole.reasoning.String()), ToolCalls: whole.calls}}
		if text != "" || len(whole.calls) == 0 {
			choices[i].Message.Content = &text
		}
	}
	results := resultsOf(gathered)
	s.account(c, results)
	return answer(c, struct {
		chatHead
		Choices []choice   `json:"choices"`
		Usage   *usageBody `json:"usage"`
		Timings *timings   `json:"timings"`
	}{head, choices, newUsage(results), newTimings(results)})
}

// reasoningField holds the reasoning text under both names that clients use.
type reasoningField struct {
	ReasoningContent string `json:"reasoning_content,omitempty"`
	Reasoning        string `json:"reasoning,omitempty"`
}

func newReasoningField(text string) reasoningField { return reasoningField{text, text} }

type chatDelta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
	reasoningField
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

type chunkChoice struct {
	Index        int           `json:"index"`
	Delta        chatDelta     `json:"delta"`
	LogProbs     *chatLogProbs `json:"logprobs,omitempty"`
	FinishReason *string       `json:"finish_reason"`
}

type chatChunk struct {
	chatHead
	Choices []chunkChoice `json:"choices"`
	Usage   *usageBody    `json:"usage,omitempty"`
	Timings *timings      `json:"timings,omitempty"` // of the answer that ends with this chunk
}

func (s *Server) streamChat(c *call, request *chatRequest, head chatHead, streams []Stream) error {
	out := newSSE(c)
	numCalls := make([]int, len(streams))
	results := make([]Result, len(streams))
	empty := ""
	for i := range streams {
		first := chatChunk{chatHead: head, Choices: []chunkChoice{{Index: i, Delta: chatDelta{Role: "assistant",
			Content: &empty}}}}
		if err := out.send("", first); err != nil {
			return err
		}
	}
	texts := make([]chunk, len(streams))
	for i := range texts {
		if err := texts[i].encode(chatChunk{chatHead: head, Choices: []chunkChoice{{Index: i, Delta: chatDelta{
			Content: &inText}}}}); err != nil {
			return err
		}
	}
	err := c.relay(streams, c.heartbeat(), out.heartbeat, func(item indexed) error {
		if !item.end && item.piece.Kind == PieceText && len(item.piece.LogProbs) == 0 {
			return out.sendChunk(&texts[item.choice], item.piece.Text)
		}
		choice := chunkChoice{Index: item.choice}
		var took *timings
		if item.end {
			results[item.choice] = item.result
			took = newTimings(results[item.choice : item.choice+1])
			word := finishWord(item.result.Finish)
			choice.FinishReason = &word
		} else if !choice.Delta.fill(item.piece, &numCalls[item.choice]) {
			return nil
		}
		choice.LogProbs = logProbsOf(item.piece.LogProbs)
		return out.send("", chatChunk{chatHead: head, Choices: []chunkChoice{choice}, Timings: took})
	})
	if err != nil {
		return err
	}
	s.account(c, results)
	if request.StreamOptions != nil && request.StreamOptions.IncludeUsage {
		if err := out.send("", chatChunk{chatHead: head, Choices: []chunkChoice{}, Usage: newUsage(results)}); err != nil {
			return err
		}
	}
	return out.sendText("", "[DONE]")
}

// fill sets the delta of a piece; it returns false if the piece has none.
func (d *chatDelta) fill(piece Piece, numCalls *int) bool {
	switch piece.Kind {
	case PieceText:
		d.Content = &piece.Text
	case PieceReasoning:
		d.reasoningField = newReasoningField(piece.Text)
	case PieceCallBegun:
		index := *numCalls
		*numCalls++
		d.ToolCalls = []toolCall{{Index: &index, ID: piece.CallID, Type: "function",
			Function: functionBody{Name: piece.Name}}}
	case PieceArguments:
		index := *numCalls - 1
		d.ToolCalls = []toolCall{{Index: &index, Function: functionBody{Arguments: piece.Text}}}
	default:
		return false
	}
	return true
}
