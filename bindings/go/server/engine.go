// Package server implements the HTTP interfaces of OpenAI, Anthropic, ollama and llama.cpp with models that run in
// this process.
//
// A request is parsed and checked (chat.go, completions.go, responses.go, messages.go). It becomes a
// Generation and waits until it may start (admission.go). Its pieces are written in the format of the
// interface (stream.go). The computation itself is hidden by Engine.
package server

import (
	"context"
	"encoding/json"
	"time"
)

// Engine provides models by the names of its configuration. Safe for concurrent use.
type Engine interface {
	// Open returns the model for use until its Close. It loads or wakes a model that is not resident. The error
	// is a *Failure if the client may see the reason.
	Open(ctx context.Context, name string) (Model, error)
}

// Model is one model that can take work. Safe for concurrent use.
type Model interface {
	Vocabulary
	Submit(ctx context.Context, g *Generation) (Stream, error)
	Embed(ctx context.Context, input Prompt, options Scheduling) (Embedding, error)
	Score(ctx context.Context, input Prompt, options Scheduling) (Scores, error)
	// PromptLogProbs returns the prompt tokens of a generation with their log-probabilities and the `top` likeliest
	// tokens at each place. Ranks are known only if top is above 0.
	PromptLogProbs(ctx context.Context, g *Generation, top int) ([]TokenLogProb, Usage, error)
	Tokenize(text string, addSpecial bool) ([]int32, error)
	Detokenize(tokens []int32) (string, error)
	// PromptTokens returns the prompt tokens of a generation.
	PromptTokens(g *Generation) ([]int32, error)
	// PromptText returns the prompt of a conversation as the chat template renders it.
	PromptText(g *Generation) (string, error)
	// PromptChanges returns what is changed in the messages of a generation to give them the form that the
	// template needs, as a JSON list.
	PromptChanges(g *Generation) (json.RawMessage, error)
	Info() ModelInfo
	// LongestToken returns the number of bytes of the longest token.
	LongestToken() (int, error)
	// Close ends this use of the model. Call it once for each Open, after closing its streams.
	Close()
}

// Vocabulary holds the tokens of a model.
type Vocabulary interface {
	// TokenizeMarkup returns the tokens of a text that contains markup: the text of a special token becomes that
	// token. The text of a message or a document must not come here.
	TokenizeMarkup(text string, addSpecial bool) ([]int32, error)
	// TokenBytes returns the bytes of a token; they may be part of a character.
	TokenBytes(token int32) ([]byte, error)
	// FindToken returns the token that the tokenizer spells like this, or -1 if there is none.
	FindToken(text string) (int32, error)
}

// Stream is one running generation. One goroutine takes its pieces; any goroutine may call Close.
type Stream interface {
	// Next waits for the next piece; it returns io.EOF after the last. The end of ctx ends the wait and the
	// generation.
	Next(ctx context.Context) (Piece, error)
	// Result returns the result of the generation, once Next has returned io.EOF.
	Result() Result
	// Progress returns what was computed so far, also after Close.
	Progress() Progress
	// Hold pauses the generation within a step, or continues it. It never waits.
	Hold(held bool)
	// Close ends the generation if it is still running.
	Close()
}

// Progress is the state of a generation. Until it has started, no token counts as cached.
type Progress struct {
	Usage
	Started bool          // the work on the prompt has begun
	Queued  time.Duration // time from submit to the first work
}

// ModelInfo describes a loaded model.
type ModelInfo struct {
	ContextTokens int
	VocabSize     int
	HasTemplate   bool
	Template      string // source of the chat template; "" if there is none
	Calls         bool   // the model's dialect has tool calls
	Reasons       bool   // the model may reason before its answer
	BOS, EOS      string // texts of these tokens; "" if the model has none
	MaxJobs       int    // jobs that run at the same time
}

// Prompt is a text, token ids, or a conversation.
type Prompt struct {
	Text         string
	Tokens       []int32
	Messages     json.RawMessage // in OpenAI's format
	Tools        json.RawMessage // in OpenAI's format; nil if there are none
	TemplateArgs json.RawMessage // further variables of the chat template

	// Amount of reasoning, "none" for no reasoning; "" means the default of the template.
	ReasoningEffort string

	// ContinueFinal makes the answer continue the last message, which must be the assistant's.
	ContinueFinal bool

	// NoGenerationPrompt leaves out the beginning of an answer after the last message.
	NoGenerationPrompt bool

	// NoSpecial leaves out the tokens that the tokenizer puts around a text.
	NoSpecial bool

	// Rendered has the tokens to use in place of those that the template makes of Messages; nil means those.
	Rendered []int32
}

