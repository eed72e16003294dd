package local

import (
	"context"
	"encoding/json"
	"math"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// Submit submits a generation to the cache. Everything that can be checked in advance is checked here.
func (m *model) Submit(ctx context.Context, g *server.Generation) (server.Stream, error) {
	request, err := m.request(g)
	if err != nil {
		return nil, err
	}
	constraint, err := m.constraint(g)
	if err != nil {
		return nil, err
	}
	if constraint != nil {
		defer constraint.Close()
		request.Constraint = constraint
	}
	from := origin{prompt: promptField(&g.Prompt), constraint: constraintField(g)}
	s := &stream{model: m, origin: from, topLogProbs: request.TopLogProbs}
	if request.ResponseDialect != "" {
		s.answer = &answer{callsAsText: !wantsCalls(g)}
	}
	if err := ctx.Err(); err != nil { // the client has left while the constraint was compiled
		return nil, err
	}
	if s.job, err = m.cache.Submit(request); err != nil {
		return nil, m.failed(from, err)
	}
	if err := s.admit(ctx, g.Admit); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// admit reads the number of tokens of the prompt, and returns an error if the client has left meanwhile or its key
// has too few tokens left.
func (s *stream) admit(ctx context.Context, admit func(numTokens int) error) error {
	s.mutex.Lock()
	s.look()
	numTokens := s.progress.Prompt
	s.mutex.Unlock()
	if err := ctx.Err(); err != nil || admit == nil {
		return err
	}
	return admit(numTokens)
}

// failed converts an error like jobFailure, and unloads a model whose device is lost.
func (m *model) failed(from origin, err error) error {
	var failure *quire.Error
	if asError(err, &failure) && failure.Code == quire.CodeDeviceLost {
		m.engine.unloadLost(m)
	}
	return jobFailure(from, err)
}

// PromptTokens returns the prompt tokens of a generation.
func (m *model) PromptTokens(g *server.Generation) ([]int32, error) {
	prompt := promptOf(g)
	return m.promptTokens(&prompt)
}

// PromptChanges returns the changes of the messages of a generation as a JSON list.
func (m *model) PromptChanges(g *server.Generation) (json.RawMessage, error) {
	prompt := promptOf(g)
	return m.promptChanges(&prompt)
}

// promptOf returns the prompt, without tools if the client forbids calls.
func promptOf(g *server.Generation) server.Prompt {
	prompt := g.Prompt
	if g.ToolChoice == "none" {
		prompt.Tools = nil
	}
	return prompt
}

// request converts a generation. Without a limit of the client, the rest of the context limits the new
// tokens.
func (m *model) request(g *server.Generation) (quire.Request, error) {
	request := quire.Request{MaxNewTokens: g.MaxNewTokens, StopTexts: g.StopTexts, IgnoreEOS: g.IgnoreEOS,
		LogProbs: g.LogProbs, TopLogProbs: g.TopLogProbs}
	prompt := promptOf(g)
	if err := m.fillPrompt(&request, &prompt); err != nil {
		return request, err
	}
	if request.MaxNewTokens <= 0 || request.MaxNewTokens > math.MaxInt32 {
		request.MaxNewTokens = math.MaxInt32
	}
	for _, text := range g.StopTexts {
		if text == "" {
			return request, invalid("stop", "a stop text must not be empty")
		}
	}
	if g.Messages != nil {
		m.readAnswer(&request, g.ReasoningBudget)
	}
	m.fillSampling(&request, &g.Sampling)
	schedule(&request, g.Scheduling)
	return request, nil
}

// readAnswer sets the dialect of the answer. A model without calls and reasoning produces plain text.
func (m *model) readAnswer(request *quire.Request, budget *int) {
	if m.dialect == plainDialect && !m.reasons {
		return
	}
	request.ResponseDialect = m.dialect
	if !m.reasons {
		request.Reasoning = quire.ReasoningOff
		return
	}
	if budget != nil {
		request.ReasoningBudget = -1
		if *budget > 0 {
			request.ReasoningBudget = *budget
		}
	}
}

func schedule(request *quire.Request, s server.Scheduling) {
	request.Namespace, request.Priority, request.Deadline = s.Namespace, s.Priority, s.Deadline
}
