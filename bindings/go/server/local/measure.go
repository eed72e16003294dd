package local

import (
	"context"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// Jobs that generate nothing.

// Embed computes one vector of a prompt.
func (m *model) Embed(ctx context.Context, input server.Prompt, s server.Scheduling) (server.Embedding, error) {
	var out server.Embedding
	_, usage, err := m.measure(ctx, quire.KindEmbed, &input, s, func(job *quire.Job) (err error) {
		out.Vector, err = job.Embedding()
		return err
	})
	out.Usage = usage
	return out, err
}

// Score computes how likely each token of a prompt is after those before it.
func (m *model) Score(ctx context.Context, input server.Prompt, s server.Scheduling) (server.Scores, error) {
	var out server.Scores
	tokens, usage, err := m.measure(ctx, quire.KindScore, &input, s, func(job *quire.Job) error {
		scores, err := job.Scores()
		for i := 1; i < len(scores); i++ { // the first token has none
			out.LogProbs = append(out.LogProbs, float64(scores[i]))
		}
		return err
	})
	out.Tokens, out.Usage = tokens, usage
	return out, err
}

// admittedTokens returns the tokens of a prompt that may be computed.
func (m *model) admittedTokens(ctx context.Context, input *server.Prompt, s server.Scheduling) ([]int32, error) {
	tokens, err := m.promptTokens(input)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // the client has left while the prompt was tokenized
		return nil, err
	}
	if s.Admit != nil {
		if err := s.Admit(len(tokens)); err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

// measure runs a job to its end and reads its result.
func (m *model) measure(ctx context.Context, kind quire.JobKind, input *server.Prompt, s server.Scheduling,
	read func(job *quire.Job) error) ([]int32, server.Usage, error) {
	tokens, err := m.admittedTokens(ctx, input, s)
	if err != nil {
		return nil, server.Usage{}, err
	}
	request := quire.Request{Kind: kind, Tokens: tokens}
	schedule(&request, s)
	usage, err := m.runMeasure(ctx, request, origin{prompt: promptField(input)}, read)
	return tokens, usage, err
}

// runMeasure runs a job that generates nothing.
func (m *model) runMeasure(ctx context.Context, request quire.Request, from origin, read func(job *quire.Job) error) (
	server.Usage, error) {
	job, err := m.cache.Submit(request)
	if err != nil {
		return server.Usage{}, m.failed(from, err)
	}
	defer job.Close()
	event, err := job.Next(ctx)
	for err == nil && event.Usage == nil {
		event, err = job.Next(ctx)
	}
	if err != nil {
		return server.Usage{}, m.failed(from, err)
	}
	return usageOf(event.Usage.PromptTokens, event.Usage.CachedTokens, 0), read(job)
}
