package server

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// bodyFields holds the names of the fields of a request, or of an object in it: those that the server obeys, and what
// becomes of the others.
type bodyFields struct {
	within string // path of the object with a dot at its end; "" for the body
	obeyed map[string]bool
	others otherFields
}

// otherFields lists fields that a request may have and that are not obeyed. An empty text passes a field over,
// since it changes no answer; any other text is the reason of a refusal.
type otherFields map[string]string

const passedOver = ""

// newBodyFields takes the obeyed fields from a struct for the object.
func newBodyFields(within string, body interface{}, others otherFields) *bodyFields {
	return &bodyFields{within, fieldNames(reflect.TypeOf(body)), others}
}

// check refuses the fields of a body that would be ignored. A field that is null or empty asks for nothing.
func (f *bodyFields) check(body []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		if f.within != "" {
			field := strings.TrimSuffix(f.within, ".")
			return invalid(field, "%s must be an object", field)
		}
		return invalid("", "the body must be a JSON object")
	}
	for name, value := range fields {
		reason, listed := f.others[name]
		path := f.within + shortName(name)
		switch {
		case listed && (reason == passedOver || asksForNothing(value)):
		case listed:
			return invalid(path, "%s is not supported: %s", path, reason)
		case !f.obeyed[name]:
			failure := invalid(path, "%s is not a field of this request; leave it out", path)
			failure.Code = "unknown_parameter"
			return failure
		}
	}
	return nil
}

// shortName returns the beginning of a name that a client has chosen, for an error.
func shortName(name string) string {
	const max = 100
	if len(name) <= max {
		return name
	}
	return strings.ToValidUTF8(name[:max], "") + "..."
}

func asksForNothing(value json.RawMessage) bool {
	switch string(value) {
	case "null", "false", "[]", "{}", `""`:
		return true
	}
	return false
}

// decode decodes an object whose fields are all known. A type calls it in its UnmarshalJSON, with a pointer to a
// type without that method.
func (f *bodyFields) decode(body []byte, into interface{}) error {
	if err := f.check(body); err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// renamed returns the error with the name that its field has in the interface of the request.
func renamed(err error, names map[string]string) error {
	var failure *Failure
	if !errors.As(err, &failure) {
		return err
	}
	name, differs := names[failure.Param]
	if !differs {
		return err
	}
	copied := *failure
	copied.Param = name
	if strings.HasPrefix(copied.Message, failure.Param) {
		copied.Message = name + strings.TrimPrefix(copied.Message, failure.Param)
	}
	return &copied
}

// eachField visits the fields of a struct by their names in JSON, those of embedded structs first.
func eachField(t reflect.Type, visit func(name string, field reflect.Type)) {
	for _, embedded := range []bool{true, false} {
		for i := 0; i < t.NumField(); i++ {
			field := t.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case embedded && field.Anonymous && name == "":
				eachField(field.Type, visit)
			case !embedded && name != "" && name != "-":
				visit(name, field.Type)
			}
		}
	}
}

// fieldNames returns the names in JSON of all fields of a struct.
func fieldNames(t reflect.Type) map[string]bool {
	names := map[string]bool{}
	eachField(t, func(name string, _ reflect.Type) { names[name] = true })
	return names
}
