package server

import (
	"encoding/json"
	"time"
)

// completionRequest is the body of /v1/completions.
type completionRequest struct {
	commonFields
	Prompt    promptField `json:"prompt"`
	MaxTokens *int        `json:"max_tokens"`
	LogProbs  *int        `json:"logprobs"`
	Echo      bool        `json:"echo"`
	Suffix    string      `json:"suffix"`
	Grammar   string      `json:"grammar"`
}

// promptField is a text, texts, token ids, or lists of token ids.
type promptField []Prompt

func (p *promptField) UnmarshalJSON(value []byte) error {
	var text string
	var texts []string
	var tokens []int32
	var lists [][]int32
	switch {
	case json.Unmarshal(value, &text) == nil:
		*p = promptField{{Text: text}}
	case json.Unmarshal(value, &texts) == nil:
		for _, each := range texts {
			*p = append(*p, Prompt{Text: each})
		}
	case json.Unmarshal(value, &tokens) == nil:
		*p = promptField{{Tokens: tokens}}
	case json.Unmarshal(value, &lists) == nil:
		for _, each := range lists {
			*p = append(*p, Prompt{Tokens: each})
		}
	default:
		return invalid("prompt", "the prompt must be a text, token ids, or a list of either")
	}
	return nil
}

func (p promptField) numBytes() int {
	total := 0
	for _, prompt := range p {
		total += len(prompt.Text) + 4*len(prompt.Tokens)
	}
	return total
}

type completionChoice struct {
	Text         string              `json:"text"`
	Index        int                 `json:"index"`
	LogProbs     *completionLogProbs `json:"logprobs"`
	FinishReason *string             `json:"finish_reason"`
}

// completionLogProbs is the older format with parallel lists.
type completionLogProbs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogProbs []float64            `json:"token_logprobs"`
	TopLogProbs   []map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"`
}

func (l *completionLogProbs) add(entries []TokenLogProb, offset *int) {
	for _, entry := range entries {
		top := map[string]float64{}
		for _, other := range entry.Top {
			top[other.Token] = other.Log
		}
		l.Tokens = append(l.Tokens, entry.Token)
		l.TokenLogProbs = append(l.TokenLogProbs, entry.Log)
		l.TopLogProbs = append(l.TopLogProbs, top)
		l.TextOffset = append(l.TextOffset, *offset)
		*offset += len([]rune(entry.Token))
	}
}

type completionBody struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []completionChoice `json:"choices"`
	Usage   *usageBody         `json:"usage,omitempty"`
	System  string             `json:"system_fingerprint"`
	Timings *timings           `json:"timings,omitempty"` // of the answers to the first prompt, or of the answer that ends
}

func (s *Server) completions(c *call) error {
	var request completionRequest
	if err := c.read(&request); err != nil {
		return err
	}
	if request.Suffix != "" {
		return invalid("suffix", "a suffix is not supported")
	}
	if len(request.Prompt) == 0 {
		return invalid("prompt", "prompt is missing")
	}
	num, err := request.choices(&c.config.Limits)
	if err != nil {
		return err
	}
	if len(request.Prompt)*num > c.config.Limits.MaxChoices*8 {
		return invalid("prompt", "%d prompts with %d answers each exceed the limit of a request", len(request.Prompt),
			num)
	}
	model, err := s.open(c, request.Model, request.Prompt.numBytes())
	if err != nil {
		return err
	}
	streams, err := s.submitCompletions(c, &request, model, num)
	if err != nil {
		return err
	}
	defer closeAll(streams)
	body := completionBody{newID("cmpl-"), "text_completion", time.Now().Unix(), request.Model, nil, nil, s.fingerprint(c),
		nil}
	if request.Stream {
		return s.streamCompletion(c, &request, body, streams)
	}
	return s.wholeCompletion(c, &request, body, streams)
}

