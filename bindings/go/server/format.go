package server

import (
	"encoding/json"
	"strings"
)

// formatFields holds the constraints of an answer beside OpenAI's response_format: vLLM's structured_outputs and
// the older guided_*, llama.cpp's json_schema and grammar, and the form of JSON in any of them.
type formatFields struct {
	StructuredOutputs json.RawMessage `json:"structured_outputs"`
	GuidedJSON        json.RawMessage `json:"guided_json"`
	GuidedRegex       json.RawMessage `json:"guided_regex"`
	GuidedChoice      json.RawMessage `json:"guided_choice"`
	GuidedGrammar     json.RawMessage `json:"guided_grammar"`
	JSONSchema        json.RawMessage `json:"json_schema"`
	Grammar           string          `json:"grammar"`
	JSONOrder         *string         `json:"json_order"`
	JSONClosed        *bool           `json:"json_closed"`
	JSONPlainIntegers *bool           `json:"json_plain_integers"`
	JSONSpace         *string         `json:"json_space"`
}

// fill sets the constraint of a generation. An answer has at most one, so that none is ignored.
func (f *formatFields) fill(g *Generation, responseFormat json.RawMessage) error {
	if err := f.fillForm(&g.JSON); err != nil {
		return err
	}
	given := ""
	take := func(field string, value json.RawMessage, convert func(*Generation, string, json.RawMessage) error) error {
		if isAbsent(value) {
			return nil
		}
		before := given
		given = field
		if before != "" {
			return invalid(field, "%s and %s both constrain the answer; send one of them", before, field)
		}
		g.ResponseField = field
		return convert(g, field, value)
	}
	if !isPlainText(responseFormat) {
		if err := take("response_format", responseFormat, takeResponseFormat); err != nil {
			return err
		}
	}
	for _, source := range []struct {
		field   string
		value   json.RawMessage
		convert func(*Generation, string, json.RawMessage) error
	}{
		{"structured_outputs", f.StructuredOutputs, takeStructuredOutputs},
		{"guided_json", f.GuidedJSON, takeSchema},
		{"guided_regex", f.GuidedRegex, takeRegex},
		{"guided_choice", f.GuidedChoice, takeChoice},
		{"guided_grammar", f.GuidedGrammar, takeGrammar},
		{"json_schema", f.JSONSchema, takeSchema},
	} {
		if err := take(source.field, source.value, source.convert); err != nil {
			return err
		}
	}
	if f.Grammar != "" {
		if given != "" {
			return invalid("grammar", "%s and grammar both constrain the answer; send one of them", given)
		}
		g.Grammar = f.Grammar
	}
	return nil
}

func (f *formatFields) fillForm(form *JSONForm) error {
	if f.JSONOrder != nil {
		if *f.JSONOrder != "schema" && *f.JSONOrder != "any" {
			return invalid("json_order", "json_order must be schema or any, not %q", *f.JSONOrder)
		}
		form.AnyOrder = *f.JSONOrder == "any"
	}
	if f.JSONSpace != nil {
		if *f.JSONSpace != "spaced" && *f.JSONSpace != "compact" && *f.JSONSpace != "printed" {
			return invalid("json_space", "json_space must be spaced, compact or printed, not %q", *f.JSONSpace)
		}
		form.Space = *f.JSONSpace
	}
	form.Open = f.JSONClosed != nil && !*f.JSONClosed
	form.AnyIntegers = f.JSONPlainIntegers != nil && !*f.JSONPlainIntegers
	return nil
}

func isPlainText(format json.RawMessage) bool {
	var kind struct {
		Type string `json:"type"`
	}
	return isAbsent(format) || json.Unmarshal(format, &kind) == nil && kind.Type == "text"
}

// takeResponseFormat takes OpenAI's forms, and llama.cpp's with the schema directly beside the type.
func takeResponseFormat(g *Generation, field string, value json.RawMessage) error {
	var format struct {
		Type       string          `json:"type"`
		JSONSchema json.RawMessage `json:"json_schema"`
		Schema     json.RawMessage `json:"schema"`
		Format     json.RawMessage `json:"format"`
	}
	if json.Unmarshal(value, &format) != nil {
		return invalid(field, "%s must be an object with its type", field)
	}
	switch {
	case format.Type == "structural_tag":
		return takeTag(g, field, value)
	case isAbsent(format.Schema) || format.Type != "json_object" && format.Type != "json_schema":
		g.ResponseFormat = value
		return nil
	case !isAbsent(format.JSONSchema):
		return invalid(field, "%s has json_schema and schema; send one of them", field)
	}
	return takeSchema(g, field, format.Schema)
}

