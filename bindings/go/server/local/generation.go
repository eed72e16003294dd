package local

import (
	"context"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// Submit hands a generation to the cache. Everything that can be refused is refused here.
func (m *model) Submit(_ context.Context, g *server.Generation) (server.Stream, error) {
	request, err := m.request(g)
	if err != nil {
		return nil, err
	}
	s := &stream{model: m, topLogProbs: request.TopLogProbs}
	promptEnd := ""
	if g.Messages != nil {
		if promptEnd, err = m.promptEnd(request.Tokens); err != nil {
			return nil, err
		}
		if s.answer, err = m.newAnswer(g, promptEnd); err != nil {
			return nil, err
		}
		request.EmitSpecial = m.dialect != plainDialect // its marks may be special tokens
		m.limitReasoning(&request, g.ReasoningBudget)
	}
	if s.job, err = m.constrainedJob(g, request, promptEnd); err != nil {
		if s.answer != nil {
			s.answer.close()
		}
		return nil, err
	}
	return s, nil
}

func (m *model) constrainedJob(g *server.Generation, request quire.Request, promptEnd string) (*quire.Job, error) {
	constraint, err := m.constraint(g, promptEnd)
	if err != nil {
		return nil, err
	}
	if constraint != nil {
		defer constraint.Close()
		request.Constraint = constraint
	}
	job, err := m.cache.Submit(request)
	if err != nil {
		return nil, m.failed(err)
	}
	return job, nil
}

// failed is jobFailure, and gives up a model whose device is gone.
func (m *model) failed(err error) error {
	var failure *quire.Error
	if asError(err, &failure) && failure.Code == quire.DeviceLost {
		m.engine.lost(m)
	}
	return jobFailure(err)
}

// CountTokens is the length of a generation's prompt.
func (m *model) CountTokens(g *server.Generation) (int, error) {
	prompt := promptOf(g)
	tokens, err := m.promptTokens(&prompt)
	return len(tokens), err
}

// promptOf leaves out the tools that the client does not want called.
func promptOf(g *server.Generation) server.Prompt {
	prompt := g.Prompt
	if g.ToolChoice == "none" {
		prompt.Tools = nil
	}
	return prompt
}

func (m *model) request(g *server.Generation) (quire.Request, error) {
	prompt := promptOf(g)
	tokens, err := m.promptTokens(&prompt)
	if err != nil {
		return quire.Request{}, err
	}
	room := m.info.ContextTokens - len(tokens)
	if room < 1 {
		failure := invalid("messages", "the prompt has %d tokens, and the model sees %d at once", len(tokens),
			m.info.ContextTokens)
		failure.Code = "context_length_exceeded"
		return quire.Request{}, failure
	}
	request := quire.Request{Tokens: tokens, MaxNewTokens: room, StopTexts: g.StopTexts, IgnoreEOS: g.IgnoreEOS,
		LogProbs: g.LogProbs, TopLogProbs: g.TopLogProbs}
	if g.MaxNewTokens > 0 && g.MaxNewTokens < room {
		request.MaxNewTokens = g.MaxNewTokens
	}
	for _, text := range g.StopTexts {
		if text == "" {
			return request, invalid("stop", "a stop text must not be empty")
		}
	}
	m.fillSampling(&request, &g.Sampling)
	schedule(&request, g.Scheduling)
	return request, nil
}

// limitReasoning has the engine, which reads the answer in the same dialect, end the model's reasoning.
func (m *model) limitReasoning(request *quire.Request, budget *int) {
	if budget == nil || !m.reasons {
		return
	}
	request.ResponseDialect, request.ReasoningBudget = m.dialect, -1
	if *budget > 0 {
		request.ReasoningBudget = *budget
	}
}

func schedule(request *quire.Request, s server.Scheduling) {
	request.Namespace, request.Priority, request.Deadline = s.Namespace, s.Priority, s.Deadline
}
