package server

import (
	"encoding/json"
	"time"
)

// chatRequest is the body of /v1/chat/completions.
type chatRequest struct {
	commonFields
	Messages             json.RawMessage `json:"messages"`
	Tools                json.RawMessage `json:"tools"`
	ToolChoice           json.RawMessage `json:"tool_choice"`
	ParallelToolCalls    *bool           `json:"parallel_tool_calls"`
	ResponseFormat       json.RawMessage `json:"response_format"`
	MaxTokens            *int            `json:"max_tokens"`
	MaxCompletionTokens  *int            `json:"max_completion_tokens"`
	LogProbs             bool            `json:"logprobs"`
	TopLogProbs          int             `json:"top_logprobs"`
	ReasoningEffort      string          `json:"reasoning_effort"`
	TemplateArgs         json.RawMessage `json:"chat_template_kwargs"`
	Documents            json.RawMessage `json:"documents"`
	AddGenerationPrompt  *bool           `json:"add_generation_prompt"`
	ContinueFinalMessage bool            `json:"continue_final_message"`
	AddSpecialTokens     bool            `json:"add_special_tokens"`
	functionFields
	formatFields
	reasoningLimits
	truncation
	tokenFields
}

// reasoningLimits holds limits of reasoning, under the names of several servers.
type reasoningLimits struct {
	ReasoningBudget       *int  `json:"reasoning_budget"`
	ReasoningBudgetTokens *int  `json:"reasoning_budget_tokens"`
	ThinkingTokenBudget   *int  `json:"thinking_token_budget"`
	IncludeReasoning      *bool `json:"include_reasoning"`
}

// budget returns the maximum number of reasoning tokens; nil means no limit. The later names have -1 for it.
func (f *reasoningLimits) budget() (*int, error) {
	if f.ReasoningBudget != nil && *f.ReasoningBudget < 0 {
		return nil, invalid("reasoning_budget", "reasoning_budget must be a number of tokens from 0 on, not %d", *f.ReasoningBudget)
	}
	budget, name := f.ReasoningBudget, "reasoning_budget"
	var err error
	if budget, err = either(name, budget, "reasoning_budget_tokens", f.ReasoningBudgetTokens); err != nil {
		return nil, err
	}
	if budget, err = either(name, budget, "thinking_token_budget", f.ThinkingTokenBudget); err != nil {
		return nil, err
	}
	if budget != nil && *budget < -1 {
		return nil, invalid("thinking_token_budget", "a budget of reasoning must be a number of tokens from 0 on, or -1, not %d", *budget)
	}
	if budget != nil && *budget == -1 {
		return nil, nil
	}
	return budget, nil
}

func (f *reasoningLimits) hidesReasoning() bool {
	return f.IncludeReasoning != nil && !*f.IncludeReasoning
}

func (r *chatRequest) generation(c *call) (*Generation, error) {
	if err := r.checkMessages(); err != nil {
		return nil, err
	}
	sampling, err := r.sampling()
	if err != nil {
		return nil, err
	}
	if err := r.checkLogProbs(); err != nil {
		return nil, err
	}
	g := &Generation{Sampling: sampling, Scheduling: c.scheduling(r.Priority), StopTexts: r.Stop, IgnoreEOS: r.IgnoreEOS,
		LogProbs: r.LogProbs, TopLogProbs: r.TopLogProbs, TokenIDs: r.ReturnTokenIDs}
	g.ReasoningEffort = r.ReasoningEffort
	if g.ReasoningBudget, err = r.budget(); err != nil {
		return nil, err
	}
	if err := r.fillPrompt(g); err != nil {
		return nil, err
	}
	if err := r.fillTools(g); err != nil {
		return nil, err
	}
	if err := r.formatFields.fill(g, r.ResponseFormat); err != nil {
		return nil, err
	}
	maxTokens, err := r.newTokens(r.MaxTokens)
	if err != nil {
		return nil, err
	}
	if g.MaxNewTokens, err = maxNewTokens(r.MaxCompletionTokens, maxTokens); err != nil {
		return nil, err
	}
	g.Restrictions, err = r.restrictions(g.MaxNewTokens)
	return g, err
}

