package server

import (
	"encoding/json"
	"strings"
)

// functionFields holds the tools of a conversation in OpenAI's first form.
type functionFields struct {
	Functions    json.RawMessage `json:"functions"`
	FunctionCall json.RawMessage `json:"function_call"`
}

// asFunctions reports whether the request has the first form, in which an answer has at most one call.
func (f *functionFields) asFunctions() bool { return !isAbsent(f.Functions) }

// fillTools sets the tools of a generation.
func (f *chatRequest) fillTools(g *Generation) error {
	tools, choice := f.Tools, f.ToolChoice
	g.ParallelCalls = f.ParallelToolCalls == nil || *f.ParallelToolCalls
	if f.asFunctions() {
		if !isAbsent(tools) || !isAbsent(choice) {
			return invalid("functions", "functions and tools are two forms of one field; send one of them")
		}
		var err error
		if tools, err = toolsOfFunctions(f.Functions); err != nil {
			return err
		}
		if choice, err = choiceOfFunction(f.FunctionCall); err != nil {
			return err
		}
		g.ParallelCalls = false
	} else if !isAbsent(f.FunctionCall) && string(f.FunctionCall) != `"none"` && string(f.FunctionCall) != `"auto"` {
		return invalid("function_call", "function_call needs functions; with tools use tool_choice")
	}
	var err error
	if g.Tools, err = checkedTools(tools); err != nil {
		return err
	}
	if g.ToolChoice, err = toolChoice(choice); err != nil {
		return err
	}
	if g.AllowedTools, err = allowedTools(choice); err != nil {
		return err
	}
	return checkChosen(g)
}

// checkChosen refuses a choice of functions that are not among the tools.
func checkChosen(g *Generation) error {
	chosen := g.AllowedTools
	if name := strings.TrimPrefix(g.ToolChoice, "function:"); name != g.ToolChoice {
		chosen = []string{name}
	}
	if len(chosen) == 0 {
		return nil
	}
	var tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	_ = json.Unmarshal(g.Tools, &tools) // the engine reports malformed tools
	names := make([]string, len(tools))
	for i := range tools {
		names[i] = tools[i].Function.Name
	}
	for _, name := range chosen {
		if !isListed(name, names) {
			return invalid("tool_choice", "tool_choice names the function %q, which is not among the tools; send it in tools", name)
		}
	}
	return nil
}

// checkedTools returns a list of functions, or nil if there are none. Tools that the server would have to run,
// and tools that are no functions, are refused.
func checkedTools(tools json.RawMessage) (json.RawMessage, error) {
	if isAbsent(tools) {
		return nil, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(tools, &list) != nil {
		return nil, invalid("tools", "tools must be a list")
	}
	if len(list) == 0 {
		return nil, nil
	}
	for i, text := range list {
		var tool struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(text, &tool) != nil {
			return nil, invalid("tools", "tools[%d] must be an object", i)
		}
		if tool.Type != "" && tool.Type != "function" {
			return nil, invalid("tools", "tools[%d] is of the type %q; only functions are supported", i, tool.Type)
		}
	}
	return tools, nil
}

func toolsOfFunctions(functions json.RawMessage) (json.RawMessage, error) {
	var list []json.RawMessage
	if json.Unmarshal(functions, &list) != nil {
		return nil, invalid("functions", "functions must be a list")
	}
	tools := make([]map[string]interface{}, len(list))
	for i, function := range list {
		tools[i] = map[string]interface{}{"type": "function", "function": function}
	}
	text, err := json.Marshal(tools)
	return text, err
}

// choiceOfFunction returns the tool_choice of a function_call: "none", "auto" or {"name": NAME}.
func choiceOfFunction(call json.RawMessage) (json.RawMessage, error) {
	if isAbsent(call) || string(call) == `"none"` || string(call) == `"auto"` {
		return call, nil
	}
	var named struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(call, &named) != nil || named.Name == "" {
		return nil, invalid("function_call", "function_call must be none, auto or an object with the name of a function")
	}
	text, err := json.Marshal(map[string]interface{}{"type": "function", "function": named})
	return text, err
}

// choiceObject is a tool_choice that is no word. Chat completions nest the members in an object with the name of
// the type, responses do not.
type choiceObject struct {
	Type     string `json:"type"`
	Name     string `json:"name"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
	allowedSet
	AllowedTools *allowedSet `json:"allowed_tools"`
}

type allowedSet struct {
	Mode  string `json:"mode"`
	Tools []struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

func (c *choiceObject) allowed() *allowedSet {
	if c.AllowedTools != nil {
		return c.AllowedTools
	}
	return &c.allowedSet
}

// toolChoice parses "none", "auto", "required", {"type": "function", "function": {"name": NAME}}, and the mode of
// allowed tools.
func toolChoice(value json.RawMessage) (string, error) {
	if isAbsent(value) {
		return "", nil
	}
	var word string
	if json.Unmarshal(value, &word) == nil {
		if word == "none" || word == "auto" || word == "required" {
			return word, nil
		}
		return "", invalid("tool_choice", "tool_choice must be none, auto, required or a function, not %q", word)
	}
	var choice choiceObject
	if json.Unmarshal(value, &choice) == nil && choice.Type == "function" {
		if choice.Function.Name != "" {
			return "function:" + choice.Function.Name, nil
		}
		if choice.Name != "" {
			return "function:" + choice.Name, nil
		}
	}
	if choice.Type == "allowed_tools" {
		if mode := choice.allowed().Mode; mode == "auto" || mode == "required" {
			return mode, nil
		}
		return "", invalid("tool_choice", "the mode of allowed tools must be auto or required, not %q", choice.allowed().Mode)
	}
	return "", invalid("tool_choice", "tool_choice must be none, auto, required, allowed_tools, or a function with its name")
}

// allowedTools returns the names of a tool_choice of the type "allowed_tools"; nil if all tools are allowed.
func allowedTools(value json.RawMessage) ([]string, error) {
	var choice choiceObject
	if isAbsent(value) || json.Unmarshal(value, &choice) != nil || choice.Type != "allowed_tools" {
		return nil, nil
	}
	var names []string
	for _, tool := range choice.allowed().Tools {
		name := tool.Function.Name
		if name == "" {
			name = tool.Name
		}
		if tool.Type != "function" || name == "" {
			return nil, invalid("tool_choice", "allowed tools must be functions with their names")
		}
		if !isListed(name, names) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, invalid("tool_choice", "allowed tools must be a list of at least one function; or use none")
	}
	return names, nil
}
