package server

import (
	"encoding/json"
	"sort"
	"strings"
)

// What an answer of /completion and /infill reports, as the client wants it.

// llamaReport holds the fields of a request about the fields of its answer.
type llamaReport struct {
	ReturnTokens   bool     `json:"return_tokens"`   // streams always have the tokens
	ResponseFields []string `json:"response_fields"` // paths of the fields that a whole answer has; all if it is empty
}

// reported returns the fields of an answer that the request lists, each by its path, such as "generation_settings/n_predict". Paths
// that the answer lacks are left out.
func (r *llamaReport) reported(whole *llamaWhole) (interface{}, error) {
	if len(r.ResponseFields) == 0 {
		return whole, nil
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	for _, path := range r.ResponseFields {
		value := json.RawMessage(text)
		for _, name := range strings.Split(path, "/") {
			var object map[string]json.RawMessage
			if json.Unmarshal(value, &object) != nil {
				value = nil
				break
			}
			value = object[name]
		}
		if value != nil {
			out[path] = value
		}
	}
	return out, nil
}

// llamaTokenProb is a token with its id and log-probability.
type llamaTokenProb struct {
	ID int32 `json:"id"`
	tokenLogProb
}

func llamaTokenProbOf(entry *TokenLogProb) llamaTokenProb {
	var names tokenFields
	return llamaTokenProb{entry.ID, names.logProbOf(entry)}
}

// llamaBias is the bias of a token; null means that it is never drawn.
type llamaBias struct {
	Token int32    `json:"token"`
	Bias  *float64 `json:"bias"`
}

// llamaBiases returns the biases of a generation in the order of their tokens. An end of sequence that is ignored is
// never drawn.
func llamaBiases(model Model, g *Generation) []llamaBias {
	out := []llamaBias{}
	for token, bias := range g.LogitBias {
		value := bias
		one := llamaBias{token, &value}
		if bias == neverBias {
			one.Bias = nil
		}
		out = append(out, one)
	}
	if g.IgnoreEOS {
		if end, err := model.FindToken(model.Info().EOS); err == nil && end >= 0 {
			out = append(out, llamaBias{Token: end})
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Token < out[j].Token })
	return out
}

// biasTexts adds the biases of all tokens of texts.
func (g *Generation) biasTexts(model Model, biases map[string]float64) error {
	for text, bias := range biases {
		tokens, err := model.Tokenize(text, false)
		if err != nil {
			return err
		}
		if g.LogitBias == nil {
			g.LogitBias = map[int32]float64{}
		}
		for _, token := range tokens {
			g.LogitBias[token] = bias
		}
	}
	return nil
}
