package server

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// Largest number of alternatives of a token that a request may ask for.
const maxTopLogProbs = 20

// tokenFields holds the requested facts about tokens, under vLLM's names.
type tokenFields struct {
	PromptLogProbs         *int `json:"prompt_logprobs"`
	ReturnTokenIDs         bool `json:"return_token_ids"`
	ReturnTokensAsTokenIDs bool `json:"return_tokens_as_token_ids"`
}

func (f *tokenFields) check(stream bool) error {
	if f.PromptLogProbs == nil {
		return nil
	}
	if *f.PromptLogProbs < 0 || *f.PromptLogProbs > maxTopLogProbs {
		return invalid("prompt_logprobs", "prompt_logprobs must be from 0 to %d, not %d", maxTopLogProbs, *f.PromptLogProbs)
	}
	if stream {
		return invalid("prompt_logprobs", "prompt_logprobs are not in streams; leave out stream, or use echo and logprobs "+
			"of /v1/completions")
	}
	return nil
}

// name returns how a token appears in log-probabilities.
func (f *tokenFields) name(entry *TokenLogProb) string {
	if f.ReturnTokensAsTokenIDs {
		return "token_id:" + strconv.Itoa(int(entry.ID))
	}
	return entry.Token
}

// promptEntry is a token of prompt_logprobs.
type promptEntry struct {
	LogProb float64 `json:"logprob"`
	Rank    int     `json:"rank,omitempty"`
	Token   string  `json:"decoded_token"`
}

// promptLogProbs returns the log-probabilities of a prompt in vLLM's form: for each token but the first an object with
// the token itself and the likeliest ones, by their ids.
func (f *tokenFields) promptLogProbs(entries []TokenLogProb) []map[string]promptEntry {
	if f.PromptLogProbs == nil {
		return nil
	}
	out := make([]map[string]promptEntry, len(entries))
	for i, entry := range entries {
		if math.IsNaN(entry.Log) {
			continue
		}
		out[i] = map[string]promptEntry{}
		for rank, other := range entry.Top {
			if rank < *f.PromptLogProbs {
				out[i][strconv.Itoa(int(other.ID))] = promptEntry{other.Log, rank + 1, other.Token}
			}
		}
		out[i][strconv.Itoa(int(entry.ID))] = promptEntry{entry.Log, entry.Rank, entry.Token}
	}
	return out
}

// promptTokens is what a request gets to know about one of its prompts.
type promptTokens struct {
	ids      []int32        // only if they are requested or needed
	logProbs []TokenLogProb // only if they are requested
	usage    Usage          // of computing them
}

// measure computes what the request asks to know about a prompt. numTop is the number of alternatives; below 0
// log-probabilities are not needed.
func (f *tokenFields) measure(ctx context.Context, model Model, g *Generation, numTop int) (promptTokens, error) {
	var out promptTokens
	var err error
	if f.PromptLogProbs != nil && numTop <= *f.PromptLogProbs {
		numTop = *f.PromptLogProbs
		if numTop == 0 {
			numTop = 1 // ranks are known only with alternatives
		}
	}
	if numTop >= 0 {
		out.logProbs, out.usage, err = model.PromptLogProbs(ctx, g, numTop)
	}
	if f.ReturnTokenIDs && err == nil {
		out.ids, err = model.PromptTokens(g)
	}
	return out, err
}

// completionLogProbs is the older format with parallel lists.
type completionLogProbs struct {
	Tokens        []string       `json:"tokens"`
	TokenLogProbs []logProb      `json:"token_logprobs"`
	TopLogProbs   []alternatives `json:"top_logprobs"`
	TextOffset    []int          `json:"text_offset"`
}

// logProbWriter writes the lists of one answer, in several parts if it is streamed.
type logProbWriter struct {
	fields *tokenFields
	numTop int // requested number of alternatives
	place  characterCount
}

// logProb is null if it is not a number, as that of the first token of a prompt.
type logProb float64

func (l logProb) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(l)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(l))
}

// alternatives has the log-probabilities of tokens by their texts.
type alternatives map[string]float64

// add adds tokens to the lists. Special tokens are not in the text if isText.
func (w *logProbWriter) add(l *completionLogProbs, entries []TokenLogProb, isText bool) {
	for i := range entries {
		entry := &entries[i]
		l.Tokens = append(l.Tokens, w.fields.name(entry))
		l.TokenLogProbs = append(l.TokenLogProbs, logProb(entry.Log))
		l.TopLogProbs = append(l.TopLogProbs, w.alternatives(entry))
		l.TextOffset = append(l.TextOffset, w.place.count)
		if !isText || !entry.Special {
			w.place.add(entry.Bytes)
		}
	}
}

// alternatives returns the likeliest tokens and the token itself. Tokens with one text, such as parts of a character,
// have one entry, that of the likeliest.
func (w *logProbWriter) alternatives(entry *TokenLogProb) alternatives {
	if math.IsNaN(entry.Log) {
		return nil
	}
	out := alternatives{}
	take := func(other *TokenLogProb) {
		if name := w.fields.name(other); !out.has(name, other.Log) {
			out[name] = other.Log
		}
	}
	for i := range entry.Top {
		if i < w.numTop {
			take(&entry.Top[i])
		}
	}
	if w.numTop > 0 {
		take(entry)
	}
	return out
}

// has reports whether a token of this name has at least this log-probability.
func (a alternatives) has(name string, atLeast float64) bool {
	value, has := a[name]
	return has && value >= atLeast
}

// characterCount counts characters of text that arrives in bytes. A character counts once it is complete.
type characterCount struct {
	count int
	rest  []byte // of a character that is not complete
}

func (c *characterCount) add(text []byte) {
	c.rest = append(c.rest, text...)
	for len(c.rest) > 0 && utf8.FullRune(c.rest) {
		_, size := utf8.DecodeRune(c.rest)
		c.rest = c.rest[size:]
		c.count++
	}
}
