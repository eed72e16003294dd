package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// timings is llama.cpp's object with the speed of an answer. Several answers to one prompt count as one: their
// tokens are added up, and the longest time counts.
type timings struct {
	CachedTokens      int     `json:"cache_n"`
	PromptTokens      int     `json:"prompt_n"` // computed, not found in the cache
	PromptMS          float64 `json:"prompt_ms"`
	PromptPerTokenMS  float64 `json:"prompt_per_token_ms"`
	PromptPerSecond   float64 `json:"prompt_per_second"`
	PredictedTokens   int     `json:"predicted_n"`
	PredictedMS       float64 `json:"predicted_ms"`
	PredictedPerToken float64 `json:"predicted_per_token_ms"`
	PredictedPerSec   float64 `json:"predicted_per_second"`
	DraftTokens       int     `json:"draft_n,omitempty"`
	AcceptedTokens    int     `json:"draft_n_accepted,omitempty"`
}

func newTimings(results []Result) *timings {
	out := &timings{}
	for i, result := range results {
		if i == 0 {
			out.CachedTokens = result.Usage.Cached
			out.PromptTokens = result.Usage.Prompt - result.Usage.Cached
			out.PromptMS = milliseconds(result.Times.Prompt)
		}
		out.PredictedTokens += result.Usage.New
		out.DraftTokens += result.Usage.Drafted
		out.AcceptedTokens += result.Usage.Accepted
		if took := milliseconds(result.Times.Generate); took > out.PredictedMS {
			out.PredictedMS = took
		}
	}
	out.PromptPerTokenMS, out.PromptPerSecond = rates(out.PromptTokens, out.PromptMS)
	out.PredictedPerToken, out.PredictedPerSec = rates(out.PredictedTokens, out.PredictedMS)
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// rates returns the milliseconds of a token and the tokens of a second; 0 if there are no tokens or no time.
func rates(tokens int, ms float64) (perToken, perSecond float64) {
	if tokens <= 0 || ms <= 0 {
		return 0, 0
	}
	return ms / float64(tokens), 1000 * float64(tokens) / ms
}

// Versioned is an optional interface of an Engine: the version of its library.
type Versioned interface{ Version() string }

func (s *Server) version() string {
	if versioned, is := s.engine.(Versioned); is {
		return versioned.Version()
	}
	return "unknown"
}

// fingerprint returns OpenAI's system_fingerprint: it changes if the library, or the configuration of the call's
// model, changes. With equal fingerprints, equal requests with a seed get equal answers.
func (s *Server) fingerprint(c *call) string {
	model := c.traced.model
	text, _ := json.Marshal(struct {
		Version, Name string
		Model         ModelConfig
	}{s.version(), model, c.config.Models[model]})
	digest := sha256.Sum256(text)
	return "fp_" + hex.EncodeToString(digest[:5])
}
