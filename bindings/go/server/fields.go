package server

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

// Every body is checked by one walk over the names of its fields. A field is obeyed if the type that decodes the body
// has it; fieldRules (fieldrules.go) has the others. docs/fields.md lists both.

// form is a kind of body; a field may have one rule in some of them and another in others.
type form uint32

const (
	chatForm form = 1 << iota
	completionForm
	llamaForm
	responsesForm
	messagesForm
	ollamaForm
	optionsForm // the object `options` of ollama's bodies
	embeddingsForm
	scoreForm
	rerankForm
	tokenizeForm
	conversationForm
	showForm
	aliasForm

	openAIForms = chatForm | completionForm
	textForms   = openAIForms | llamaForm | optionsForm // whose settings of samplers have common names
	everyForm   = aliasForm<<1 - 1
)

// bodyType holds what a type decodes.
type bodyType struct {
	form   form
	fields map[string]reflect.Type // of the obeyed fields by their names
}

// bodyTypes has each type of a body.
var bodyTypes = func() map[reflect.Type]bodyType {
	types := map[reflect.Type]bodyType{}
	for of, bodies := range map[form][]interface{}{
		chatForm:         {chatRequest{}},
		completionForm:   {completionRequest{}},
		llamaForm:        {llamaRequest{}},
		responsesForm:    {responsesRequest{}},
		messagesForm:     {messagesRequest{}},
		ollamaForm:       {ollamaChatRequest{}, ollamaGenerateRequest{}, ollamaEmbedRequest{}, ollamaEmbeddingsRequest{}},
		optionsForm:      {ollamaOptions{}},
		embeddingsForm:   {embeddingsRequest{}},
		scoreForm:        {scoreRequest{}},
		rerankForm:       {rerankRequest{}},
		tokenizeForm:     {tokenizeRequest{}, detokenizeRequest{}},
		conversationForm: {conversationRequest{}},
		showForm:         {ollamaShowRequest{}, ollamaPullRequest{}},
		aliasForm:        {aliasRequest{}},
	} {
		for _, body := range bodies {
			t := reflect.TypeOf(body)
			types[t] = bodyType{of, fieldTypes(t)}
		}
	}
	both := bodyType{tokenizeForm | chatForm, fieldTypes(reflect.TypeOf(tokenizeChat{}))}
	for name, t := range fieldTypes(reflect.TypeOf(tokenizeRequest{})) {
		both.fields[name] = t
	}
	types[reflect.TypeOf(tokenizeChat{})] = both
	return types
}()

// checkFields refuses the fields of a body that would be ignored. `into` is the struct that decodes the body, or a
// pointer to it. A body that is no object is left to its decoder.
func checkFields(text []byte, into interface{}) error {
	t := reflect.TypeOf(into)
	if t.Kind() == reflect.Ptr {
		t = t.Elem()
	}
	body, known := bodyTypes[t]
	if !known {
		panic("bodyTypes has no " + t.Name())
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return nil
	}
	return body.check("", members)
}

// check refuses members of an object that would be ignored. `within` is the path of the object with a dot at its end;
// "" for the body.
func (b bodyType) check(within string, members map[string]json.RawMessage) error {
	for _, name := range sortedNames(members) {
		value := members[name]
		if asksForNothing(value) {
			continue
		}
		t, obeyed := b.fields[name]
		if !obeyed {
			if err := b.refuse(within+name, value, members); err != nil {
				return err
			}
			continue
		}
		if inner := objectType(t); inner != nil {
			var object map[string]json.RawMessage
			if json.Unmarshal(value, &object) != nil {
				continue // the decoder reports it
			}
			if err := (bodyType{b.form, fieldTypes(inner)}).check(within+name+".", object); err != nil {
				return err
			}
		}
	}
	return nil
}

