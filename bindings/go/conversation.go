package quire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Roles of messages.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// Message is one message of a conversation.
type Message struct {
	Role    string
	Content string
	// The reasoning of an assistant. Most templates drop it from earlier turns.
	Reasoning string
	// The calls of an assistant.
	Calls []ToolCall
	// The id of the call that a message of the role "tool" answers.
	CallID string
}

// ToolCall is a call that a model makes. Its arguments are a JSON object.
type ToolCall struct {
	Index     int
	ID        string
	Name      string
	Arguments string
}

// Tool is a function that a model may call.
type Tool struct {
	Name        string
	Description string
	// The JSON Schema of the arguments: a json.RawMessage, or a value that encoding/json writes. Arguments are
	// written in the order of its properties, which a map does not keep. Nil means no arguments.
	Parameters any
	// Calls of this tool always match the schema.
	Strict bool
}

// Tool choices. Any other choice is the name of the one tool that must be called.
const (
	ToolsAuto     = "auto"
	ToolsNone     = "none"
	ToolsRequired = "required"
)

// Conversation is what a model answers. Messages are required.
type Conversation struct {
	Messages []Message
	Tools    []Tool
	// ToolsAuto, ToolsNone, ToolsRequired, or the name of a tool; "" means ToolsAuto. With ToolsNone the prompt
	// has no tools.
	ToolChoice string
	// At most one call in an answer, which matches its schema.
	SingleCall bool
	// The JSON Schema that the text of the answer matches, as in Tool.Parameters; nil means any text.
	Schema any
	// Further variables of the template, such as "enable_thinking".
	TemplateArguments map[string]any
}

type functionJSON struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
	Arguments   *string         `json:"arguments,omitempty"`
}

type callJSON struct {
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type"`
	Function functionJSON `json:"function"`
}

type messageJSON struct {
	Role      string     `json:"role"`
	Content   string     `json:"content"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []callJSON `json:"tool_calls,omitempty"`
	CallID    string     `json:"tool_call_id,omitempty"`
}

// messages returns the messages in OpenAI's format.
func (c *Conversation) messages() (string, error) {
	if len(c.Messages) == 0 {
		return "", refused("Messages", "a conversation needs at least one message")
	}
	written := make([]messageJSON, len(c.Messages))
	for i, message := range c.Messages {
		field := fmt.Sprintf("Messages[%d]", i)
		if err := checkTexts(field, message.Role, message.Content, message.Reasoning, message.CallID); err != nil {
			return "", err
		}
		calls, err := callsJSON(field, message.Calls)
		if err != nil {
			return "", err
		}
		written[i] = messageJSON{message.Role, message.Content, message.Reasoning, calls, message.CallID}
	}
	return encoded("Messages", written)
}

func callsJSON(field string, calls []ToolCall) ([]callJSON, error) {
	var written []callJSON
	for i := range calls {
		call := &calls[i]
		if err := checkTexts(fmt.Sprintf("%s.Calls[%d]", field, i), call.ID, call.Name, call.Arguments); err != nil {
			return nil, err
		}
		written = append(written, callJSON{call.ID, "function", functionJSON{Name: call.Name, Arguments: &call.Arguments}})
	}
	return written, nil
}

func (c *Conversation) hasTools() bool { return len(c.Tools) > 0 && c.ToolChoice != ToolsNone }

// tools returns the tools in OpenAI's format; "" if the prompt has none.
func (c *Conversation) tools() (string, error) {
	if !c.hasTools() {
		return "", nil
	}
	written := make([]callJSON, len(c.Tools))
	for i, tool := range c.Tools {
		field := fmt.Sprintf("Tools[%d]", i)
		if err := checkTexts(field, tool.Name, tool.Description); err != nil {
			return "", err
		}
		schema, err := schemaJSON(field+".Parameters", tool.Parameters)
		if err != nil {
			return "", err
		}
		written[i] = callJSON{Type: "function", Function: functionJSON{Name: tool.Name, Description: tool.Description,
			Parameters: schema, Strict: tool.Strict}}
	}
	return encoded("Tools", written)
}

func (c *Conversation) requiresCall() bool {
	return c.ToolChoice != "" && c.ToolChoice != ToolsAuto && c.ToolChoice != ToolsNone
}

// isConstrained reports whether the answer needs a constraint. Tools alone need none: a model calls them as it
// was trained to.
func (c *Conversation) isConstrained() bool {
	if c.Schema != nil || c.requiresCall() || c.SingleCall && c.hasTools() {
		return true
	}
	for _, tool := range c.Tools {
		if tool.Strict && c.hasTools() {
			return true
		}
	}
	return false
}

// rules returns the JSON from which the constraint of the answer is compiled. It leaves out where reasoning begins, which
// depends on the request.
func (c *Conversation) rules(dialect, tools string) (string, error) {
	rules := map[string]any{"dialect": dialect}
	if c.requiresCall() && tools == "" {
		return "", refused("ToolChoice", "a call is required, but there are no Tools")
	}
	if tools != "" {
		rules["tools"], rules["tool_choice"] = json.RawMessage(tools), c.choice()
		rules["parallel_tool_calls"] = !c.SingleCall
	}
	if c.Schema != nil {
		schema, err := schemaJSON("Schema", c.Schema)
		if err != nil {
			return "", err
		}
		format := map[string]any{"name": "answer", "schema": schema}
		rules["response_format"] = map[string]any{"type": "json_schema", "json_schema": format}
	}
	return encoded("ToolChoice", rules)
}

// choice returns the tool choice in OpenAI's format.
func (c *Conversation) choice() any {
	switch {
	case c.ToolChoice == "":
		return ToolsAuto
	case c.requiresCall() && c.ToolChoice != ToolsRequired:
		return map[string]any{"type": "function", "function": map[string]string{"name": c.ToolChoice}}
	}
	return c.ToolChoice
}

func schemaJSON(field string, schema any) (json.RawMessage, error) {
	if schema == nil {
		return nil, nil
	}
	text, err := encoded(field, schema)
	return json.RawMessage(text), err
}

// encoded writes a value as JSON and keeps the characters <, > and & as they are.
func encoded(field string, value any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", refused(field, err.Error())
	}
	return text.String(), nil
}

// checkTexts refuses what encoding/json would replace.
func checkTexts(field string, texts ...string) error {
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return &Error{Code: CodeEncoding, Message: field + ": a text is not valid UTF-8", Parameter: field, RetryAfter: -1}
		}
	}
	return nil
}