// takeSchema takes a schema, or its JSON as a text.
func takeSchema(g *Generation, field string, value json.RawMessage) error {
	var text string
	if json.Unmarshal(value, &text) == nil {
		if value = json.RawMessage(text); !json.Valid(value) {
			return invalid(field, "%s is a text that is not JSON; send the schema as an object", field)
		}
	}
	g.ResponseFormat, _ = json.Marshal(map[string]interface{}{"type": "json_schema",
		"json_schema": map[string]interface{}{"name": "answer", "schema": value}})
	return nil
}

func takeRegex(g *Generation, field string, value json.RawMessage) error {
	return takeText(g, field, value, func(string) string { return "regex" }, "pattern")
}

// takeGrammar takes a grammar. Only GBNF defines rules with "::=".
func takeGrammar(g *Generation, field string, value json.RawMessage) error {
	return takeText(g, field, value, func(source string) string {
		if strings.Contains(source, "::=") {
			return "gbnf"
		}
		return "lark"
	}, "grammar")
}

func takeText(g *Generation, field string, value json.RawMessage, kind func(string) string, member string) error {
	var text string
	if json.Unmarshal(value, &text) != nil || text == "" {
		return invalid(field, "%s must be a text that is not empty", field)
	}
	g.ResponseFormat, _ = json.Marshal(map[string]string{"type": kind(text), member: text})
	return nil
}

func takeChoice(g *Generation, field string, value json.RawMessage) error {
	var choices []string
	if json.Unmarshal(value, &choices) != nil || len(choices) == 0 {
		return invalid(field, "%s must be a list of at least one text", field)
	}
	g.ResponseFormat, _ = json.Marshal(map[string]interface{}{"type": "choice", "choices": choices})
	return nil
}

// takeTag takes a structural tag, or its JSON as a text, in the form with structures and triggers.
func takeTag(g *Generation, field string, value json.RawMessage) error {
	var text string
	if json.Unmarshal(value, &text) == nil {
		value = json.RawMessage(text)
	}
	var tag struct {
		Type       string            `json:"type"`
		Structures []json.RawMessage `json:"structures"`
		Triggers   []string          `json:"triggers"`
	}
	if json.Unmarshal(value, &tag) != nil || tag.Type != "structural_tag" || tag.Structures == nil || tag.Triggers == nil {
		return invalid(field, "the structural tag of %s must be an object with its type, structures and triggers", field)
	}
	g.ResponseFormat = value
	return nil
}

// structuredOutputs has the constraints in structured_outputs, of which a request has one.
var structuredOutputs = []struct {
	member string
	take   func(*Generation, string, json.RawMessage) error
}{
	{"json", takeSchema}, {"regex", takeRegex}, {"choice", takeChoice}, {"grammar", takeGrammar},
	{"structural_tag", takeTag},
	{"json_object", func(g *Generation, _ string, _ json.RawMessage) error {
		g.ResponseFormat = json.RawMessage(`{"type":"json_object"}`)
		return nil
	}},
}

// takeStructuredOutputs takes vLLM's object with one constraint and with settings of the form of JSON. A member
// that is not known is refused, since it would constrain.
func takeStructuredOutputs(g *Generation, field string, value json.RawMessage) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(value, &members) != nil {
		return invalid(field, "%s must be an object", field)
	}
	for name, member := range members {
		if isAbsent(member) || string(member) == "false" {
			delete(members, name)
		}
	}
	given := ""
	for _, constraint := range structuredOutputs {
		member, has := members[constraint.member]
		if !has {
			continue
		}
		if given != "" {
			return invalid(field, "%s has %s and %s; send one of them", field, given, constraint.member)
		}
		given = constraint.member
		delete(members, given)
		if err := constraint.take(g, field+"."+given, member); err != nil {
			return err
		}
	}
	if given == "" {
		return invalid(field, "%s has no constraint; send json, regex, choice, grammar, json_object or structural_tag", field)
	}
	g.ResponseField = field + "." + given
	return takeStructuredForm(g, field, members)
}

func takeStructuredForm(g *Generation, field string, members map[string]json.RawMessage) error {
	for name, member := range members {
		switch {
		case name == "disable_any_whitespace" && string(member) == "true":
			g.JSON.Space = "compact"
		case name == "disable_additional_properties" && string(member) == "true":
			g.JSON.Open = false
		case name == "whitespace_pattern":
			return invalid(field+"."+name, "%s.%s is not supported; use json_space", field, name)
		default:
			return invalid(field+"."+name, "%s.%s is not supported", field, name)
		}
	}
	return nil
}