func (r *chatRequest) checkMessages() error {
	if isAbsent(r.Messages) {
		return invalid("messages", "messages is missing")
	}
	var messages []json.RawMessage
	if json.Unmarshal(r.Messages, &messages) != nil || len(messages) == 0 {
		return invalid("messages", "messages must be a list of at least one message")
	}
	for i, message := range messages {
		if err := checkContent(i, message); err != nil {
			return err
		}
	}
	if r.AddSpecialTokens {
		return invalid("add_special_tokens", "add_special_tokens is not supported; the chat template writes these tokens")
	}
	return nil
}

// checkContent refuses a content that is neither a text nor a list of parts, because templates would print it. The library
// checks the rest of a message.
func checkContent(i int, message json.RawMessage) error {
	var fields struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(message, &fields) != nil || isAbsent(fields.Content) {
		return nil
	}
	if first := fields.Content[0]; first != '"' && first != '[' {
		return invalid("messages", "messages[%d].content must be a text, or a list of parts", i)
	}
	var parts []struct {
		Text json.RawMessage `json:"text"`
	}
	_ = json.Unmarshal(fields.Content, &parts) // a text has no parts
	for j, part := range parts {
		if !isAbsent(part.Text) && part.Text[0] != '"' {
			return invalid("messages", "messages[%d].content[%d].text must be a text", i, j)
		}
	}
	return nil
}

func (r *chatRequest) checkLogProbs() error {
	if r.TopLogProbs < 0 || r.TopLogProbs > maxTopLogProbs {
		return invalid("top_logprobs", "top_logprobs must be from 0 to %d, not %d", maxTopLogProbs, r.TopLogProbs)
	}
	if r.TopLogProbs > 0 && !r.LogProbs {
		return invalid("top_logprobs", "top_logprobs needs logprobs to be true")
	}
	return r.tokenFields.check(r.Stream)
}

// fillPrompt sets the conversation and how the template renders it.
func (r *chatRequest) fillPrompt(g *Generation) error {
	g.Messages, g.TemplateArgs = r.Messages, present(r.TemplateArgs)
	g.ContinueFinal = r.ContinueFinalMessage
	g.NoGenerationPrompt = r.AddGenerationPrompt != nil && !*r.AddGenerationPrompt
	if r.ContinueFinalMessage && r.AddGenerationPrompt != nil && *r.AddGenerationPrompt {
		return invalid("continue_final_message", "continue_final_message and add_generation_prompt exclude each other; "+
			"set one of them to false")
	}
	if isAbsent(r.Documents) {
		return nil
	}
	arguments := map[string]json.RawMessage{}
	if g.TemplateArgs != nil && json.Unmarshal(g.TemplateArgs, &arguments) != nil {
		return invalid("chat_template_kwargs", "chat_template_kwargs must be an object")
	}
	arguments["documents"] = r.Documents
	var err error
	g.TemplateArgs, err = json.Marshal(arguments)
	return err
}

func isAbsent(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

func present(value json.RawMessage) json.RawMessage {
	if isAbsent(value) {
		return nil
	}
	return value
}

func maxNewTokens(first, second *int) (int, error) {
	value := first
	if value == nil {
		value = second
	}
	if value == nil {
		return 0, nil
	}
	if *value < 1 {
		return 0, invalid("max_tokens", "the number of tokens to generate must be 1 or more, not %d", *value)
	}
	return *value, nil
}

// readChat reads a conversation and the generation that it asks for.
func (c *call) readChat() (*chatRequest, *Generation, error) {
	request := &chatRequest{}
	if err := c.read(request); err != nil {
		return nil, nil, err
	}
	g, err := request.generation(c)
	return request, g, err
}

func (s *Server) chatCompletions(c *call) error {
	request, g, err := c.readChat()
	if err != nil {
		return err
	}
	num, err := request.choices(&c.config.Limits)
	if err != nil {
		return err
	}
	s.fillModel(c, &request.Model)
	model, err := s.open(c, request.Model, len(request.Messages))
	if err != nil {
		return err
	}
	if g.Rendered, err = request.cut(model, g, g.MaxNewTokens); err != nil {
		return err
	}
	prompt, err := request.measure(c.ctx, model, g, -1)
	if err != nil {
		return err
	}
	streams, err := submitAll(c, model, g, num)
	if err != nil {
		return err
	}
	defer closeAll(streams)
	w := &chatAnswer{request: request, prompt: prompt, streams: streams,
		head: chatHead{newID("chatcmpl-"), "chat.completion", time.Now().Unix(), request.Model, s.fingerprint(c)}}
	if request.Stream {
		w.head.Object = "chat.completion.chunk"
		return s.streamChat(c, w)
	}
	return s.wholeChat(c, w)
}