func (s *Server) submitCompletions(c *call, request *completionRequest, model Model, num int) ([]Stream, error) {
	sampling, err := request.sampling()
	if err != nil {
		return nil, err
	}
	maxTokens, err := maxNewTokens(request.MaxTokens, nil)
	if err != nil {
		return nil, err
	}
	if request.MaxTokens == nil {
		maxTokens = 16 // default of OpenAI's interface
	}
	var streams []Stream
	for _, prompt := range request.Prompt {
		g := &Generation{Prompt: prompt, Sampling: sampling, Scheduling: c.scheduling(request.Priority),
			MaxNewTokens: maxTokens, StopTexts: request.Stop, IgnoreEOS: request.IgnoreEOS,
			Grammar: request.Grammar}
		if request.LogProbs != nil {
			if *request.LogProbs < 0 || *request.LogProbs > 20 {
				return nil, invalid("logprobs", "logprobs must be from 0 to 20, not %d", *request.LogProbs)
			}
			g.LogProbs, g.TopLogProbs = true, *request.LogProbs
		}
		more, err := submitAll(c, model, g, num)
		if err != nil {
			closeAll(streams)
			return nil, err
		}
		streams = append(streams, more...)
	}
	return streams, nil
}

func (r *completionRequest) echoed(choice, num int) string {
	if !r.Echo {
		return ""
	}
	return r.Prompt[choice/num].Text
}

func (s *Server) wholeCompletion(c *call, request *completionRequest, body completionBody, streams []Stream) error {
	gathered, err := gather(c, streams)
	if err != nil {
		return err
	}
	perPrompt := len(streams) / len(request.Prompt)
	results := resultsOf(gathered)
	for i, whole := range gathered {
		word := finishWord(whole.result.Finish)
		choice := completionChoice{Text: request.echoed(i, perPrompt) + whole.content.String(), Index: i,
			FinishReason: &word}
		if request.LogProbs != nil {
			offset := len([]rune(request.echoed(i, perPrompt)))
			choice.LogProbs = &completionLogProbs{}
			choice.LogProbs.add(whole.logProbs, &offset)
		}
		body.Choices = append(body.Choices, choice)
	}
	body.Usage = completionUsage(results, perPrompt)
	body.Timings = newTimings(results[:perPrompt])
	s.account(c, results)
	return answer(c, body)
}

// completionUsage counts each prompt once.
func completionUsage(results []Result, perPrompt int) *usageBody {
	total := &usageBody{}
	for first := 0; first < len(results); first += perPrompt {
		part := newUsage(results[first : first+perPrompt])
		total.PromptTokens += part.PromptTokens
		total.CompletionTokens += part.CompletionTokens
		total.PromptDetails.Cached += part.PromptDetails.Cached
	}
	total.TotalTokens = total.PromptTokens + total.CompletionTokens
	return total
}

func (s *Server) streamCompletion(c *call, request *completionRequest, body completionBody, streams []Stream) error {
	out := newSSE(c)
	results := make([]Result, len(streams))
	offsets := make([]int, len(streams))
	perPrompt := len(streams) / len(request.Prompt)
	begun := make([]bool, len(streams))
	texts := make([]chunk, len(streams))
	for i := range texts {
		text := body
		text.Choices = []completionChoice{{Index: i, Text: inText}}
		if err := texts[i].encode(text); err != nil {
			return err
		}
	}
	err := c.relay(streams, c.heartbeat(), out.heartbeat, func(item indexed) error {
		if begun[item.choice] && !item.end && len(item.piece.LogProbs) == 0 {
			return out.sendChunk(&texts[item.choice], item.piece.Text)
		}
		choice := completionChoice{Index: item.choice, Text: item.piece.Text}
		if !begun[item.choice] {
			begun[item.choice] = true
			choice.Text = request.echoed(item.choice, perPrompt) + choice.Text
			offsets[item.choice] = len([]rune(request.echoed(item.choice, perPrompt)))
		}
		if item.end {
			results[item.choice] = item.result
			word := finishWord(item.result.Finish)
			choice.FinishReason = &word
		}
		if request.LogProbs != nil && len(item.piece.LogProbs) > 0 {
			choice.LogProbs = &completionLogProbs{}
			choice.LogProbs.add(item.piece.LogProbs, &offsets[item.choice])
		}
		chunk := body
		chunk.Choices = []completionChoice{choice}
		if item.end {
			chunk.Timings = newTimings(results[item.choice : item.choice+1])
		}
		return out.send("", chunk)
	})
	if err != nil {
		return err
	}
	s.account(c, results)
	if request.StreamOptions != nil && request.StreamOptions.IncludeUsage {
		body.Choices = []completionChoice{}
		body.Usage = completionUsage(results, perPrompt)
		if err := out.send("", body); err != nil {
			return err
		}
	}
	return out.sendText("", "[DONE]")
}
