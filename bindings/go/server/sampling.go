package server

import (
	"encoding/json"
	"strconv"
)

// commonFields holds the settings that all generating requests of OpenAI share, and extensions of other
// servers.
type commonFields struct {
	Model             string             `json:"model"`
	Temperature       *float64           `json:"temperature"`
	TopP              *float64           `json:"top_p"`
	TopK              *int               `json:"top_k"`
	MinP              *float64           `json:"min_p"`
	Seed              *int64             `json:"seed"`
	FrequencyPenalty  *float64           `json:"frequency_penalty"`
	PresencePenalty   *float64           `json:"presence_penalty"`
	RepetitionPenalty *float64           `json:"repetition_penalty"`
	LogitBias         map[string]float64 `json:"logit_bias"`
	GuidanceScale     *float64           `json:"guidance_scale"`
	NegativePrompt    string             `json:"negative_prompt"`
	Stop              stopTexts          `json:"stop"`
	IgnoreEOS         bool               `json:"ignore_eos"`
	N                 *int               `json:"n"`
	Stream            bool               `json:"stream"`
	StreamOptions     *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Priority *int   `json:"priority"`
	User     string `json:"user"`
}

// stopTexts is one text or a list of texts.
type stopTexts []string

func (s *stopTexts) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		if one != "" {
			*s = stopTexts{one}
		}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(s))
}

func (f *commonFields) sampling() (Sampling, error) {
	out := Sampling{Temperature: f.Temperature, TopP: f.TopP, TopK: f.TopK, MinP: f.MinP,
		FrequencyPenalty: f.FrequencyPenalty, PresencePenalty: f.PresencePenalty, RepetitionPenalty: f.RepetitionPenalty,
		GuidanceScale: f.GuidanceScale, NegativePrompt: f.NegativePrompt}
	if err := inRange("temperature", f.Temperature, 0, 100); err != nil {
		return out, err
	}
	if err := inRange("top_p", f.TopP, 0, 1); err != nil {
		return out, err
	}
	if f.TopP != nil && *f.TopP == 0 { // the smallest nucleus of OpenAI: the likeliest token
		greedy := 0.0
		out.Temperature, out.TopP = &greedy, nil
	}
	if f.Seed != nil {
		seed := uint64(*f.Seed)
		out.Seed = &seed
	}
	for token, bias := range f.LogitBias {
		id, err := strconv.ParseInt(token, 10, 32)
		if err != nil {
			return out, invalid("logit_bias", "logit_bias has the key %q, which is not a token id", token)
		}
		if out.LogitBias == nil {
			out.LogitBias = map[int32]float64{}
		}
		out.LogitBias[int32(id)] = bias
	}
	return out, nil
}

func inRange(param string, value *float64, min, max float64) error {
	if value != nil && !(*value >= min && *value <= max) {
		return invalid(param, "%s must be from %g to %g, not %g", param, min, max, *value)
	}
	return nil
}

// choices returns the number of requested answers.
func (f *commonFields) choices(limits *Limits) (int, error) {
	if f.N == nil {
		return 1, nil
	}
	if *f.N < 1 || *f.N > limits.MaxChoices {
		return 0, invalid("n", "n must be from 1 to %d, not %d", limits.MaxChoices, *f.N)
	}
	return *f.N, nil
}

// submitAll submits the generation once per choice. Later choices get different seeds. Common prompt prefixes
// are computed once.
func submitAll(c *call, model Model, g *Generation, num int) ([]Stream, error) {
	streams := make([]Stream, 0, num)
	for i := 0; i < num; i++ {
		each := *g
		if g.Seed != nil {
			seed := *g.Seed + uint64(i)
			each.Seed = &seed
		}
		stream, err := model.Submit(c.ctx, &each)
		if err != nil {
			closeAll(streams)
			return nil, err
		}
		streams = append(streams, stream)
	}
	return streams, nil
}

func closeAll(streams []Stream) {
	for _, stream := range streams {
		stream.Close()
	}
}

// usageBody is OpenAI's usage of one request: a prompt counts once, even with several answers.
type usageBody struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
	PromptDetails    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func newUsage(results []Result) *usageBody {
	out := &usageBody{}
	for i, result := range results {
		if i == 0 {
			out.PromptTokens = result.Usage.Prompt
			out.PromptDetails.Cached = result.Usage.Cached
		}
		out.CompletionTokens += result.Usage.New
		out.CompletionDetails.Reasoning += result.Usage.Reasoning
	}
	out.TotalTokens = out.PromptTokens + out.CompletionTokens
	return out
}

// account keeps the results for the trace span. Tokens are charged and counted as they are computed (meter.go).
func (s *Server) account(c *call, results []Result) { c.traced.results = results }
