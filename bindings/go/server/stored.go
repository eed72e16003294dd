package server

import (
	"container/list"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// store keeps responses and conversations in memory; only their owner can read them. It is bounded in number,
// in bytes and in time. If it is full, the owner that holds the most loses its oldest values, so that no owner
// can displace what others have stored within their share.
type store struct {
	mu     sync.Mutex
	limits storeLimits
	byID   map[string]*list.Element
	owners map[string]*ownedValues
	num    int
	bytes  int64
	now    func() time.Time
}

type storeLimits struct {
	num   int
	bytes int64
	time  time.Duration // since the last change of a value
}

// ownedValues holds the values of one owner, in the order of their last change.
type ownedValues struct {
	values list.List // of *storedValue
	bytes  int64
}

// storedValue is a response or a conversation with its place in the store.
type storedValue struct {
	id, owner string
	bytes     int64
	since     time.Time
	content   storedContent
}

// storedContent is never changed: a change puts another content in its place.
type storedContent interface {
	size() int64
	// dropped ends work that only existed for the value.
	dropped()
	// ownItems returns the items that the value added to a conversation.
	ownItems() []item
}

// Bytes that the maps and lists of the store take for each value.
const storedOverhead = 512

func newStore(limits *Limits) *store {
	s := &store{byID: map[string]*list.Element{}, owners: map[string]*ownedValues{}, now: time.Now}
	s.configure(limits)
	return s
}

func (s *store) configure(limits *Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = storeLimits{limits.MaxStored, limits.MaxStoredBytes, time.Duration(limits.StoredSeconds) * time.Second}
	s.trim()
}

// put stores a new value. It fails if the value alone is larger than the limit.
func (s *store) put(id, owner string, content storedContent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	value := &storedValue{id: id, owner: owner, content: content}
	if err := s.measure(value); err != nil {
		return err
	}
	s.insert(value)
	s.trim()
	return nil
}

// requireRoom fails if a content is larger than the limit.
func (s *store) requireRoom(id string, content storedContent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.measure(&storedValue{id: id, content: content})
}

func (s *store) measure(value *storedValue) error {
	value.bytes = value.content.size() + storedOverhead
	if value.bytes > s.limits.bytes {
		return &Failure{Status: http.StatusRequestEntityTooLarge, Kind: "invalid_request_error",
			Message: fmt.Sprintf("%s takes %d bytes, and at most %d are stored; send store false or less input", value.id,
				value.bytes, s.limits.bytes)}
	}
	return nil
}

func (s *store) insert(value *storedValue) {
	owned := s.owners[value.owner]
	if owned == nil {
		owned = &ownedValues{}
		s.owners[value.owner] = owned
	}
	value.since = s.now()
	s.byID[value.id] = owned.values.PushBack(value)
	owned.bytes += value.bytes
	s.bytes += value.bytes
	s.num++
}

// take removes a value and returns it.
func (s *store) take(element *list.Element) *storedValue {
	value := element.Value.(*storedValue)
	owned := s.owners[value.owner]
	owned.values.Remove(element)
	owned.bytes -= value.bytes
	if owned.values.Len() == 0 {
		delete(s.owners, value.owner)
	}
	delete(s.byID, value.id)
	s.bytes -= value.bytes
	s.num--
	return value
}

// trim drops values until the limits hold.
func (s *store) trim() {
	s.expire()
	for s.num > 0 && (s.num > s.limits.num || s.bytes > s.limits.bytes) {
		s.take(s.largest(s.bytes > s.limits.bytes).values.Front()).content.dropped()
	}
}

func (s *store) expire() {
	oldest := s.now().Add(-s.limits.time)
	for _, owned := range s.owners {
		for front := owned.values.Front(); front != nil && front.Value.(*storedValue).since.Before(oldest); front = owned.values.Front() {
			s.take(front).content.dropped()
		}
	}
}

// largest returns the values of the owner that has the most bytes, or the most values.
func (s *store) largest(byBytes bool) *ownedValues {
	var out *ownedValues
	for _, owned := range s.owners {
		if out == nil || byBytes && owned.bytes > out.bytes || !byBytes && owned.values.Len() > out.values.Len() {
			out = owned
		}
	}
	return out
}

// get returns the content of a value; nil if its owner has none with this id.
func (s *store) get(id, owner string) storedContent {
	s.mu.Lock()
	defer s.mu.Unlock()
	if element := s.find(id, owner); element != nil {
		return element.Value.(*storedValue).content
	}
	return nil
}

func (s *store) find(id, owner string) *list.Element {
	s.expire()
	if element := s.byID[id]; element != nil && element.Value.(*storedValue).owner == owner {
		return element
	}
	return nil
}

// change replaces the content of a value by the result of to, and its time begins again. It returns nil if
// there is no such value, and keeps the old content on an error.
func (s *store) change(id, owner string, to func(storedContent) (storedContent, error)) (storedContent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	element := s.find(id, owner)
	if element == nil {
		return nil, nil
	}
	content, err := to(element.Value.(*storedValue).content)
	if err != nil {
		return nil, err
	}
	value := &storedValue{id: id, owner: owner, content: content}
	if err := s.measure(value); err != nil {
		return nil, err
	}
	s.take(element)
	s.insert(value)
	s.trim()
	return content, nil
}

// remeasure counts the bytes of a stored value again, after its content has grown.
func (s *store) remeasure(id, owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	element := s.find(id, owner)
	if element == nil {
		return
	}
	value := element.Value.(*storedValue)
	grown := value.content.size() + storedOverhead - value.bytes
	value.bytes += grown
	s.owners[owner].bytes += grown
	s.bytes += grown
	s.trim()
}

func (s *store) remove(id, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	element := s.find(id, owner)
	if element == nil {
		return false
	}
	s.take(element).content.dropped()
	return true
}

// eachOf calls visit with each content of an owner, the one changed last first.
func (s *store) eachOf(owner string, visit func(storedContent)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	owned := s.owners[owner]
	if owned == nil {
		return
	}
	for element := owned.values.Back(); element != nil; element = element.Prev() {
		visit(element.Value.(*storedValue).content)
	}
}
