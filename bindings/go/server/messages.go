package server

import (
	"encoding/json"
	"fmt"
)

// messagesRequest is the body of Anthropic's /v1/messages and /v1/messages/count_tokens.
type messagesRequest struct {
	Model             string             `json:"model"`
	MaxTokens         *int               `json:"max_tokens"`
	Messages          []anthropicMessage `json:"messages"`
	System            json.RawMessage    `json:"system"`
	StopSequences     []string           `json:"stop_sequences"`
	Stream            bool               `json:"stream"`
	Temperature       *float64           `json:"temperature"`
	TopP              *float64           `json:"top_p"`
	TopK              *int               `json:"top_k"`
	Tools             []anthropicTool    `json:"tools"`
	ToolChoice        *anthropicChoice   `json:"tool_choice"`
	Thinking          *thinkingOptions   `json:"thinking"`
	OutputConfig      *outputConfig      `json:"output_config"`
	OutputFormat      json.RawMessage    `json:"output_format"` // older place of output_config.format
	Thread            json.RawMessage    `json:"thread"`        // always refused
	ContextManagement *struct {
		Edits []struct {
			Type string `json:"type"`
		} `json:"edits"`
	} `json:"context_management"`
}

type anthropicTool struct {
	Type           string          `json:"type"`
	Name           string          `json:"name"`
	Description    string          `json:"description"`
	InputSchema    json.RawMessage `json:"input_schema"`
	Strict         bool            `json:"strict"`
	AllowedCallers []string        `json:"allowed_callers"`
}

type anthropicChoice struct {
	Type            string `json:"type"`
	Name            string `json:"name"`
	DisableParallel bool   `json:"disable_parallel_tool_use"`
}

type thinkingOptions struct {
	Type         string  `json:"type"`
	BudgetTokens *int    `json:"budget_tokens"`
	Display      *string `json:"display"`
}

type outputConfig struct {
	Effort *string         `json:"effort"`
	Format json.RawMessage `json:"format"`
}

// Names that the fields of chat completions have in this interface.
var messagesNames = map[string]string{"response_format": "output_config.format", "stop": "stop_sequences"}

func (r *messagesRequest) promptMessages() (json.RawMessage, error) {
	if len(r.Messages) == 0 {
		return nil, invalid("messages", "messages must be a list of at least one message")
	}
	system, err := textOfBlocks("system", r.System)
	if err != nil {
		return nil, err
	}
	var messages []chatMessage
	if system != "" {
		messages = append(messages, chatMessage{Role: "system", Content: system})
	}
	for i := range r.Messages {
		more, err := r.Messages[i].chatMessages(fmt.Sprintf("messages[%d]", i))
		if err != nil {
			return nil, err
		}
		messages = append(messages, more...)
	}
	return json.Marshal(messages)
}

// chatTools returns the tools in the form of chat completions; nil if there are none.
func (r *messagesRequest) chatTools() (json.RawMessage, error) {
	if len(r.Tools) == 0 {
		return nil, nil
	}
	out := []map[string]interface{}{}
	for i, tool := range r.Tools {
		if tool.Type != "" && tool.Type != "custom" {
			return nil, invalid("tools", "tools[%d] is of the type %q; only custom tools are supported", i, tool.Type)
		}
		if tool.AllowedCallers != nil && !isListed("direct", tool.AllowedCallers) {
			return nil, invalid("tools", "tools[%d].allowed_callers must contain direct: only the model calls tools", i)
		}
		function := map[string]interface{}{"name": tool.Name, "parameters": tool.InputSchema}
		if tool.Description != "" {
			function["description"] = tool.Description
		}
		if tool.Strict {
			function["strict"] = true
		}
		out = append(out, map[string]interface{}{"type": "function", "function": function})
	}
	return json.Marshal(out)
}

