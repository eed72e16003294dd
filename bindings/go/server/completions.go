package server

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// completionRequest is the body of /v1/completions.
type completionRequest struct {
	commonFields
	Prompt           promptField     `json:"prompt"`
	MaxTokens        *int            `json:"max_tokens"`
	LogProbs         *int            `json:"logprobs"`
	Echo             bool            `json:"echo"`
	BestOf           *int            `json:"best_of"`
	AddSpecialTokens *bool           `json:"add_special_tokens"`
	ResponseFormat   json.RawMessage `json:"response_format"`
	formatFields
	truncation
	tokenFields
}

// promptField is a text, texts, token ids, or lists of token ids.
type promptField []Prompt

func (p *promptField) UnmarshalJSON(value []byte) error {
	var text string
	var texts []*string
	var tokens []int32
	var lists [][]int32
	switch {
	case json.Unmarshal(value, &text) == nil:
		*p = promptField{{Text: text}}
	case json.Unmarshal(value, &texts) == nil:
		for _, each := range texts {
			if each == nil {
				return invalid("prompt", "the prompt has null in place of a text; leave it out")
			}
			*p = append(*p, Prompt{Text: *each})
		}
	case json.Unmarshal(value, &tokens) == nil:
		*p = promptField{{Tokens: tokens}}
	case json.Unmarshal(value, &lists) == nil:
		for _, each := range lists {
			*p = append(*p, Prompt{Tokens: each})
		}
	default:
		return invalid("prompt", "prompt must be a text, token ids, or a list of either")
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
	Text           string                   `json:"text"`
	Index          int                      `json:"index"`
	LogProbs       *completionLogProbs      `json:"logprobs"`
	FinishReason   *string                  `json:"finish_reason"`
	TokenIDs       []int32                  `json:"token_ids,omitempty"`
	PromptTokenIDs []int32                  `json:"prompt_token_ids,omitempty"`
	PromptLogProbs []map[string]promptEntry `json:"prompt_logprobs,omitempty"`
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

// completion is a request at work. Each prompt has numEach streams, one after the other.
type completion struct {
	request *completionRequest
	body    completionBody
	prompts []completionPrompt
	streams []Stream
	numEach int
	num     int // answers to each prompt, at most numEach
}

// completionPrompt is what the answer reports about a prompt.
type completionPrompt struct {
	promptTokens
	text   string // of an echo
	isText bool   // the prompt was a text, so its echo has no special tokens
}

func (s *Server) completions(c *call) error {
	var request completionRequest
	if err := c.read(&request); err != nil {
		return err
	}
	w := &completion{request: &request}
	generations, err := w.plan(c)
	if err != nil {
		return err
	}
	s.fillModel(c, &request.Model)
	model, err := s.open(c, request.Model, request.Prompt.numBytes())
	if err != nil {
		return err
	}
	defer func() { closeAll(w.streams) }()
	if err := w.begin(c, model, generations); err != nil {
		return err
	}
	w.body = completionBody{ID: newID("cmpl-"), Object: "text_completion", Created: time.Now().Unix(), Model: request.Model,
		System: s.fingerprint(c)}
	if request.Stream {
		return s.streamCompletion(c, w)
	}
	return s.wholeCompletion(c, w)
}

// plan checks the request and returns a generation for each prompt.
func (w *completion) plan(c *call) ([]*Generation, error) {
	if len(w.request.Prompt) == 0 {
		return nil, invalid("prompt", "prompt is missing")
	}
	if err := w.planChoices(&c.config.Limits); err != nil {
		return nil, err
	}
	g, err := w.request.generation(c)
	if err != nil {
		return nil, err
	}
	g.LogProbs = g.LogProbs || w.numEach > w.num // the best answers are chosen by them
	generations := make([]*Generation, len(w.request.Prompt))
	for i, prompt := range w.request.Prompt {
		each := *g
		each.Prompt = w.request.asSent(prompt)
		generations[i] = &each
	}
	return generations, nil
}

func (w *completion) planChoices(limits *Limits) error {
	var err error
	if w.num, err = w.request.choices(limits); err != nil {
		return err
	}
	w.numEach = w.num
	if best := w.request.BestOf; best != nil {
		if *best < w.num || *best > limits.MaxChoices {
			return invalid("best_of", "best_of must be from n, %d, to %d, not %d", w.num, limits.MaxChoices, *best)
		}
		if *best > w.num && w.request.Stream {
			return invalid("best_of", "best_of above n needs the whole answers; leave out stream")
		}
		w.numEach = *best
	}
	if len(w.request.Prompt)*w.numEach > limits.MaxChoices*8 {
		return invalid("prompt", "%d prompts with %d answers each exceed the %d answers of a request; send several requests",
			len(w.request.Prompt), w.numEach, limits.MaxChoices*8)
	}
	return nil
}

// generation returns what the prompts have in common.
func (r *completionRequest) generation(c *call) (*Generation, error) {
	sampling, err := r.sampling()
	if err != nil {
		return nil, err
	}
	g := &Generation{Sampling: sampling, Scheduling: c.scheduling(r.Priority), StopTexts: r.Stop, IgnoreEOS: r.IgnoreEOS,
		TokenIDs: r.ReturnTokenIDs}
	if r.LogProbs != nil {
		if *r.LogProbs < 0 || *r.LogProbs > maxTopLogProbs {
			return nil, invalid("logprobs", "logprobs must be from 0 to %d, not %d", maxTopLogProbs, *r.LogProbs)
		}
		g.LogProbs, g.TopLogProbs = true, *r.LogProbs
	}
	if err := r.tokenFields.check(r.Stream); err != nil {
		return nil, err
	}
	if err := r.formatFields.fill(g, r.ResponseFormat); err != nil {
		return nil, err
	}
	if g.MaxNewTokens, err = r.maxTokens(); err != nil {
		return nil, err
	}
	g.Restrictions, err = r.restrictions(g.MaxNewTokens)
	return g, err
}

// Default of OpenAI's interface.
const completionTokens = 16

// maxTokens returns the number of tokens to generate; 0 means the rest of the context, or none if the request only
// echoes.
func (r *completionRequest) maxTokens() (int, error) {
	asked, err := r.newTokens(r.MaxTokens)
	switch {
	case err != nil:
		return 0, err
	case r.echoesOnly():
		return 0, nil
	case asked == nil && r.NumPredict == nil:
		return completionTokens, nil
	}
	return maxNewTokens(asked, nil)
}

// echoesOnly reports whether the request generates nothing, as evaluation harnesses ask for.
func (r *completionRequest) echoesOnly() bool {
	asked, err := r.newTokens(r.MaxTokens)
	return err == nil && r.Echo && asked != nil && *asked == 0
}

// asSent returns a prompt with the settings of the request.
func (r *completionRequest) asSent(prompt Prompt) Prompt {
	prompt.NoSpecial = r.AddSpecialTokens != nil && !*r.AddSpecialTokens
	return prompt
}

// cutPrompt replaces a prompt that is too long for the request by its remaining tokens.
func (r *completionRequest) cutPrompt(model *meteredModel, g *Generation) error {
	tokens, err := r.cut(model, g, g.MaxNewTokens)
	if tokens != nil {
		g.Prompt = Prompt{Tokens: tokens}
	}
	return err
}

// begin computes what the request asks to know about its prompts, and submits the generations.
func (w *completion) begin(c *call, model *meteredModel, generations []*Generation) error {
	for _, g := range generations {
		if err := w.request.cutPrompt(model, g); err != nil {
			return err
		}
	}
	if err := w.askAboutPrompts(c, model, generations); err != nil {
		return err
	}
	for i, g := range generations {
		if w.request.echoesOnly() {
			w.streams = append(w.streams, noStreams(w.numEach, w.prompts[i].usage)...)
			continue
		}
		more, err := submitAll(c, model, g, w.numEach)
		if err != nil {
			return err
		}
		w.streams = append(w.streams, more...)
	}
	return nil
}

// askAboutPrompts computes what the answer reports about the prompts. The generations find their computed pages.
func (w *completion) askAboutPrompts(c *call, model Model, generations []*Generation) error {
	w.prompts = make([]completionPrompt, len(generations))
	r := w.request
	if !r.Echo && !r.ReturnTokenIDs && r.PromptLogProbs == nil {
		return nil
	}
	numTop := -1
	if r.Echo && r.LogProbs != nil {
		numTop = *r.LogProbs
	}
	_, err := eachInput(c, len(generations), func(ctx context.Context, i int) (Usage, error) {
		g, prompt := generations[i], &w.prompts[i]
		var err error
		if prompt.promptTokens, err = r.measure(ctx, model, g, numTop); err != nil {
			return Usage{}, err
		}
		if r.Echo {
			prompt.isText = g.Tokens == nil
			prompt.text, err = echoOf(model, &g.Prompt)
		}
		if err == nil && r.echoesOnly() && prompt.logProbs == nil {
			var tokens []int32
			tokens, err = model.PromptTokens(g)
			prompt.usage.Prompt = len(tokens)
		}
		return Usage{}, err
	})
	return err
}

// echoOf returns the text of a prompt.
func echoOf(model Model, prompt *Prompt) (string, error) {
	if prompt.Tokens == nil {
		return prompt.Text, nil
	}
	return model.Detokenize(prompt.Tokens)
}

// noStream is the stream of a request that generates nothing.
type noStream struct{ result Result }

// noStreams returns streams of one prompt; the first has its usage.
func noStreams(num int, usage Usage) []Stream {
	streams := make([]Stream, num)
	for i := range streams {
		streams[i] = &noStream{Result{Finish: FinishLength, Usage: usage}}
		usage = Usage{}
	}
	return streams
}

func (s *noStream) Next(context.Context) (Piece, error) { return Piece{}, io.EOF }

func (s *noStream) Result() Result { return s.result }

// Progress returns no tokens: those of the prompt are charged where they are computed.
func (s *noStream) Progress() Progress { return Progress{} }

func (s *noStream) Hold(bool) {}

func (s *noStream) Close() {}
