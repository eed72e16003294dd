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
	s := &stream{model: m, origin: from, topLogProbs: request.TopLogProbs, tokenIDs: g.TokenIDs, keepStop: g.KeepStop}
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
		m.readAnswer(&request, g)
	}
	m.fillSampling(&request, &g.Sampling)
	schedule(&request, g.Scheduling)
	return request, m.restrict(&request, g)
}

var jsonSpaces = map[string]quire.JSONSpace{"": quire.JSONSpaceSpaced, "spaced": quire.JSONSpaceSpaced,
	"compact": quire.JSONSpaceCompact, "printed": quire.JSONSpacePrinted}

// restrict sets what the text may contain, where it ends, and the form of JSON in it.
func (m *model) restrict(request *quire.Request, g *server.Generation) error {
	request.MinNewTokens, request.StopTokens = g.MinNewTokens, g.StopTokens
	request.BannedTexts, request.EmitSpecial = g.BannedTexts, g.KeepSpecial
	request.JSONOpen, request.JSONAnyIntegers, request.JSONSpace = g.JSON.Open, g.JSON.AnyIntegers, jsonSpaces[g.JSON.Space]
	if g.JSON.AnyOrder {
		request.JSONOrder = quire.JSONOrderAny
	}
	if g.AllowedTokens == nil {
		return nil
	}
	allowed := make([]bool, m.info.VocabSize)
	for _, token := range g.AllowedTokens {
		if token < 0 || int(token) >= len(allowed) {
			return invalid("allowed_token_ids", "the token %d is not in the vocabulary, which has %d tokens", token, len(allowed))
		}
		allowed[token] = true
	}
	for token := range allowed {
		if !allowed[token] {
			request.BannedTokens = append(request.BannedTokens, int32(token))
		}
	}
	return nil
}

// readAnswer sets the dialect of the answer. A model without calls and reasoning produces plain text.
func (m *model) readAnswer(request *quire.Request, g *server.Generation) {
	dialect, budget := m.dialectFor(g), g.ReasoningBudget
	if dialect == plainDialect && !m.reasons {
		return
	}
	request.ResponseDialect = dialect
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