// Generation describes one requested answer.
type Generation struct {
	Prompt
	Sampling
	Scheduling

	MaxNewTokens    int  // 0 means the rest of the context
	ReasoningBudget *int // maximum reasoning tokens; nil means no limit
	StopTexts       []string
	IgnoreEOS       bool // end-of-sequence tokens do not end the answer
	LogProbs        bool
	TopLogProbs     int
	TokenIDs        bool            // pieces have the ids of their tokens
	ToolChoice      string          // "auto", "none", "required", or "function:" and a name; "" means auto
	AllowedTools    []string        // names of the tools that may be called; nil means all
	ParallelCalls   bool            // allow several calls in one answer
	ResponseFormat  json.RawMessage // OpenAI's response_format; nil means text
	ResponseField   string          // field of the request that ResponseFormat comes from; "" means response_format
	Grammar         string          // GBNF or Lark; "" means none
	JSON            JSONForm        // of JSON in a constrained answer

	Restrictions
}

// Restrictions holds what a text may contain and where it ends, besides constraints.
type Restrictions struct {
	MinNewTokens  int      // before which no end of sequence and no stop token is drawn
	StopTokens    []int32  // end the answer, besides those of the model
	KeepStop      bool     // the stop text or token that ends the answer is part of it
	BannedTexts   []string // appear nowhere in the answer
	AllowedTokens []int32  // the only tokens that are drawn; nil means all
	KeepSpecial   bool     // the text of special tokens is part of the answer
}

// JSONForm is the form of JSON in a constrained answer. The zero value is the library's default.
type JSONForm struct {
	AnyOrder    bool   // members come in any order, not in that of the schema
	Open        bool   // objects may have members that their schema does not list
	AnyIntegers bool   // integers may have a fraction of zeros or an exponent
	Space       string // "spaced", "compact" or "printed"; "" means spaced
}

// Sampling holds the sampling settings; nil and zero mean those of the model.
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
	GuidanceScale     *float64 // strength of leading the text away from NegativePrompt
	NegativePrompt    string

	Samplers
}

// Samplers holds the settings of further samplers; nil means those of the model.
type Samplers struct {
	PenaltyRange        *int // number of last tokens that penalties count; -1 means all
	Typical             *float64
	TopNSigma           *float64
	XTCProbability      *float64
	XTCThreshold        *float64
	DRYMultiplier       *float64
	DRYBase             *float64
	DRYAllowedLength    *int
	DRYRange            *int // number of last tokens that DRY considers; -1 means all
	MirostatTau         *float64
	MirostatEta         *float64
	MinTemperature      *float64 // of a temperature that follows the entropy
	MaxTemperature      *float64
	TemperatureExponent *float64
}

// Scheduling holds the owner, the priority and the deadline of work.
type Scheduling struct {
	Namespace string // such as the key's owner; prompts are shared within it
	Priority  int
	Deadline  time.Duration // 0 means none

	// Admit is called once with the number of tokens of the prompt, before more than a step of work on them. Its error
	// refuses the work. nil admits every prompt.
	Admit func(numTokens int) error
}

// PieceKind is the kind of a piece of an answer.
type PieceKind int

// Kinds of pieces.
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
	CallID   string // for PieceCallBegun, like Name
	Name     string
	LogProbs []TokenLogProb
	Tokens   []int32 // ids; only if Generation.TokenIDs
}

// TokenLogProb is one token with its log-probability and the likeliest alternatives.
type TokenLogProb struct {
	ID      int32
	Token   string
	Bytes   []byte
	Log     float64 // NaN for the first token of a prompt
	Rank    int     // 1 for the likeliest token at its place; 0 means unknown
	Special bool    // a special token of a prompt
	Top     []TokenLogProb
}

// Finish is the reason why a generation ended.
type Finish int

// Reasons why a generation ended.
const (
	FinishStop Finish = iota
	FinishLength
	FinishCalls
)

// Result is the result of a generation.
type Result struct {
	Finish   Finish
	StopText string // stop text that ended it
	Usage    Usage
	Times    Times
}

// Times holds the phases of a generation.
type Times struct {
	Queued   time.Duration // from submit to the first work on the prompt
	Prompt   time.Duration // from there to the first token
	Generate time.Duration // from the first token to the end
}

// Usage counts tokens.
type Usage struct {
	Prompt    int
	Cached    int // prompt tokens found in the cache
	New       int
	Reasoning int // new tokens that are reasoning
	Drafted   int // tokens that a drafter proposed
	Accepted  int // accepted ones among them
}

// Embedding is one vector.
type Embedding struct {
	Vector []float32
	Usage  Usage
}

// Scores holds the log-probability of each token of a prompt but the first.
type Scores struct {
	Tokens   []int32
	LogProbs []float64
	Usage    Usage
}
