// Package server answers the HTTP interfaces of OpenAI and Anthropic from models that run in this process.
//
// A request is read and checked (chat.go, completions.go, responses.go, messages.go), becomes a Generation, waits for
// its turn (admission.go), and its pieces are written as the client asked (stream.go). Nothing here knows how a model
// computes: that is Engine's.
package server

import (
	"context"
	"encoding/json"
	"time"
)

// Engine gives models by the names of its configuration. Any goroutine.
type Engine interface {
	// Open returns the model, loading or waking it where it is not resident, and keeps it until its Close. The error
	// is a *Failure where the client is to know why.
	Open(ctx context.Context, name string) (Model, error)
}

// Model is one model that can take work. Any goroutine.
type Model interface {
	Submit(ctx context.Context, g *Generation) (Stream, error)
	Embed(ctx context.Context, input Prompt, options Scheduling) (Embedding, error)
	Score(ctx context.Context, input Prompt, options Scheduling) (Scores, error)
	Tokenize(text string, addSpecial bool) ([]int32, error)
	Detokenize(tokens []int32) (string, error)
	// PromptTokens is the prompt of a generation.
	PromptTokens(g *Generation) ([]int32, error)
	Info() ModelInfo
	// Close ends this use of the model, after that of its streams. Each Open has its Close.
	Close()
}

// Stream is one running generation. One goroutine takes its pieces; Close may be called from any.
type Stream interface {
	// Next waits for the next piece; io.EOF once the last was taken. The end of ctx ends the wait and the generation.
	Next(ctx context.Context) (Piece, error)
	// Result is what the generation came to, once Next has returned io.EOF.
	Result() Result
	// Close ends the generation where it is not over.
	Close()
}

// ModelInfo describes a loaded model.
type ModelInfo struct {
	ContextTokens int
	VocabSize     int
	HasTemplate   bool
}

// Prompt is one of: text, token ids, or a conversation.
type Prompt struct {
	Text         string
	Tokens       []int32
	Messages     json.RawMessage // in OpenAI's form
	Tools        json.RawMessage // likewise; nil where there are none
	TemplateArgs json.RawMessage // further arguments of the chat template

	// How much the model is to think, "none" for not at all; "": as its template has it.
	ReasoningEffort string

	// ContinueFinal has the answer go on in the last message, which is the assistant's.
	ContinueFinal bool
}

// Generation is one answer that is asked for.
type Generation struct {
	Prompt
	Sampling
	Scheduling

	MaxNewTokens    int  // 0: what the context leaves
	ReasoningBudget *int // tokens of reasoning at most; nil: no limit
	StopTexts       []string
	IgnoreEOS       bool // the model's own end does not end it
	LogProbs        bool
	TopLogProbs     int
	ToolChoice      string          // "auto", "none", "required", or the name of a function; "": auto
	ParallelCalls   bool            // several calls in one answer
	ResponseFormat  json.RawMessage // OpenAI's response_format; nil: text
	Grammar         string          // GBNF or Lark, where the client sent one
}

// Sampling are the settings of the draw; nil and zero are the model's own.
type Sampling struct {
	Temperature       *float64
	TopP              *float64
	TopK              *int
	MinP              *float64
	Seed              *uint64
	FrequencyPenalty  *float64
	PresencePenalty   *float64
	RepetitionPenalty *float64
	LogitBias         map[int32]float64
	GuidanceScale     *float64 // how far the text is led away from NegativePrompt
	NegativePrompt    string
}

// Scheduling says on whose behalf work is done and how long it may wait.
type Scheduling struct {
	Namespace string // such as the key's owner: prompts are shared within it
	Priority  int
	Deadline  time.Duration // 0: none
}

// PieceKind says what a piece of an answer is.
type PieceKind int

// The kinds of pieces.
const (
	PieceText PieceKind = iota
	PieceReasoning
	PieceCallBegun // Name and CallID are set
	PieceArguments
	PieceCallEnded
)

// Piece is the next part of an answer.
type Piece struct {
	Kind     PieceKind
	Text     string
	CallID   string // of PieceCallBegun, as is Name
	Name     string
	LogProbs []TokenLogProb
}

// TokenLogProb is one token with its log-probability and the likeliest others.
type TokenLogProb struct {
	Token string
	Bytes []byte
	Log   float64
	Top   []TokenLogProb
}

// Finish says why a generation ended.
type Finish int

// The reasons.
const (
	FinishStop Finish = iota
	FinishLength
	FinishCalls
)

// Result is what a generation came to.
type Result struct {
	Finish   Finish
	StopText string // the stop text that ended it
	Usage    Usage
}

// Usage counts tokens.
type Usage struct {
	Prompt    int
	Cached    int // of the prompt, found in the cache
	New       int
	Reasoning int // of the new ones
}

// Embedding is one vector.
type Embedding struct {
	Vector []float32
	Usage  Usage
}

// Scores has the log-probability of each token of a prompt but the first.
type Scores struct {
	Tokens   []int32
	LogProbs []float64
	Usage    Usage
}