func (r *messagesRequest) generation(c *call) (*Generation, error) {
	messages, err := r.promptMessages()
	if err != nil {
		return nil, err
	}
	tools, err := r.chatTools()
	if err != nil {
		return nil, err
	}
	common := commonFields{Temperature: r.Temperature, TopP: r.TopP, TopK: r.TopK}
	sampling, err := common.sampling()
	if err != nil {
		return nil, err
	}
	g := &Generation{Sampling: sampling, Scheduling: c.scheduling(nil), StopTexts: r.StopSequences, ParallelCalls: true}
	g.Messages, g.Tools = messages, tools
	g.ContinueFinal = r.Messages[len(r.Messages)-1].Role == "assistant"
	for _, set := range []func(*Generation) error{r.setThinking, r.setChoice, r.setFormat, r.checkRest} {
		if err := set(g); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// setThinking sets the amount of reasoning. With "adaptive", and with none of the options, the template and
// the model decide.
func (r *messagesRequest) setThinking(g *Generation) error {
	effort := ""
	if r.OutputConfig != nil && r.OutputConfig.Effort != nil {
		effort = *r.OutputConfig.Effort
		if !isListed(effort, efforts[2:]) {
			return invalid("output_config.effort", "output_config.effort must be one of %v, not %q", efforts[2:], effort)
		}
	}
	g.ReasoningEffort = effort
	if r.Thinking == nil {
		return nil
	}
	switch r.Thinking.Type {
	case "enabled", "adaptive":
		if effort == "" {
			g.ReasoningEffort = "medium"
		}
	case "disabled":
		g.ReasoningEffort = "none"
	default:
		return invalid("thinking", "thinking.type must be enabled, adaptive or disabled, not %q", r.Thinking.Type)
	}
	g.ReasoningBudget = r.Thinking.BudgetTokens
	if g.ReasoningBudget != nil && *g.ReasoningBudget < 0 {
		return invalid("thinking", "thinking.budget_tokens must be a number of tokens from 0 on, not %d", *g.ReasoningBudget)
	}
	if display := r.Thinking.Display; display != nil && *display != "omitted" && *display != "summarized" {
		return invalid("thinking", "thinking.display must be summarized or omitted, not %q", *display)
	}
	return nil
}

// omitsThinking reports whether the client wants thinking blocks without their text.
func (r *messagesRequest) omitsThinking() bool {
	return r.Thinking != nil && r.Thinking.Display != nil && *r.Thinking.Display == "omitted"
}

func (r *messagesRequest) setChoice(g *Generation) error {
	if r.ToolChoice == nil {
		return nil
	}
	name := r.ToolChoice.Name
	choice, known := map[string]string{"auto": "auto", "any": "required", "none": "none",
		"tool": "function:" + name}[r.ToolChoice.Type]
	if !known {
		return invalid("tool_choice", "tool_choice.type must be auto, any, tool or none, not %q", r.ToolChoice.Type)
	}
	if choice == "required" && len(r.Tools) == 0 {
		return invalid("tool_choice", "tool_choice.type any needs tools")
	}
	if r.ToolChoice.Type == "tool" && !r.hasTool(name) {
		return invalid("tool_choice", "tool_choice.name is %q, which is not among the tools", name)
	}
	g.ParallelCalls = !r.ToolChoice.DisableParallel
	g.ToolChoice = choice
	return nil
}

func (r *messagesRequest) hasTool(name string) bool {
	for i := range r.Tools {
		if r.Tools[i].Name == name {
			return true
		}
	}
	return false
}

// setFormat makes the schema of output_config.format a constraint of the answer.
func (r *messagesRequest) setFormat(g *Generation) error {
	format := r.OutputFormat
	if r.OutputConfig != nil && !isAbsent(r.OutputConfig.Format) {
		format = r.OutputConfig.Format
	}
	if isAbsent(format) {
		return nil
	}
	var fields struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	}
	if json.Unmarshal(format, &fields) != nil || fields.Type != "json_schema" {
		return invalid("output_config.format", "output_config.format.type must be json_schema")
	}
	if isAbsent(fields.Schema) {
		return invalid("output_config.format", "output_config.format.schema is missing")
	}
	var err error
	g.ResponseFormat, err = json.Marshal(map[string]interface{}{"type": "json_schema",
		"json_schema": map[string]interface{}{"name": "output", "schema": fields.Schema, "strict": true}})
	return err
}

// Context edit that needs nothing: templates leave out the thinking of earlier turns themselves.
const clearThinking = "clear_thinking_20251015"

// Code by which Anthropic's clients recognize that they must send all messages.
const threadUnsupported = "thread_unsupported_request"

func (r *messagesRequest) checkRest(*Generation) error {
	for i, text := range r.StopSequences {
		if text == "" {
			return invalid("stop_sequences", "stop_sequences[%d] must not be empty", i)
		}
	}
	if r.TopK != nil && *r.TopK < 0 {
		return invalid("top_k", "top_k must be 0 or more, not %d", *r.TopK)
	}
	if !isAbsent(r.Thread) {
		failure := invalid("thread", "thread is not supported; send all messages with each request")
		failure.Code = threadUnsupported
		return failure
	}
	if r.ContextManagement != nil {
		for i, edit := range r.ContextManagement.Edits {
			if edit.Type != clearThinking {
				return invalid("context_management", "context_management.edits[%d] is of the type %q, which is not supported; "+
					"shorten the messages in the client", i, edit.Type)
			}
		}
	}
	return nil
}

func (s *Server) messages(c *call) error { return renamed(s.createMessage(c), messagesNames) }

func (s *Server) createMessage(c *call) error {
	var request messagesRequest
	if err := c.read(&request); err != nil {
		return err
	}
	if request.MaxTokens == nil || *request.MaxTokens < 1 {
		return invalid("max_tokens", "max_tokens must be 1 or more")
	}
	g, err := request.generation(c)
	if err != nil {
		return err
	}
	g.MaxNewTokens = *request.MaxTokens
	s.fillModel(c, &request.Model)
	model, err := s.open(c, request.Model, len(g.Messages))
	if err != nil {
		return err
	}
	stream, err := model.Submit(c.ctx, g)
	if err != nil {
		return err
	}
	defer stream.Close()
	writer := &messageWriter{id: newID("msg_"), model: request.Model, maxTokens: *request.MaxTokens,
		omitsThinking: request.omitsThinking()}
	if !request.Stream {
		return s.wholeMessage(c, writer, stream)
	}
	prompt, err := model.PromptTokens(g) // beside the computation, which has begun
	if err != nil {
		return err
	}
	return s.streamMessage(c, writer, stream, len(prompt))
}

func (s *Server) countTokens(c *call) error { return renamed(s.countMessageTokens(c), messagesNames) }

func (s *Server) countMessageTokens(c *call) error {
	var request messagesRequest
	if err := c.read(&request); err != nil {
		return err
	}
	g, err := request.generation(c)
	if err != nil {
		return err
	}
	s.fillModel(c, &request.Model)
	model, err := s.open(c, request.Model, len(g.Messages))
	if err != nil {
		return err
	}
	prompt, err := model.PromptTokens(g)
	if err != nil {
		return err
	}
	return answer(c, map[string]int{"input_tokens": len(prompt)})
}
