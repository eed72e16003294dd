package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"runtime"
	"sync"
)

// meteredModel is a model during one call. It refuses prompts that can never fit before they are tokenized,
// charges tokens to the key of the call as they are computed, and collects data for the log and the metrics.
type meteredModel struct {
	Model
	call *call
	last *Prompt // of the last generation; further answers to it reuse its pages
}

// Submit submits a generation whose tokens are charged while it runs.
func (m *meteredModel) Submit(ctx context.Context, g *Generation) (Stream, error) {
	s := &meteredStream{charge: charge{permit: m.call.permit}, call: m.call,
		repeats: m.last != nil && reflect.DeepEqual(*m.last, g.Prompt)}
	leave, err := m.admitText(ctx, &g.Prompt)
	if err != nil {
		return nil, err
	}
	defer leave()
	each := *g
	each.Admit = func(numTokens int) error {
		if s.repeats {
			return nil
		}
		return s.charge.reserve(numTokens)
	}
	if s.Stream, err = m.Model.Submit(ctx, &each); err != nil {
		return nil, err
	}
	m.last = &each.Prompt
	m.call.permit.join(s)
	return s, nil
}

// Embed charges the tokens of the input before they are computed.
func (m *meteredModel) Embed(ctx context.Context, input Prompt, options Scheduling) (out Embedding, err error) {
	err = m.measure(ctx, &input, &options, func() (Usage, error) {
		out, err = m.Model.Embed(ctx, input, options)
		return out.Usage, err
	})
	return out, err
}

// Score charges the tokens of the input before they are computed.
func (m *meteredModel) Score(ctx context.Context, input Prompt, options Scheduling) (out Scores, err error) {
	err = m.measure(ctx, &input, &options, func() (Usage, error) {
		out, err = m.Model.Score(ctx, input, options)
		return out.Usage, err
	})
	return out, err
}

// PromptLogProbs charges the tokens of the prompt before they are computed.
func (m *meteredModel) PromptLogProbs(ctx context.Context, g *Generation, top int) (out []TokenLogProb, usage Usage, err error) {
	each := *g
	err = m.measure(ctx, &each.Prompt, &each.Scheduling, func() (Usage, error) {
		out, usage, err = m.Model.PromptLogProbs(ctx, &each, top)
		return usage, err
	})
	return out, usage, err
}

func (m *meteredModel) measure(ctx context.Context, input *Prompt, options *Scheduling,
	work func() (Usage, error)) error {
	leave, err := m.admitText(ctx, input)
	if err != nil {
		return err
	}
	defer leave()
	paid := charge{permit: m.call.permit}
	options.Admit = func(numTokens int) error {
		leave()
		return paid.reserve(numTokens)
	}
	usage, err := work()
	if err == nil {
		paid.settle(usage)
		m.call.report.addUsage(usage, true)
		m.call.server.counters.countTokens(m.call.traced.model, usage)
	}
	return err
}

// Tokenize waits until a long text may be tokenized.
func (m *meteredModel) Tokenize(text string, addSpecial bool) ([]int32, error) {
	return m.inTurn(text, addSpecial, m.Model.Tokenize)
}

// TokenizeMarkup waits like Tokenize.
func (m *meteredModel) TokenizeMarkup(text string, addSpecial bool) ([]int32, error) {
	return m.inTurn(text, addSpecial, m.Model.TokenizeMarkup)
}

func (m *meteredModel) inTurn(text string, addSpecial bool, tokenize func(string, bool) ([]int32, error)) ([]int32, error) {
	leave, err := m.call.server.longTexts.enterText(m.call.ctx, len(text))
	if err != nil {
		return nil, err
	}
	defer leave()
	return tokenize(text, addSpecial)
}

// PromptTokens refuses a prompt that can never fit.
func (m *meteredModel) PromptTokens(g *Generation) ([]int32, error) { return m.promptTokens(g, 1) }

// A prompt that is cut to the context may have this many times the bytes that the context can hold.
const cutReach = 8

// tokensToCut returns the tokens of a prompt from which the caller takes as many as fit. A prompt that is many times as
// long is refused before it is tokenized.
func (m *meteredModel) tokensToCut(g *Generation) ([]int32, error) {
	return m.promptTokens(g, cutReach)
}

// promptTokens returns the tokens of a prompt that has at most `reach` times the bytes that the context can hold.
func (m *meteredModel) promptTokens(g *Generation, reach int64) ([]int32, error) {
	leave, err := m.admitLongText(m.call.ctx, &g.Prompt, reach)
	if err != nil {
		return nil, err
	}
	defer leave()
	return m.Model.PromptTokens(g)
}

// admitText refuses a text that has more bytes than the context can hold, and waits until a long text may be
// tokenized. The caller calls the returned function once it is.
func (m *meteredModel) admitText(ctx context.Context, prompt *Prompt) (leave func(), err error) {
	return m.admitLongText(ctx, prompt, 1)
}