func sortedNames(members map[string]json.RawMessage) []string {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// refuse returns the failure of a field that is not obeyed; nil if it may be passed over beside the other members.
func (b bodyType) refuse(path string, value json.RawMessage, members map[string]json.RawMessage) error {
	rule := ruleOf(strings.TrimPrefix(path, optionsPrefix), b.form)
	if rule != nil && rule.passes(value, members) {
		return nil
	}
	path = shortName(path)
	failure := invalid(path, "%s is not supported; leave it out", path)
	switch {
	case rule == nil:
		failure = invalid(path, "%s is not a field of this request; leave it out", path)
		failure.Code = "unknown_parameter"
	case rule.advice != "":
		failure = invalid(path, "%s is not supported; %s", path, rule.advice)
	}
	failure.named = true
	return failure
}

// shortName returns the beginning of a name that a client has chosen, for an error.
func shortName(name string) string {
	const max = 100
	if len(name) <= max {
		return name
	}
	return strings.ToValidUTF8(name[:max], "") + "..."
}

// asksForNothing reports whether a value has the meaning of a field that is left out, whatever its name.
func asksForNothing(value json.RawMessage) bool {
	switch string(compacted(value)) {
	case "", "null", "[]", "{}", `""`:
		return true
	}
	return false
}

// compacted returns a short value without white space.
func compacted(value json.RawMessage) []byte {
	const short = 64
	var compact bytes.Buffer
	if len(value) > short || json.Compact(&compact, value) != nil {
		return value
	}
	return compact.Bytes()
}

// passes reports whether a value changes nothing beside the other members of its object.
func (r *fieldRule) passes(value json.RawMessage, members map[string]json.RawMessage) bool {
	if r.neutral == anyValue {
		return true
	}
	numOff := 0
	for _, other := range r.beside {
		if value := members[other.name]; asksForNothing(value) || isEqual(value, other.off) {
			numOff++
		}
	}
	if len(r.beside) > 0 && numOff == len(r.beside) {
		return true
	}
	for _, neutral := range strings.Fields(r.neutral) {
		if isEqual(value, neutral) {
			return true
		}
	}
	return false
}

// isEqual reports whether a value is the same text or the same number as another.
func isEqual(value json.RawMessage, other string) bool {
	text := string(compacted(value))
	a, errA := strconv.ParseFloat(text, 64)
	b, errB := strconv.ParseFloat(other, 64)
	return text == other || errA == nil && errB == nil && a == b
}

// FieldRules lists the fields of a body by their treatment, each list in alphabetical order. A field of an object has the
// name of that object and a dot before its own. A field in no list is refused.
type FieldRules struct {
	Obeyed, Refused, PassedOver []string
}

// RulesOfFields returns the rules of the bodies that are sent to a path, and false if there are none. The path of
// ollama's options is that of a request with "#options" at its end.
func RulesOfFields(path string) (FieldRules, bool) {
	body, known := bodyAt(path)
	if !known {
		return FieldRules{}, false
	}
	rules := FieldRules{}
	obeyed := map[string]bool{}
	listObeyed("", body.fields, obeyed)
	for name := range obeyed {
		rules.Obeyed = append(rules.Obeyed, name)
	}
	for i := range fieldRules {
		rule := &fieldRules[i]
		switch {
		case rule.in&body.form == 0 || obeyed[rule.name]:
		case rule.neutral == anyValue:
			rules.PassedOver = append(rules.PassedOver, rule.name)
		default:
			rules.Refused = append(rules.Refused, rule.name)
		}
	}
	for _, list := range [][]string{rules.Obeyed, rules.Refused, rules.PassedOver} {
		sort.Strings(list)
	}
	return rules, true
}

func bodyAt(path string) (bodyType, bool) {
	if strings.HasSuffix(path, "#options") {
		return bodyTypes[reflect.TypeOf(ollamaOptions{})], true
	}
	for _, each := range documented {
		if each.path == path && each.body != nil {
			return bodyTypes[reflect.TypeOf(each.body)], true
		}
	}
	return bodyType{}, false
}

// listObeyed adds the paths of the obeyed fields: those of an object in place of the object itself.
func listObeyed(within string, fields map[string]reflect.Type, into map[string]bool) {
	for name, t := range fields {
		if inner := objectType(t); inner != nil {
			listObeyed(within+name+".", fieldTypes(inner), into)
			continue
		}
		into[within+name] = true
	}
}
