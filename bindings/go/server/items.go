package server

import (
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
)

// item is a part of a conversation in the form of /v1/responses: a message, a call, its output, or reasoning.
type item struct {
	id   string
	text json.RawMessage // the JSON object, with its id
}

// itemFields holds what the server reads of an item.
type itemFields struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

var (
	itemRoles = []string{"user", "assistant", "system", "developer"}
	textParts = []string{"input_text", "output_text", "text", "refusal"} // types of parts of a content
)

// Estimated bytes of an item without its id and its text.
const itemOverhead = 64

func sizeOf(items []item) int64 {
	total := int64(0)
	for i := range items {
		total += int64(len(items[i].id)+len(items[i].text)) + itemOverhead
	}
	return total
}

// itemsOfInput reads an input: a text or a list of items. It gives each item the form in which it can be listed
// later, and takes the items that input only refers to from known.
func itemsOfInput(param string, input json.RawMessage, known func(id string) *item) ([]item, error) {
	var text string
	if json.Unmarshal(input, &text) == nil {
		return []item{newTextItem("user", text)}, nil
	}
	var list []map[string]json.RawMessage
	if json.Unmarshal(input, &list) != nil {
		return nil, invalid(param, "%s must be a text or a list of items", param)
	}
	items := make([]item, 0, len(list))
	for i, raw := range list {
		read := itemReader{param, i, known}
		next, err := read.item(raw)
		if err != nil {
			return nil, err
		}
		items = append(items, next)
	}
	return items, nil
}

func newTextItem(role, text string) item {
	kind := "input_text"
	if role == "assistant" {
		kind = "output_text"
	}
	part, _ := json.Marshal(text)
	return newItem("msg_", map[string]json.RawMessage{"type": json.RawMessage(`"message"`),
		"role": json.RawMessage(`"` + role + `"`), "content": json.RawMessage(`[` + textPart(kind, part) + `]`)})
}

// textPart returns a part of a content; text is JSON.
func textPart(kind string, text json.RawMessage) string {
	if kind == "output_text" {
		return `{"type":"output_text","text":` + string(text) + `,"annotations":[],"logprobs":[]}`
	}
	return `{"type":"` + kind + `","text":` + string(text) + `}`
}

// newItem completes an item with an id and a status, if it has none.
func newItem(prefix string, fields map[string]json.RawMessage) item {
	var id string
	if json.Unmarshal(fields["id"], &id) != nil || id == "" {
		id = newID(prefix)
		fields["id"] = json.RawMessage(`"` + id + `"`)
	}
	if isAbsent(fields["status"]) {
		fields["status"] = json.RawMessage(`"completed"`)
	}
	text, _ := json.Marshal(fields)
	return item{id, text}
}

// itemOfOutput returns an item of an answer.
func itemOfOutput(value interface{}) (item, error) {
	text, err := json.Marshal(value)
	var fields itemFields
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	return item{fields.ID, text}, err
}

// itemReader reads one item of a list, and names it in errors.
type itemReader struct {
	param string
	index int
	known func(id string) *item
}

func (r itemReader) invalid(field, format string, args ...interface{}) error {
	failure := invalid(r.param, format, args...)
	failure.Message = r.param + "[" + strconv.Itoa(r.index) + "]" + field + " " + failure.Message
	return failure
}

func (r itemReader) item(raw map[string]json.RawMessage) (item, error) {
	text, _ := json.Marshal(raw)
	var fields itemFields
	if err := json.Unmarshal(text, &fields); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return item{}, r.invalid("."+wrong.Field, "must be a %s", wrong.Type)
		}
		return item{}, r.invalid("", "cannot be read")
	}
	if fields.Type == "" {
		fields.Type = "message"
		if fields.Role == "" && fields.ID != "" {
			fields.Type = "item_reference"
		}
		raw["type"] = json.RawMessage(`"` + fields.Type + `"`)
	}
	switch fields.Type {
	case "message":
		return r.message(raw, &fields)
	case "function_call":
		return newItem("fc_", raw), nil
	case "function_call_output":
		if err := r.checkParts(".output", fields.Output); err != nil {
			return item{}, err
		}
		return newItem("fco_", raw), nil
	case "reasoning":
		if isAbsent(raw["summary"]) {
			raw["summary"] = json.RawMessage(`[]`)
		}
		return newItem("rs_", raw), nil
	case "item_reference":
		if found := r.known(fields.ID); found != nil {
			return *found, nil
		}
		return item{}, r.invalid(".id", "refers to %q, which is not stored", fields.ID)
	}
	return item{}, r.invalid("", "is of the type %q, which is not supported", fields.Type)
}