// admitLongText admits a text with at most `reach` times the bytes that the context can hold.
func (m *meteredModel) admitLongText(ctx context.Context, prompt *Prompt, reach int64) (leave func(), err error) {
	if prompt.Rendered != nil { // its text is not read
		return func() {}, nil
	}
	if err := m.checkLength(prompt, reach); err != nil {
		return nil, err
	}
	return m.call.server.longTexts.enterText(ctx, len(prompt.Text)+len(prompt.Messages)+len(prompt.Tools))
}

// A prompt with at most this many bytes per token of the context is tokenized without a further look.
const usualTokenBytes = 8

func (m *meteredModel) checkLength(prompt *Prompt, reach int64) error {
	context := m.Info().ContextTokens
	if len(prompt.Text)+len(prompt.Messages) <= context*usualTokenBytes || context <= 0 {
		return nil
	}
	longest, err := m.LongestToken()
	if err != nil {
		return err
	}
	field, size := "prompt", len(prompt.Text)
	if prompt.Messages != nil {
		field, size = "messages", contentBytes(prompt.Messages)
	}
	limit := int64(context) * int64(longest)
	if int64(size) <= limit*reach {
		return nil
	}
	if reach > 1 {
		return PromptTooLong(field, "it has %d bytes, more than the %d bytes from which a prompt is cut; shorten it", size,
			limit*reach)
	}
	return PromptTooLong(field, "it has %d bytes, but %d tokens of context hold at most %d bytes; shorten it", size,
		context, limit)
}

// contentBytes returns the bytes of the texts of a conversation, without reasoning, which templates leave out.
func contentBytes(messages json.RawMessage) int {
	var list []struct {
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(messages, &list) // the engine reports malformed messages
	total := 0
	for _, message := range list {
		var text string
		var parts []struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(message.Content, &text) == nil {
			total += len(text)
		} else if json.Unmarshal(message.Content, &parts) == nil {
			for _, part := range parts {
				total += len(part.Text)
			}
		}
	}
	return total
}

// gate lets few long texts be tokenized, or few large bodies be decoded, at the same time. Neither ends with its client,
// but a client that leaves while it waits causes no work.
type gate chan struct{}

// Bytes from which a text counts as long.
const longTextBytes = 64 << 10

// newGate leaves at least half of the processors to other work.
func newGate() gate {
	places := runtime.GOMAXPROCS(0) / 2
	if places < 1 {
		places = 1
	}
	return make(gate, places)
}

// enterText lets a short text pass without a place.
func (g gate) enterText(ctx context.Context, numBytes int) (leave func(), err error) {
	if numBytes < longTextBytes {
		return func() {}, ctx.Err()
	}
	return g.enter(ctx)
}

// enter waits for a place, which the caller frees with `leave`.
func (g gate) enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case g <- struct{}{}:
		var once sync.Once
		return func() { once.Do(func() { <-g }) }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// charge is the number of tokens that one piece of work has cost its key so far.
type charge struct {
	permit *permit
	paid   int
}

// reserve charges the tokens of a prompt before they are computed.
func (c *charge) reserve(numTokens int) error {
	if failure := c.permit.reserve(numTokens); failure != nil {
		return failure
	}
	c.paid = numTokens
	return nil
}

// settle charges the difference between what was computed and what is paid. Cached tokens are returned.
func (c *charge) settle(usage Usage) {
	due := usage.Prompt - usage.Cached + usage.New
	c.permit.spend(due - c.paid)
	c.paid = due
}

// meteredStream charges its tokens as they come, and the last of them when it is closed.
type meteredStream struct {
	Stream
	call    *call
	repeats bool // an earlier stream of the call has the same prompt

	mutex  sync.Mutex
	charge charge
	ended  bool // Next has returned io.EOF
	closed bool
}

func (s *meteredStream) Next(ctx context.Context) (Piece, error) {
	piece, err := s.Stream.Next(ctx)
	if s.call.permit.isMetered() {
		s.mutex.Lock()
		s.charge.settle(s.Progress().Usage)
		s.mutex.Unlock()
	}
	if errors.Is(err, io.EOF) {
		s.mutex.Lock()
		s.ended = true
		s.mutex.Unlock()
	}
	return piece, err
}

func (s *meteredStream) Close() {
	s.Stream.Close()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.call.permit.leave(s)
	progress := s.Progress()
	finish := finishCancelled
	if s.ended {
		finish = finishWord(s.Result().Finish)
	}
	s.charge.settle(cost(progress, s.ended))
	s.call.report.addUsage(progress.Usage, !s.repeats)
	s.call.report.addEnd(finish, progress.Queued)
	if progress.Started {
		s.call.server.counters.countTokens(s.call.traced.model, progress.Usage)
	}
	s.call.server.counters.countEnd(s.call.traced.model, finish)
}

// cost returns the tokens that a closed stream is charged for: none if it has not started, and those of the step that
// may still run if it was cut off.
func cost(progress Progress, ended bool) Usage {
	switch usage := progress.Usage; {
	case ended:
		return usage
	case progress.Started:
		usage.New++
		return usage
	}
	return Usage{}
}

// finishCancelled is the reason in the log and the metrics of a generation that was cut off.
const finishCancelled = "cancelled"
