package server

import (
	"net/http"
	"strings"
	"sync"
)

// responseStore keeps the newest responses; only their owner can read them.
type responseStore struct {
	mu    sync.Mutex
	max   int
	byID  map[string]*storedResponse
	order []string // oldest first
}

type storedResponse struct {
	body     *responseBody
	messages []chatMessage // the conversation with the answer, without instructions
	owner    string
}

func newResponseStore(max int) *responseStore {
	return &responseStore{max: max, byID: map[string]*storedResponse{}}
}

func (s *responseStore) resize(max int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max = max
	s.trim()
}

func (s *responseStore) trim() {
	for len(s.order) > s.max {
		delete(s.byID, s.order[0])
		s.order = s.order[1:]
	}
}

func (s *responseStore) put(response *storedResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[response.body.ID] = response
	s.order = append(s.order, response.body.ID)
	s.trim()
}

func (s *responseStore) get(id, owner string) *storedResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stored := s.byID[id]; stored != nil && stored.owner == owner {
		return stored
	}
	return nil
}

func (s *responseStore) remove(id, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stored := s.byID[id]; stored == nil || stored.owner != owner {
		return false
	}
	delete(s.byID, id)
	for i, other := range s.order {
		if other == id {
			s.order = append(s.order[:i], s.order[i+1:]...)
			break
		}
	}
	return true
}

// storedResponse answers GET and DELETE of /v1/responses/ID.
func (s *Server) storedResponse(w http.ResponseWriter, r *http.Request) {
	key, failure := s.admission.authenticate(r)
	if failure != nil {
		s.fail(w, r, failure)
		return
	}
	id := strings.TrimPrefix(r.URL.Path, "/v1/responses/")
	switch r.Method {
	case http.MethodGet:
		if stored := s.stored.get(id, key.Owner); stored != nil {
			_ = answer(w, stored.body)
			return
		}
	case http.MethodDelete:
		if s.stored.remove(id, key.Owner) {
			_ = answer(w, map[string]interface{}{"id": id, "object": "response", "deleted": true})
			return
		}
	}
	s.fail(w, r, notFound("response_not_found", "there is no stored response %q", id))
}
