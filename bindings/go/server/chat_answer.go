package server

import (
	"strings"
	"time"
)

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

func (f *tokenFields) logProbsOf(entries []TokenLogProb) *chatLogProbs {
	if len(entries) == 0 {
		return nil
	}
	out := &chatLogProbs{}
	for i := range entries {
		converted := tokenLogProbWithTop{f.logProbOf(&entries[i]), []tokenLogProb{}}
		for j := range entries[i].Top {
			converted.TopLogProbs = append(converted.TopLogProbs, f.logProbOf(&entries[i].Top[j]))
		}
		out.Content = append(out.Content, converted)
	}
	return out
}

func (f *tokenFields) logProbOf(entry *TokenLogProb) tokenLogProb {
	return tokenLogProb{f.name(entry), entry.Log, bytesOf(entry.Bytes)}
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

// chatAnswer is a request whose answers are written.
type chatAnswer struct {
	request *chatRequest
	prompt  promptTokens
	streams []Stream
	head    chatHead
}

// withPrompt adds the work on log-probabilities of the prompt to the results.
func (w *chatAnswer) withPrompt(results []Result) []Result {
	if w.prompt.usage.Prompt == 0 {
		return results
	}
	return append(append([]Result{}, results...), Result{Usage: w.prompt.usage})
}

// finish returns the reason why an answer ended. A call in OpenAI's first form has a reason of its own.
func (w *chatAnswer) finish(result Result) string {
	if result.Finish == FinishCalls && w.request.asFunctions() {
		return "function_call"
	}
	return finishWord(result.Finish)
}

// wholeMessage collects the pieces of one answer.
type wholeMessage struct {
	content   strings.Builder
	reasoning strings.Builder
	calls     []toolCall
	logProbs  []TokenLogProb
	tokens    []int32
	result    Result
}

func (m *wholeMessage) add(piece Piece) {
	m.logProbs = append(m.logProbs, piece.LogProbs...)
	m.tokens = append(m.tokens, piece.Tokens...)
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

// chatMessageBody is the message of a whole answer.
type chatMessageBody struct {
	Role    string  `json:"role"`
	Content *string `json:"content"`
	Refusal *string `json:"refusal"`
	reasoningField
	ToolCalls    []toolCall    `json:"tool_calls,omitempty"`
	FunctionCall *functionBody `json:"function_call,omitempty"`
}

func (w *chatAnswer) message(whole *wholeMessage) chatMessageBody {
	out := chatMessageBody{Role: "assistant"}
	if !w.request.hidesReasoning() {
		out.reasoningField = newReasoningField(whole.reasoning.String())
	}
	if text := whole.content.String(); text != "" || len(whole.calls) == 0 {
		out.Content = &text
	}
	if w.request.asFunctions() && len(whole.calls) > 0 {
		out.FunctionCall = &whole.calls[0].Function
	} else {
		out.ToolCalls = whole.calls
	}
	return out
}

func (s *Server) wholeChat(c *call, w *chatAnswer) error {
	type choice struct {
		Index        int             `json:"index"`
		Message      chatMessageBody `json:"message"`
		LogProbs     *chatLogProbs   `json:"logprobs"`
		FinishReason string          `json:"finish_reason"`
		TokenIDs     []int32         `json:"token_ids,omitempty"`
	}
	gathered, err := gather(c, w.streams)
	if err != nil {
		return err
	}
	choices := make([]choice, len(gathered))
	for i, whole := range gathered {
		choices[i] = choice{Index: i, LogProbs: w.request.logProbsOf(whole.logProbs), FinishReason: w.finish(whole.result),
			Message: w.message(whole), TokenIDs: whole.tokens}
	}
	results := resultsOf(gathered)
	s.account(c, w.withPrompt(results))
	return answer(c, struct {
		chatHead
		Choices        []choice                 `json:"choices"`
		Usage          *usageBody               `json:"usage"`
		Timings        *timings                 `json:"timings"`
		PromptTokenIDs []int32                  `json:"prompt_token_ids,omitempty"`
		PromptLogProbs []map[string]promptEntry `json:"prompt_logprobs,omitempty"`
	}{w.head, choices, newUsage(results), newTimings(results), w.prompt.ids, w.request.promptLogProbs(w.prompt.logProbs)})
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
	ToolCalls    []toolCall    `json:"tool_calls,omitempty"`
	FunctionCall *functionBody `json:"function_call,omitempty"`
}

type chunkChoice struct {
	Index        int           `json:"index"`
	Delta        chatDelta     `json:"delta"`
	LogProbs     *chatLogProbs `json:"logprobs,omitempty"`
	FinishReason *string       `json:"finish_reason"`
	TokenIDs     []int32       `json:"token_ids,omitempty"`
}

type chatChunk struct {
	chatHead
	Choices        []chunkChoice `json:"choices"`
	Usage          *usageBody    `json:"usage,omitempty"`
	Timings        *timings      `json:"timings,omitempty"`          // of the answer that ends with this chunk
	PromptTokenIDs []int32       `json:"prompt_token_ids,omitempty"` // only in the first chunk
}

func (s *Server) streamChat(c *call, w *chatAnswer) error {
	out := newSSE(c)
	texts, err := w.beginStream(out)
	if err != nil {
		return err
	}
	numCalls := make([]int, len(w.streams))
	results := make([]Result, len(w.streams))
	err = c.relay(w.streams, c.heartbeat(), out.heartbeat, func(item indexed) error {
		if !item.end && item.piece.Kind == PieceText && len(item.piece.LogProbs) == 0 && len(item.piece.Tokens) == 0 {
			return out.sendChunk(&texts[item.choice], item.piece.Text)
		}
		choice := chunkChoice{Index: item.choice, TokenIDs: item.piece.Tokens}
		var took *timings
		if item.end {
			results[item.choice] = item.result
			took = newTimings(results[item.choice : item.choice+1])
			word := w.finish(item.result)
			choice.FinishReason = &word
		} else if !w.fill(&choice.Delta, item.piece, &numCalls[item.choice]) && len(item.piece.Tokens) == 0 {
			return nil
		}
		choice.LogProbs = w.request.logProbsOf(item.piece.LogProbs)
		return out.send("", chatChunk{chatHead: w.head, Choices: []chunkChoice{choice}, Timings: took})
	})
	if err != nil {
		return err
	}
	s.account(c, w.withPrompt(results))
	if w.request.StreamOptions != nil && w.request.StreamOptions.IncludeUsage {
		if err := out.send("", chatChunk{chatHead: w.head, Choices: []chunkChoice{}, Usage: newUsage(results),
			Timings: newTimings(results)}); err != nil {
			return err
		}
	}
	return out.sendText("", "[DONE]")
}

// beginStream sends the first chunk of each answer, and returns the chunks for its texts.
func (w *chatAnswer) beginStream(out *sse) ([]chunk, error) {
	empty := ""
	texts := make([]chunk, len(w.streams))
	for i := range texts {
		first := chatChunk{chatHead: w.head, Choices: []chunkChoice{{Index: i, Delta: chatDelta{Role: "assistant",
			Content: &empty}}}}
		if i == 0 {
			first.PromptTokenIDs = w.prompt.ids
		}
		if err := out.send("", first); err != nil {
			return nil, err
		}
		if err := texts[i].encode(chatChunk{chatHead: w.head, Choices: []chunkChoice{{Index: i, Delta: chatDelta{
			Content: &inText}}}}); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// fill sets the delta of a piece as the request wants it; it returns false if the piece has none.
func (w *chatAnswer) fill(delta *chatDelta, piece Piece, numCalls *int) bool {
	if piece.Kind == PieceReasoning && w.request.hidesReasoning() {
		return false
	}
	if !delta.fill(piece, numCalls) {
		return false
	}
	if w.request.asFunctions() && len(delta.ToolCalls) > 0 {
		if *numCalls > 1 {
			return false // the first form has one call
		}
		delta.FunctionCall, delta.ToolCalls = &delta.ToolCalls[0].Function, nil
	}
	return true
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
