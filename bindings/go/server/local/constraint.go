package local

import (
	"encoding/json"
	"errors"
	"strings"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// constraint creates the constraint of the answer; nil if any text is allowed.
func (m *model) constraint(g *server.Generation) (*quire.Constraint, error) {
	if g.Grammar != "" {
		if g.ResponseFormat != nil || g.ToolChoice == "required" || isNamed(g.ToolChoice) {
			return nil, invalid("grammar", "grammar excludes response_format and a tool_choice that requires a call")
		}
		constraint, err := m.model.NewConstraint(grammarKind(g.Grammar), g.Grammar)
		return constraint, refusal("grammar", err)
	}
	if err := checkFormat(g.ResponseFormat); err != nil {
		return nil, err
	}
	rules, err := m.rules(g)
	if rules == nil || err != nil {
		return nil, err
	}
	return m.compile(g, rules)
}

// grammarKind distinguishes the two notations: only GBNF defines rules with "::=".
func grammarKind(source string) quire.ConstraintKind {
	if strings.Contains(source, "::=") {
		return quire.ConstraintGBNF
	}
	return quire.ConstraintLark
}

// constraintField returns the field that the constraint of an answer comes from.
func constraintField(g *server.Generation) string {
	if g.Grammar != "" {
		return "grammar"
	}
	if isText(g.ResponseFormat) {
		return "tools"
	}
	return responseField(g)
}

func responseField(g *server.Generation) string {
	if g.ResponseField != "" {
		return g.ResponseField
	}
	return "response_format"
}

// checkFormat rejects a response format that the library would misread.
func checkFormat(text json.RawMessage) error {
	if text == nil {
		return nil
	}
	var format struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if err := json.Unmarshal(text, &format); err != nil || format.Type == "" {
		return invalid("response_format", "response_format must be an object with its type")
	}
	if format.Type == "json_schema" && format.JSONSchema.Schema == nil {
		return invalid("response_format", "response_format.json_schema.schema is missing")
	}
	return nil
}

// Prefix of the name in the choice of a function.
const namedFunction = "function:"

func isNamed(choice string) bool { return strings.HasPrefix(choice, namedFunction) }

// rules returns the rules of a response constraint; nil if the answer needs none. Tools alone need no
// constraint: the model calls them as it was trained to. A tool choice, a limit to one call or to some of the tools, a
// strict schema, or the generic form of calls needs one.
func (m *model) rules(g *server.Generation) (map[string]interface{}, error) {
	required := g.ToolChoice == "required" || isNamed(g.ToolChoice)
	rules := map[string]interface{}{"dialect": m.dialectFor(g)}
	if required && g.Tools == nil {
		return nil, invalid("tool_choice", "tool_choice requires a call, but there are no tools")
	}
	if g.ResponseFormat != nil {
		rules["response_format"] = g.ResponseFormat
	}
	if wantsCalls(g) {
		tools, err := callableTools(g)
		if err != nil {
			return nil, err
		}
		rules["tools"] = tools
		rules["tool_choice"] = toolChoice(g.ToolChoice)
		rules["parallel_tool_calls"] = g.ParallelCalls
		if required || !g.ParallelCalls || g.AllowedTools != nil || m.isGeneric(g) || anyStrict(g.Tools) {
			return rules, nil
		}
	}
	if isText(g.ResponseFormat) {
		return nil, nil
	}
	return rules, nil
}

// callableTools returns the tools that the answer may call.
func callableTools(g *server.Generation) (json.RawMessage, error) {
	if g.AllowedTools == nil {
		return g.Tools, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(g.Tools, &list); err != nil {
		return nil, invalid("tools", "tools must be a list")
	}
	byName := map[string]json.RawMessage{}
	for _, text := range list {
		byName[toolName(text)] = text
	}
	var out []json.RawMessage
	for _, name := range g.AllowedTools {
		tool, has := byName[name]
		if !has {
			return nil, invalid("tool_choice", "tool_choice allows %q, but there is no such tool", name)
		}
		out = append(out, tool)
	}
	text, err := json.Marshal(out)
	return text, err
}

func toolName(tool json.RawMessage) string {
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	_ = json.Unmarshal(tool, &named) // the library reports malformed tools
	return named.Function.Name
}

func isText(format json.RawMessage) bool {
	var kind struct {
		Type string `json:"type"`
	}
	return format == nil || json.Unmarshal(format, &kind) == nil && kind.Type == "text"
}

// toolChoice returns the choice in OpenAI's format.
func toolChoice(choice string) interface{} {
	if isNamed(choice) {
		return map[string]interface{}{"type": "function",
			"function": map[string]string{"name": strings.TrimPrefix(choice, namedFunction)}}
	}
	if choice == "" {
		return "auto"
	}
	return choice
}

// anyStrict reports whether a tool requires its schema to be followed.
func anyStrict(tools json.RawMessage) bool {
	var list []struct {
		Function struct {
			Strict bool `json:"strict"`
		} `json:"function"`
	}
	_ = json.Unmarshal(tools, &list) // the library reports malformed tools
	for _, tool := range list {
		if tool.Function.Strict {
			return true
		}
	}
	return false
}

// compile creates the constraint. For a model that may reason, the prompt decides whether reasoning has
// begun. A text that is no answer in a conversation has no reasoning.
func (m *model) compile(g *server.Generation, rules map[string]interface{}) (*quire.Constraint, error) {
	if !m.reasons || g.Messages == nil {
		rules["reasoning"] = "off"
	}
	text, err := json.Marshal(rules)
	if err != nil {
		return nil, err
	}
	constraint, err := m.model.NewResponseConstraint(string(text))
	if err == nil {
		return constraint, nil
	}
	field := responseField(g)
	if _, has := rules["tools"]; has {
		field = "tools"
	}
	err = refusal(field, err)
	var failure *server.Failure
	if errors.As(err, &failure) && failure.Param == "response_format" {
		failure.Param = responseField(g)
	}
	return nil, err
}
