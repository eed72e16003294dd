package local

import (
	"encoding/json"
	"strings"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// constraint is what the answer has to be; nil where that is any text.
func (m *model) constraint(g *server.Generation) (*quire.Constraint, error) {
	if g.Grammar != "" {
		if g.ResponseFormat != nil {
			return nil, invalid("grammar", "grammar and response_format exclude each other")
		}
		return m.compile("grammar", grammarKind(g.Grammar), g.Grammar)
	}
	if g.ResponseFormat == nil {
		return nil, nil
	}
	var format struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if err := json.Unmarshal(g.ResponseFormat, &format); err != nil {
		return nil, invalid("response_format", "response_format must be an object with its type")
	}
	switch format.Type {
	case "text":
		return nil, nil
	case "json_object":
		return m.compile("response_format", quire.ConstraintJSONObject, "")
	case "json_schema":
		if format.JSONSchema.Schema == nil {
			return nil, invalid("response_format", "response_format.json_schema.schema is missing")
		}
		return m.compile("response_format", quire.ConstraintJSONSchema, string(format.JSONSchema.Schema))
	}
	return nil, invalid("response_format", "response_format.type must be text, json_object or json_schema, not %q",
		format.Type)
}

// grammarKind tells the two notations apart: GBNF defines rules by ::=, which Lark does not know.
func grammarKind(source string) quire.ConstraintKind {
	if strings.Contains(source, "::=") {
		return quire.ConstraintGBNF
	}
	return quire.ConstraintLark
}

func (m *model) compile(param string, kind quire.ConstraintKind, source string) (*quire.Constraint, error) {
	constraint, err := m.model.NewConstraint(kind, source)
	if err != nil {
		return nil, refusal(param, err)
	}
	return constraint, nil
}
