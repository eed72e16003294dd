package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// conversation is a list of items that requests continue.
type conversation struct {
	id       string
	created  int64
	metadata map[string]string
	items    []item
}

func (c *conversation) size() int64 {
	total := sizeOf(c.items)
	for key, value := range c.metadata {
		total += int64(len(key) + len(value))
	}
	return total
}

func (c *conversation) dropped() {}

func (c *conversation) ownItems() []item { return c.items }

func (c *conversation) body() interface{} {
	metadata := c.metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return map[string]interface{}{"id": c.id, "object": "conversation", "created_at": c.created, "metadata": metadata}
}

func noConversation(id string) *Failure {
	return notFound("conversation_not_found", "there is no conversation %q; it may have expired, or made room for later "+
		"ones", id)
}

// conversationRequest is the body of requests about conversations.
type conversationRequest struct {
	Items    json.RawMessage   `json:"items"`
	Metadata map[string]string `json:"metadata"`
}

// read reads and checks the items and the metadata of a request.
func (r *conversationRequest) read(c *call) ([]item, error) {
	if err := c.read(r); err != nil {
		return nil, err
	}
	if err := checkMetadata(r.Metadata); err != nil {
		return nil, err
	}
	if isAbsent(r.Items) {
		return nil, nil
	}
	if r.Items[0] != '[' {
		return nil, invalid("items", "items must be a list of items")
	}
	return itemsOfInput("items", r.Items, c.server.knownItems(c.key.Owner))
}

func (s *Server) createConversation(c *call) error {
	var request conversationRequest
	items, err := request.read(c)
	if err != nil {
		return err
	}
	created := &conversation{newID("conv_"), time.Now().Unix(), request.Metadata, items}
	if err := s.stored.put(created.id, c.key.Owner, created); err != nil {
		return err
	}
	return answer(c, created.body())
}

// conversations answers requests about a conversation and its items.
func (s *Server) conversations(w http.ResponseWriter, r *http.Request) {
	id, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/conversations/"), "/")
	part, itemID, _ := strings.Cut(rest, "/")
	switch {
	case r.Method == http.MethodPost && rest == "":
		s.admit(w, r, func(c *call) error { return s.updateConversation(c, id) })
		return
	case r.Method == http.MethodPost && rest == "items":
		s.admit(w, r, func(c *call) error { return s.addItems(c, id) })
		return
	}
	key, failure := s.admission.authenticate(r)
	if failure != nil {
		s.fail(w, r, failure)
		return
	}
	var value interface{}
	var err error
	switch {
	case rest == "" && r.Method == http.MethodGet:
		value, err = s.readConversation(id, key.Owner, func(c *conversation) (interface{}, error) { return c.body(), nil })
	case rest == "" && r.Method == http.MethodDelete:
		value, err = s.deleteConversation(id, key.Owner)
	case rest == "items" && r.Method == http.MethodGet:
		value, err = s.readConversation(id, key.Owner, func(c *conversation) (interface{}, error) {
			return pageOf(c.items, r.URL.Query())
		})
	case part == "items" && itemID != "" && r.Method == http.MethodGet:
		value, err = s.readConversation(id, key.Owner, func(c *conversation) (interface{}, error) {
			if place := indexOf(c.items, itemID); place >= 0 {
				return c.items[place].text, nil
			}
			return nil, noItem(itemID)
		})
	case part == "items" && itemID != "" && r.Method == http.MethodDelete:
		value, err = s.deleteItem(id, key.Owner, itemID)
	default:
		err = noMethod(w, r, methodsOf(rest, part))
	}
	s.answerOrFail(w, r, value, err)
}

func methodsOf(rest, part string) string {
	switch {
	case rest == "":
		return "GET, POST, DELETE"
	case rest == "items":
		return "GET, POST"
	case part == "items":
		return "GET, DELETE"
	}
	return ""
}

func noItem(id string) *Failure {
	return notFound("item_not_found", "there is no item %q in this conversation", id)
}

func (s *Server) readConversation(id, owner string, read func(*conversation) (interface{}, error)) (interface{}, error) {
	if stored, is := s.stored.get(id, owner).(*conversation); is {
		return read(stored)
	}
	return nil, noConversation(id)
}

// changeConversation stores a changed copy of a conversation.
func (s *Server) changeConversation(id, owner string, change func(*conversation) error) (*conversation, error) {
	content, err := s.stored.change(id, owner, func(old storedContent) (storedContent, error) {
		stored, is := old.(*conversation)
		if !is {
			return nil, noConversation(id)
		}
		changed := *stored
		return &changed, change(&changed)
	})
	if err != nil {
		return nil, err
	}
	if content == nil {
		return nil, noConversation(id)
	}
	return content.(*conversation), nil
}

func (s *Server) updateConversation(c *call, id string) error {
	var request conversationRequest
	if _, err := request.read(c); err != nil {
		return err
	}
	if request.Items != nil {
		return invalid("items", "items are added with POST /v1/conversations/ID/items")
	}
	changed, err := s.changeConversation(id, c.key.Owner, func(stored *conversation) error {
		stored.metadata = request.Metadata
		return nil
	})
	if err != nil {
		return err
	}
	return answer(c, changed.body())
}

func (s *Server) addItems(c *call, id string) error {
	var request conversationRequest
	items, err := request.read(c)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return invalid("items", "items must be a list of at least one item")
	}
	if err := s.extend(id, c.key.Owner, items); err != nil {
		return err
	}
	return answer(c, newItemPage(items, false))
}

// extend adds items to a conversation.
func (s *Server) extend(id, owner string, items []item) error {
	_, err := s.changeConversation(id, owner, func(stored *conversation) error {
		stored.items = append(stored.items[:len(stored.items):len(stored.items)], items...)
		return nil
	})
	return err
}

func (s *Server) deleteItem(id, owner, itemID string) (interface{}, error) {
	changed, err := s.changeConversation(id, owner, func(stored *conversation) error {
		place := indexOf(stored.items, itemID)
		if place < 0 {
			return noItem(itemID)
		}
		stored.items = append(append([]item(nil), stored.items[:place]...), stored.items[place+1:]...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return changed.body(), nil
}

func (s *Server) deleteConversation(id, owner string) (interface{}, error) {
	if _, is := s.stored.get(id, owner).(*conversation); !is || !s.stored.remove(id, owner) {
		return nil, noConversation(id)
	}
	return map[string]interface{}{"id": id, "object": "conversation.deleted", "deleted": true}, nil
}
