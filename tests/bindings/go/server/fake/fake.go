// Package fake is an engine for tests of the server. The last user message scripts its answer.
package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"quire.dev/quire/server"
)

// Engine answers every configured name with one model. Safe for concurrent use.
type Engine struct {
	Broken  map[string]bool // names that cannot be opened
	Delay   time.Duration   // before each piece
	Open_   atomic.Int64    // number of open streams
	Tokens  atomic.Int64    // number of tokens that were generated
	Metrics string          // written as the engine's own metrics

	Tokenizing time.Duration // time that the tokenizer takes for a prompt of 64 KiB or more
	Submitted  atomic.Int64  // number of prompts that were tokenized
	Models_    atomic.Int64  // number of open models
	Reasons    bool          // the models may reason
	Infills    bool          // their vocabulary has the marks of Infill

	mu   sync.Mutex
	last *server.Generation

	lastEmbedded server.Prompt
}

// LastEmbedded returns the input that was embedded last.
func (e *Engine) LastEmbedded() server.Prompt {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lastEmbedded
}

// Last returns the generation that was submitted last.
func (e *Engine) Last() *server.Generation {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// Open returns the model.
func (e *Engine) Open(_ context.Context, name string) (server.Model, error) {
	if e.Broken[name] {
		return nil, fmt.Errorf("%s does not load", name)
	}
	e.Models_.Add(1)
	return &model{e, name}, nil
}

// States, Evict, Stepping, Loads and PageSources describe models without any state.
func (e *Engine) States() map[string]string                 { return map[string]string{} }
func (e *Engine) Evict(string) error                        { return nil }
func (e *Engine) Stepping() bool                            { return true }
func (e *Engine) Loads() map[string]server.ModelLoad        { return map[string]server.ModelLoad{} }
func (e *Engine) PageSources() map[string]server.PageSource { return nil }

// WriteMetrics writes the configured text.
func (e *Engine) WriteMetrics(out io.Writer) error {
	_, err := io.WriteString(out, e.Metrics)
	return err
}

type model struct {
	engine *Engine
	name   string
}

// Submit answers as the message scripts it: "say TEXT", "think A|B" (reasoning and answer), "call NAME
// ARGUMENTS", "cut NAME ARGUMENTS" (a call that was cut off), "draw" (the seed), "fail", "wait" (for ever), "count" (for
// ever, a token each time), "fill TEXT" (the end of the context). Any other message is echoed word by word, up to a stop
// text. A prompt of tokens is echoed as bytes.
func (m *model) Submit(_ context.Context, g *server.Generation) (server.Stream, error) {
	m.engine.mu.Lock()
	m.engine.last = g
	m.engine.mu.Unlock()
	m.engine.Submitted.Add(1)
	text := lastText(g)
	if len(g.Messages) >= 64<<10 {
		time.Sleep(m.engine.Tokenizing)
	}
	s := &stream{engine: m.engine, stop: make(chan struct{})}
	s.result.Usage.Prompt = len(strings.Fields(text)) + 3
	s.result.Usage.Cached = 2
	s.result.Times = server.Times{Prompt: 3 * time.Millisecond, Generate: 4 * time.Millisecond}
	word, rest := text, ""
	if space := strings.IndexByte(text, ' '); space >= 0 {
		word, rest = text[:space], text[space+1:]
	}
	switch word {
	case "refuse":
		return nil, &server.Failure{Status: 400, Kind: "invalid_request_error", Param: "messages",
			Message: "the prompt is too long"}
	case "think":
		parts := strings.SplitN(rest, "|", 2)
		s.words(server.PieceReasoning, parts[0])
		s.result.Usage.Reasoning = len(s.pieces)
		s.words(server.PieceText, parts[1])
	case "call":
		parts := strings.SplitN(rest, " ", 2)
		s.pieces = append(s.pieces, server.Piece{Kind: server.PieceCallBegun, CallID: "call_1", Name: parts[0]})
		s.words(server.PieceArguments, parts[1])
		s.pieces = append(s.pieces, server.Piece{Kind: server.PieceCallEnded})
		s.result.Finish = server.FinishCalls
	case "cut":
		parts := strings.SplitN(rest, " ", 2)
		s.pieces = append(s.pieces, server.Piece{Kind: server.PieceCallBegun, CallID: "call_1", Name: parts[0]})
		s.words(server.PieceArguments, parts[1])
		s.result.Finish = server.FinishLength
	case "count":
		s.words(server.PieceText, "0 ")
		s.counts = true
	case "draw":
		s.words(server.PieceText, fmt.Sprint(*g.Seed))
	case "fail":
		s.words(server.PieceText, "so far")
		s.err = fmt.Errorf("the device is lost: secret detail")
	case "wait":
		s.words(server.PieceText, "waiting")
		s.waits = true
	case "fill":
		s.words(server.PieceText, rest)
		s.result.Finish = server.FinishLength
	default:
		s.words(server.PieceText, s.untilStop(text, g.StopTexts))
	}
	if g.MaxNewTokens > 0 && len(s.pieces) > g.MaxNewTokens {
		s.pieces = s.pieces[:g.MaxNewTokens]
		s.result.Finish = server.FinishLength
	}
	s.addLogProbs(g)
	s.addTokens(g)
	s.result.Usage.New = len(s.pieces)
	if g.Admit != nil {
		if err := g.Admit(s.result.Usage.Prompt); err != nil {
			return nil, err
		}
	}
	m.engine.Open_.Add(1)
	return s, nil
}

func lastText(g *server.Generation) string {
	if g.Messages == nil && g.Tokens != nil {
		return textOf(g.Tokens)
	}
	if g.Messages == nil {
		return g.Text
	}
	var messages []struct {
		Content interface{} `json:"content"`
	}
	_ = json.Unmarshal(g.Messages, &messages)
	text, _ := messages[len(messages)-1].Content.(string)
	return text
}

func (m *model) Embed(_ context.Context, input server.Prompt, options server.Scheduling) (server.Embedding, error) {
	if options.Admit != nil {
		if err := options.Admit(len(input.Text)); err != nil {
			return server.Embedding{}, err
		}
	}
	m.engine.mu.Lock()
	m.engine.lastEmbedded = input
	m.engine.mu.Unlock()
	return server.Embedding{Vector: []float32{float32(len(input.Text)), 0.5, -2, 0},
		Usage: server.Usage{Prompt: len(input.Text)}}, nil
}

// Score finds the tokens that occurred before certain, and others less likely.
func (m *model) Score(_ context.Context, input server.Prompt, _ server.Scheduling) (server.Scores, error) {
	tokens := input.Tokens
	if tokens == nil {
		tokens, _ = m.Tokenize(input.Text, false)
	}
	seen := map[int32]bool{}
	var logProbs []float64
	for i, token := range tokens {
		if i > 0 && seen[token] {
			logProbs = append(logProbs, 0)
		} else if i > 0 {
			logProbs = append(logProbs, -2)
		}
		seen[token] = true
	}
	return server.Scores{Tokens: tokens, LogProbs: logProbs, Usage: server.Usage{Prompt: len(tokens)}}, nil
}

// PromptLogProbs gives each byte of the prompt the log-probability -i at index i, and alternatives below it.
func (m *model) PromptLogProbs(_ context.Context, g *server.Generation, top int) ([]server.TokenLogProb, server.Usage, error) {
	tokens, err := m.PromptTokens(g)
	if g.Admit != nil && err == nil {
		err = g.Admit(len(tokens))
	}
	entries := make([]server.TokenLogProb, len(tokens))
	for i, token := range tokens {
		entry := server.TokenLogProb{ID: token, Token: string(rune(token)), Bytes: []byte{byte(token)}, Log: -float64(i),
			Special: token == 0}
		for j := 0; i > 0 && j < top; j++ {
			entry.Rank = 1
			entry.Top = append(entry.Top, server.TokenLogProb{ID: token + int32(j), Token: string(rune(int(token) + j)),
				Log: entry.Log - float64(j)})
		}
		if i == 0 {
			entry.Log = math.NaN()
		}
		entries[i] = entry
	}
	return entries, server.Usage{Prompt: len(tokens)}, err
}

func (m *model) Tokenize(text string, addSpecial bool) ([]int32, error) {
	var tokens []int32
	if addSpecial {
		tokens = append(tokens, 0)
	}
	for _, b := range []byte(text) {
		tokens = append(tokens, int32(b))
	}
	return tokens, nil
}

// Special is a token that only markup can contain. The marks of infilling follow it.
const (
	Special     int32 = 256
	SpecialText       = "<|special|>"
)

// Infill has the marks of infilling, in the order of their tokens.
var Infill = []string{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"}

func (m *model) TokenizeMarkup(text string, addSpecial bool) ([]int32, error) {
	var tokens []int32
	for i, part := range strings.Split(text, SpecialText) {
		if i > 0 {
			tokens = append(tokens, Special)
		}
		more, _ := m.Tokenize(part, addSpecial && i == 0)
		tokens = append(tokens, more...)
	}
	return tokens, nil
}

func (m *model) TokenBytes(token int32) ([]byte, error) {
	if token == Special {
		return []byte(SpecialText), nil
	}
	if token < 0 || token > Special {
		return nil, &server.Failure{Status: 400, Kind: "invalid_request_error", Param: "tokens", Message: "there is no such token"}
	}
	return []byte{byte(token)}, nil
}

func (m *model) FindToken(text string) (int32, error) {
	for i, mark := range Infill {
		if m.engine.Infills && mark == text {
			return Special + 1 + int32(i), nil
		}
	}
	return -1, nil
}

func (m *model) Detokenize(tokens []int32) (string, error) { return textOf(tokens), nil }

// textOf leaves out the tokens that are no bytes, and the first special one.
func textOf(tokens []int32) string {
	var text strings.Builder
	for _, token := range tokens {
		if token > 0 && token < Special {
			text.WriteByte(byte(token))
		}
	}
	return text.String()
}

func (m *model) PromptText(g *server.Generation) (string, error) { return "[" + lastText(g) + "]", nil }

// PromptTokens returns the bytes of all texts, and of the tools unless they are forbidden. A text that is no
// conversation begins with the special token 0.
func (m *model) PromptTokens(g *server.Generation) ([]int32, error) {
	switch {
	case g.Rendered != nil:
		return g.Rendered, nil
	case g.Tokens != nil:
		return g.Tokens, nil
	case g.Messages == nil:
		return m.Tokenize(g.Text, !g.NoSpecial)
	}
	var messages []struct {
		Content interface{} `json:"content"`
	}
	_ = json.Unmarshal(g.Messages, &messages)
	var all strings.Builder
	for _, message := range messages {
		text, _ := message.Content.(string)
		all.WriteString(text)
	}
	if g.ToolChoice != "none" {
		all.Write(g.Tools)
	}
	return m.Tokenize(all.String(), false)
}

func (m *model) PromptChanges(*server.Generation) (json.RawMessage, error) {
	return json.RawMessage("[]"), nil
}

func (m *model) Close() { m.engine.Models_.Add(-1) }

// LongestToken returns a bound that no word of a test exceeds.
func (m *model) LongestToken() (int, error) { return 16, nil }

func (m *model) Info() server.ModelInfo {
	return server.ModelInfo{ContextTokens: 4096, VocabSize: 256, Template: "{{ messages }}", Reasons: m.engine.Reasons,
		BOS: "<s>", MaxJobs: 4}
}

type stream struct {
	engine *Engine
	pieces []server.Piece
	next   int
	result server.Result
	err    error
	waits  bool
	counts bool
	stop   chan struct{}
	once   sync.Once

	mu    sync.Mutex
	taken int           // pieces
	held  chan struct{} // closed when the stream continues; nil if it is not held
}

// Progress counts each piece as a token.
func (s *stream) Progress() server.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	usage := s.result.Usage
	usage.New = s.taken
	if s.taken == 0 {
		usage.Cached = 0
	}
	return server.Progress{Usage: usage, Started: s.taken > 0, Queued: 3 * time.Millisecond}
}

// Hold stops and continues the pieces.
func (s *stream) Hold(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !held && s.held != nil {
		close(s.held)
		s.held = nil
	} else if held && s.held == nil {
		s.held = make(chan struct{})
	}
}

// take counts a token once the stream is not held.
func (s *stream) take(ctx context.Context) error {
	for {
		s.mu.Lock()
		held := s.held
		if held == nil {
			s.taken++
			s.engine.Tokens.Add(1)
		}
		s.mu.Unlock()
		if held == nil {
			return nil
		}
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// untilStop returns the text up to a stop text.
func (s *stream) untilStop(text string, stops []string) string {
	for _, stop := range stops {
		if before, _, found := strings.Cut(text, stop); found {
			s.result.StopText = stop
			return before
		}
	}
	return text
}

func (s *stream) words(kind server.PieceKind, text string) {
	for i, word := range strings.SplitAfter(text, " ") {
		if word != "" || i == 0 {
			s.pieces = append(s.pieces, server.Piece{Kind: kind, Text: word})
		}
	}
}

func (s *stream) addLogProbs(g *server.Generation) {
	if !g.LogProbs {
		return
	}
	for i := range s.pieces {
		entry := server.TokenLogProb{ID: int32(i), Token: s.pieces[i].Text, Bytes: []byte(s.pieces[i].Text), Log: -0.5}
		if g.Seed != nil {
			entry.Log = -1 / float64(1+*g.Seed) // larger seeds are likelier
		}
		for j := 0; j < g.TopLogProbs; j++ {
			entry.Top = append(entry.Top, server.TokenLogProb{Token: fmt.Sprint("t", j), Bytes: []byte("t"), Log: -1})
		}
		s.pieces[i].LogProbs = []server.TokenLogProb{entry}
	}
}

// addTokens gives each piece its index as its token.
func (s *stream) addTokens(g *server.Generation) {
	for i := range s.pieces {
		if g.TokenIDs {
			s.pieces[i].Tokens = []int32{int32(i)}
		}
	}
}

func (s *stream) Next(ctx context.Context) (server.Piece, error) {
	if s.engine.Delay > 0 {
		select {
		case <-time.After(s.engine.Delay):
		case <-ctx.Done():
			return server.Piece{}, ctx.Err()
		}
	}
	if s.next < len(s.pieces) {
		if err := s.take(ctx); err != nil {
			return server.Piece{}, err
		}
		s.next++
		return s.pieces[s.next-1], nil
	}
	if s.counts {
		if err := s.take(ctx); err != nil {
			return server.Piece{}, err
		}
		time.Sleep(100 * time.Microsecond)
		return s.pieces[0], ctx.Err()
	}
	if s.waits {
		select {
		case <-ctx.Done():
			return server.Piece{}, ctx.Err()
		case <-s.stop:
		}
	}
	if s.err != nil {
		return server.Piece{}, s.err
	}
	return server.Piece{}, io.EOF
}

func (s *stream) Result() server.Result { return s.result }

func (s *stream) Close() {
	s.once.Do(func() {
		close(s.stop)
		s.engine.Open_.Add(-1)
	})
}
