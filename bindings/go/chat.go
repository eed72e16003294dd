package quire

import (
	"context"
	"errors"
	"io"
	"math"
)

// ChatOptions holds the settings of a ChatEngine. The zero value takes every default.
type ChatOptions struct {
	// The template of all conversations; nil means that of the model. The caller owns it.
	Template *ChatTemplate
	// The dialect of reasoning and calls; "" means that of the template.
	Dialect string
	// The model never reasons before it answers, and markers of reasoning are text. It is not needed for a Schema or
	// Tools if the template contains no name and no marker of reasoning.
	NoReasoning bool
}

const dialectOfTemplate = "auto"

// ChatEngine is a model for conversations: its cache, and its format of reasoning and calls. Safe for
// concurrent use.
type ChatEngine struct {
	model      *Model
	cache      *Cache
	owned      *Runtime // nil if the program owns model and cache
	options    ChatOptions
	recommends bool
}

// NewChatEngine creates an engine for a model and a cache of the program, which closes both. The cache may
// serve other jobs too.
func NewChatEngine(model *Model, cache *Cache, options ChatOptions) (*ChatEngine, error) {
	recommends, err := model.RecommendsSampling()
	if err != nil {
		return nil, err
	}
	if options.Dialect == "" {
		options.Dialect = dialectOfTemplate
	}
	return &ChatEngine{model: model, cache: cache, options: options, recommends: recommends}, nil
}

// OpenChatEngine loads the model of a directory and creates its cache. Close frees both.
func OpenChatEngine(ctx context.Context, path string, model ModelOptions, cache CacheOptions, options ChatOptions) (*ChatEngine, error) {
	runtime, err := NewRuntime(RuntimeOptions{})
	if err != nil {
		return nil, err
	}
	loaded, err := runtime.LoadModelContext(ctx, path, model)
	if err != nil {
		return nil, firstOf(err, runtime.Close())
	}
	created, err := loaded.NewCache(cache)
	if err != nil {
		return nil, firstOf(err, firstOf(loaded.Close(), runtime.Close()))
	}
	engine, err := NewChatEngine(loaded, created, options)
	if err != nil {
		return nil, firstOf(err, firstOf(firstOf(created.Close(), loaded.Close()), runtime.Close()))
	}
	engine.owned = runtime
	return engine, nil
}

// Model returns the model.
func (e *ChatEngine) Model() *Model { return e.model }

// Cache returns the cache.
func (e *ChatEngine) Cache() *Cache { return e.cache }

// Request returns a request with the sampling that the model's authors recommend, if they recommend any.
func (e *ChatEngine) Request() Request {
	if e.recommends {
		return Request{SamplingOfModel: e.model}
	}
	return Request{}
}

// Submit submits a conversation. The request, usually made by Request, has the other settings, such as sampling
// and lengths, but no prompt. Without MaxNewTokens an answer may use all that the cache allows one job. Read the
// events with an Answer. The job is cancelled when the context is done.
func (e *ChatEngine) Submit(ctx context.Context, conversation Conversation, request Request) (*Job, error) {
	if err := e.fill(&conversation, &request); err != nil {
		return nil, err
	}
	if !conversation.isConstrained() {
		return e.cache.SubmitContext(ctx, request)
	}
	if request.Constraint != nil {
		return nil, refused("Constraint", "the Schema or the Tools of the conversation constrain the answer already")
	}
	constraint, err := e.constraint(&conversation, request.Tools)
	if err != nil {
		return nil, err
	}
	defer constraint.Close()
	request.Constraint = constraint
	return e.cache.SubmitContext(ctx, request)
}

// Ask submits a conversation and waits for the whole answer.
func (e *ChatEngine) Ask(ctx context.Context, conversation Conversation, request Request) (*Answer, error) {
	job, err := e.Submit(ctx, conversation, request)
	if err != nil {
		return nil, err
	}
	defer job.Close()
	answer := &Answer{}
	for {
		event, err := job.Next(ctx)
		if err == io.EOF {
			return answer, nil
		}
		if err != nil {
			return nil, err
		}
		answer.Add(event)
	}
}

// fill sets the conversation as the prompt of the request.
func (e *ChatEngine) fill(conversation *Conversation, request *Request) error {
	if request.Parts != nil || request.Tokens != nil || request.Prompt != "" {
		return refused("Parts", "the conversation is the prompt; leave Prompt, Tokens and Parts unset")
	}
	messages, err := conversation.messages()
	if err != nil {
		return err
	}
	if request.Tools, err = conversation.tools(); err != nil {
		return err
	}
	if len(conversation.TemplateArguments) > 0 {
		if request.TemplateArguments, err = encoded("TemplateArguments", conversation.TemplateArguments); err != nil {
			return err
		}
	}
	request.Parts = []PromptPart{{Messages: messages}}
	request.ResponseDialect, request.ChatTemplate = e.options.Dialect, e.options.Template
	if e.options.NoReasoning {
		request.Reasoning = ReasoningOff
	}
	if request.MaxNewTokens == 0 {
		request.MaxNewTokens = math.MaxInt32
	}
	return nil
}

func (e *ChatEngine) constraint(conversation *Conversation, tools string) (*Constraint, error) {
	dialect := e.options.Dialect
	if dialect == dialectOfTemplate && e.options.Template != nil {
		var err error
		if dialect, err = e.options.Template.Dialect(e.model); err != nil {
			return nil, err
		}
	}
	rules, err := conversation.rules(dialect, tools)
	if err != nil {
		return nil, err
	}
	return e.model.NewResponseConstraint(rules)
}

// Close frees the objects of OpenChatEngine; its jobs end with CodeClosed. It does nothing for an engine of
// NewChatEngine.
func (e *ChatEngine) Close() error {
	if e.owned == nil {
		return nil
	}
	err := e.cache.Shutdown(context.Background())
	if errors.Is(err, CodeClosed) {
		err = nil // a second Close
	}
	return firstOf(err, firstOf(firstOf(e.cache.Close(), e.model.Close()), e.owned.Close()))
}