func (r itemReader) message(raw map[string]json.RawMessage, fields *itemFields) (item, error) {
	if !isListed(fields.Role, itemRoles) {
		return item{}, r.invalid(".role", "must be user, assistant, system or developer, not %q", fields.Role)
	}
	if isAbsent(fields.Content) {
		return item{}, r.invalid(".content", "is missing")
	}
	var text string
	if json.Unmarshal(fields.Content, &text) == nil {
		kind := "input_text"
		if fields.Role == "assistant" {
			kind = "output_text"
		}
		raw["content"] = json.RawMessage(`[` + textPart(kind, fields.Content) + `]`)
	} else if err := r.checkParts(".content", fields.Content); err != nil {
		return item{}, err
	}
	return newItem("msg_", raw), nil
}

// checkParts refuses parts that are not text.
func (r itemReader) checkParts(field string, content json.RawMessage) error {
	var text string
	var parts []struct {
		Type string `json:"type"`
	}
	if isAbsent(content) || json.Unmarshal(content, &text) == nil {
		return nil
	}
	if json.Unmarshal(content, &parts) != nil {
		return r.invalid(field, "must be a text or a list of parts")
	}
	for i, part := range parts {
		if !isListed(part.Type, textParts) {
			return r.invalid(field+"["+strconv.Itoa(i)+"]", "is of the type %q; this model reads text", part.Type)
		}
	}
	return nil
}

// itemPage is a page of a list of items.
type itemPage struct {
	Object  string            `json:"object"`
	Data    []json.RawMessage `json:"data"`
	FirstID *string           `json:"first_id"`
	LastID  *string           `json:"last_id"`
	HasMore bool              `json:"has_more"`
}

func newItemPage(items []item, hasMore bool) *itemPage {
	page := &itemPage{Object: "list", Data: []json.RawMessage{}, HasMore: hasMore}
	for i := range items {
		page.Data = append(page.Data, items[i].text)
	}
	if len(items) > 0 {
		page.FirstID, page.LastID = &items[0].id, &items[len(items)-1].id
	}
	return page
}

// Numbers of items on a page.
const (
	pageDefault = 20
	pageMax     = 100
)

// pageOf returns the page that a query asks for: `limit` items in `order`, those that follow `after`.
func pageOf(items []item, query url.Values) (*itemPage, error) {
	limit, err := pageLimit(query, pageDefault, pageMax)
	if err != nil {
		return nil, err
	}
	order := query.Get("order")
	if order != "" && order != "asc" && order != "desc" {
		return nil, invalid("order", "order must be asc or desc, not %q", order)
	}
	sorted := append([]item(nil), items...)
	if order != "asc" {
		for i, j := 0, len(sorted)-1; i < j; i, j = i+1, j-1 {
			sorted[i], sorted[j] = sorted[j], sorted[i]
		}
	}
	if after := query.Get("after"); after != "" {
		place := indexOf(sorted, after)
		if place < 0 {
			return nil, invalid("after", "after is %q, which is no item of this list", after)
		}
		sorted = sorted[place+1:]
	}
	if len(sorted) > limit {
		return newItemPage(sorted[:limit], true), nil
	}
	return newItemPage(sorted, false), nil
}

func indexOf(items []item, id string) int {
	for i := range items {
		if items[i].id == id {
			return i
		}
	}
	return -1
}

func pageLimit(query url.Values, fallback, max int) (int, error) {
	text := query.Get("limit")
	if text == "" {
		return fallback, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > max {
		return 0, invalid("limit", "limit must be a number from 1 to %d, not %q", max, text)
	}
	return limit, nil
}
