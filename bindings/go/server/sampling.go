package server

import (
	"encoding/json"
	"strconv"
	"strings"
)

// commonFields holds the settings that all generating requests of OpenAI share, and extensions of other
// servers.
type commonFields struct {
	Model             string    `json:"model"`
	Temperature       *float64  `json:"temperature"`
	TopP              *float64  `json:"top_p"`
	TopK              *int      `json:"top_k"`
	MinP              *float64  `json:"min_p"`
	Seed              *int64    `json:"seed"`
	FrequencyPenalty  *float64  `json:"frequency_penalty"`
	PresencePenalty   *float64  `json:"presence_penalty"`
	RepetitionPenalty *float64  `json:"repetition_penalty"`
	LogitBias         logitBias `json:"logit_bias"`
	GuidanceScale     *float64  `json:"guidance_scale"`
	NegativePrompt    string    `json:"negative_prompt"`
	Stop              stopTexts `json:"stop"`
	IgnoreEOS         bool      `json:"ignore_eos"`
	N                 *int      `json:"n"`
	Stream            bool      `json:"stream"`
	StreamOptions     *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Priority *int `json:"priority"`
	restrictionFields
	samplerFields
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

// Bias of a token that is never drawn.
const neverBias = -1e30

// logitBias has a bias for each token id. llama.cpp's form is a list of pairs [ID, BIAS], with false in place of a
// bias for a token that is never drawn.
type logitBias map[string]float64

func (b *logitBias) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, (*map[string]float64)(b)) == nil {
		return nil
	}
	var pairs [][2]json.RawMessage
	if json.Unmarshal(text, &pairs) != nil {
		return invalid("logit_bias", "logit_bias must be an object, or a list of pairs of a token id and its bias")
	}
	*b = logitBias{}
	for _, pair := range pairs {
		var token int32
		var text string
		bias := neverBias
		isText := json.Unmarshal(pair[0], &text) == nil
		if isAbsent(pair[0]) || !isText && json.Unmarshal(pair[0], &token) != nil ||
			string(pair[1]) != "false" && (isAbsent(pair[1]) || json.Unmarshal(pair[1], &bias) != nil) {
			return invalid("logit_bias", "a pair of logit_bias must be a token id and its bias, a number or false")
		}
		if isText {
			(*b)[textBias+text] = bias
		} else {
			(*b)[strconv.Itoa(int(token))] = bias
		}
	}
	return nil
}

// textBias begins the key of a text, which may have the form of a token id.
const textBias = "\x00"

// takeTexts removes the keys that are no token ids, and returns them with their biases. llama.cpp biases each token of
// such a text.
func (b logitBias) takeTexts() map[string]float64 {
	texts := map[string]float64{}
	for key, bias := range b {
		if _, err := strconv.ParseInt(key, 10, 32); err != nil {
			texts[strings.TrimPrefix(key, textBias)] = bias
			delete(b, key)
		}
	}
	return texts
}

func (b logitBias) byToken() (map[int32]float64, error) {
	if len(b) == 0 {
		return nil, nil
	}
	out := make(map[int32]float64, len(b))
	for token, bias := range b {
		id, err := strconv.ParseInt(token, 10, 32)
		if err != nil {
			return nil, invalid("logit_bias", "logit_bias has the key %q, which is not a token id", strings.TrimPrefix(token, textBias))
		}
		out[int32(id)] = bias
	}
	return out, nil
}

func (f *commonFields) sampling() (Sampling, error) {
	out := Sampling{Temperature: f.Temperature, TopP: f.TopP, TopK: f.TopK, MinP: f.MinP,
		FrequencyPenalty: f.FrequencyPenalty, PresencePenalty: f.PresencePenalty,
		GuidanceScale: f.GuidanceScale, NegativePrompt: f.NegativePrompt}
	var err error
	if out.RepetitionPenalty, err = either("repetition_penalty", f.RepetitionPenalty, "repeat_penalty", f.RepeatPenalty); err != nil {
		return out, err
	}
	if err := inRange("temperature", f.Temperature, 0, 100); err != nil {
		return out, err
	}
	if err := inRange("top_p", f.TopP, 0, 1); err != nil {
		return out, err
	}
	if err := inRange("repetition_penalty", out.RepetitionPenalty, 0.01, 100); err != nil {
		return out, err
	}
	if f.TopP != nil && *f.TopP == 0 { // the smallest nucleus of OpenAI: the likeliest token
		greedy := 0.0
		out.Temperature, out.TopP = &greedy, nil
	}
	if f.Seed != nil && *f.Seed != -1 { // -1 is a random seed in llama.cpp and vLLM
		seed := uint64(*f.Seed)
		out.Seed = &seed
	}
	if out.LogitBias, err = f.LogitBias.byToken(); err != nil {
		return out, err
	}
	return out, f.samplerFields.fill(&out)
}

// either returns the value of a field that has two names. Both may be there if they agree.
func either[T comparable](name string, value *T, otherName string, other *T) (*T, error) {
	if value == nil {
		return other, nil
	}
	if other != nil && *other != *value {
		return nil, invalid(otherName, "%s and %s are the same setting; send one of them", name, otherName)
	}
	return value, nil
}

func inRange(param string, value *float64, min, max float64) error {
	if value != nil && !(*value >= min && *value <= max) {
		return invalid(param, "%s must be from %g to %g, not %g", param, min, max, *value)
	}
	return nil
}

// choices returns the number of requested answers.
func (f *commonFields) choices(limits *Limits) (int, error) {
	num, err := either("n", f.N, "n_cmpl", f.NumCompletions)
	if err != nil || num == nil {
		return 1, err
	}
	if *num < 1 || *num > limits.MaxChoices {
		return 0, invalid("n", "n must be from 1 to %d, not %d", limits.MaxChoices, *num)
	}
	return *num, nil
}

// oneChoice refuses several answers, for interfaces that have one.
func (f *commonFields) oneChoice(limits *Limits) error {
	num, err := f.choices(limits)
	if err == nil && num != 1 {
		return invalid("n", "n must be 1, not %d: an answer has one choice; send the request several times", num)
	}
	return err
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
