package local

import (
	"context"
	"math"
	"sort"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// Log-probabilities of prompts. The library returns those of the tokens themselves; alternatives and ranks are computed
// here from its logits, which take 4 bytes for each token of the vocabulary at each place.

// Largest logits of one job, the limit of the library, and of all jobs of an engine at the same time.
const maxLogitBytes = 1 << 30

// PromptLogProbs returns the prompt tokens of a generation with their log-probabilities and the `top` likeliest tokens
// at each place.
func (m *model) PromptLogProbs(ctx context.Context, g *server.Generation, top int) ([]server.TokenLogProb, server.Usage, error) {
	prompt := promptOf(g)
	tokens, err := m.admittedTokens(ctx, &prompt, g.Scheduling)
	if err != nil {
		return nil, server.Usage{}, err
	}
	request := quire.Request{Kind: quire.KindScore, Tokens: tokens, RawLogits: top > 0}
	schedule(&request, g.Scheduling)
	from := origin{prompt: promptField(&prompt)}
	if top > 0 {
		bytes := 4 * int64(m.info.VocabSize) * int64(len(tokens))
		if bytes > maxLogitBytes {
			return nil, server.Usage{}, invalid(from.prompt, "the prompt has %d tokens; log-probabilities with alternatives are "+
				"limited to %d tokens of this model", len(tokens), maxLogitBytes/4/m.info.VocabSize)
		}
		release, err := m.engine.logits.take(ctx, bytes)
		if err != nil {
			return nil, server.Usage{}, err
		}
		defer release()
	}
	var out []server.TokenLogProb
	usage, err := m.runMeasure(ctx, request, from, func(job *quire.Job) error {
		var err error
		if out, err = m.scoredTokens(job, tokens, top); err != nil {
			return err
		}
		return m.describeTokens(out)
	})
	return out, usage, err
}

// scoredTokens returns the results of a score, still without texts.
func (m *model) scoredTokens(job *quire.Job, tokens []int32, top int) ([]server.TokenLogProb, error) {
	out := make([]server.TokenLogProb, len(tokens))
	out[0] = server.TokenLogProb{ID: tokens[0], Log: math.NaN()}
	if top == 0 {
		scores, err := job.Scores()
		for i := 1; i < len(scores); i++ {
			out[i] = server.TokenLogProb{ID: tokens[i], Log: float64(scores[i])}
		}
		return out, err
	}
	logits, err := job.RawLogits()
	if err != nil {
		return nil, err
	}
	width := len(logits) / len(tokens)
	for i := 1; i < len(tokens); i++ {
		out[i] = rankedToken(logits[(i-1)*width:i*width], tokens[i], top)
	}
	return out, nil
}

// rankedToken returns the log-probability and the rank of a token, and the likeliest tokens, from the logits at its
// place. Of equal tokens the one with the smaller id is likelier.
func rankedToken(logits []float32, token int32, top int) server.TokenLogProb {
	best := make([]int32, 0, top+1)
	rank := 1
	for id, logit := range logits {
		if logit > logits[token] {
			rank++
		}
		if len(best) == top && logit <= logits[best[top-1]] {
			continue
		}
		place := sort.Search(len(best), func(i int) bool { return logits[best[i]] < logit })
		best = append(best, 0)
		copy(best[place+1:], best[place:])
		best[place] = int32(id)
		if len(best) > top {
			best = best[:top]
		}
	}
	sum := 0.0
	for _, logit := range logits {
		sum += math.Exp(float64(logit) - float64(logits[best[0]]))
	}
	whole := float64(logits[best[0]]) + math.Log(sum)
	out := server.TokenLogProb{ID: token, Log: float64(logits[token]) - whole, Rank: rank}
	for _, id := range best {
		out.Top = append(out.Top, server.TokenLogProb{ID: id, Log: float64(logits[id]) - whole})
	}
	return out
}

// describeTokens adds the texts of tokens.
func (m *model) describeTokens(entries []server.TokenLogProb) error {
	for i := range entries {
		entry := &entries[i]
		var err error
		if entry.Bytes, err = m.model.TokenBytes(entry.ID); err != nil {
			return err
		}
		if entry.Special, err = m.model.IsSpecial(entry.ID); err != nil {
			return err
		}
		entry.Token = string(entry.Bytes)
		if err := m.describeTokens(entry.Top); err != nil {
			return err
		}
	}
	return nil
}

// memoryShare bounds the memory that several tasks take at the same time.
type memoryShare struct {
	turn  chan struct{} // held by the task that takes units, so that two tasks never wait for each other
	units chan struct{}
}

const shareUnitBytes = 16 << 20

// newMemoryShare creates a share of some bytes; no task may take more.
func newMemoryShare(bytes int64) *memoryShare {
	return &memoryShare{make(chan struct{}, 1), make(chan struct{}, bytes/shareUnitBytes)}
}

// take waits for the memory of a task, in the order of the calls, until ctx ends. The task calls `release` at its end.
func (s *memoryShare) take(ctx context.Context, bytes int64) (release func(), err error) {
	taken := 0
	release = func() {
		for ; taken > 0; taken-- {
			<-s.units
		}
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	for num := int((bytes + shareUnitBytes - 1) / shareUnitBytes); taken < num; {
		select {
		case s.units <- struct{}{}:
			taken++
		case <-ctx.Done():
			release()
			return nil, ctx.Err()
		}
	}
	return release, nil
}
