package server

import (
	"encoding/json"
	"net/http"
	"strings"
)

// storedResponse is a response that its owner can read again.
type storedResponse struct {
	id         string
	status     string
	background bool
	body       json.RawMessage // the response object
	items      []item          // of the prompt without instructions, and of the answer
	numEarlier int             // items of the previous response or the conversation
	numPrompt  int             // items of the prompt
	cancel     func()          // ends the work; nil once it has ended
}

func (r *storedResponse) size() int64 { return int64(len(r.body)) + sizeOf(r.items) }

func (r *storedResponse) dropped() {
	if r.cancel != nil {
		r.cancel()
	}
}

func (r *storedResponse) ownItems() []item { return r.items[r.numEarlier:] }

func (r *storedResponse) isRunning() bool {
	return r.status == statusQueued || r.status == statusInProgress
}

// stored returns the current state of a response.
func (w *responseWork) stored() (*storedResponse, error) {
	body, err := json.Marshal(w.body)
	if err != nil {
		return nil, err
	}
	out := &storedResponse{id: w.body.ID, status: w.body.Status, background: w.request.Background, body: body,
		items: w.items[:len(w.items):len(w.items)], numEarlier: w.numEarlier, numPrompt: len(w.items)}
	for _, value := range w.body.Output {
		next, err := itemOfOutput(value)
		if err != nil {
			return nil, err
		}
		out.items = append(out.items, next)
	}
	return out, nil
}

// storedResponses answers requests about a stored response: GET and DELETE of /v1/responses/ID, GET of its
// input_items, and POST to its cancel.
func (s *Server) storedResponses(w http.ResponseWriter, r *http.Request) {
	key, failure := s.admission.authenticate(r)
	if failure != nil {
		s.fail(w, r, failure)
		return
	}
	id, part, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/responses/"), "/")
	var value interface{}
	var err error
	switch part + " " + r.Method {
	case " GET":
		value, err = s.readResponse(id, key.Owner, r)
	case " DELETE":
		value, err = s.deleteResponse(id, key.Owner)
	case "input_items GET":
		value, err = s.inputItems(id, key.Owner, r)
	case "cancel POST":
		value, err = s.cancelResponse(id, key.Owner)
	default:
		err = noMethod(w, r, map[string]string{"": "GET, DELETE", "input_items": "GET", "cancel": "POST"}[part])
	}
	s.answerOrFail(w, r, value, err)
}

// noMethod returns the failure of a request with another method than those allowed; with none, of a path that
// does not exist.
func noMethod(w http.ResponseWriter, r *http.Request, allowed string) error {
	if allowed == "" {
		return notFound("", "there is nothing at %s", r.URL.Path)
	}
	w.Header().Set("Allow", allowed)
	return &Failure{Status: http.StatusMethodNotAllowed, Kind: "invalid_request_error",
		Message: r.URL.Path + " requires the method " + strings.ReplaceAll(allowed, ", ", " or ")}
}

func (s *Server) answerOrFail(w http.ResponseWriter, r *http.Request, value interface{}, err error) {
	if err != nil {
		s.fail(w, r, failureOf(err))
		return
	}
	_ = answer(w, value)
}

func noResponse(id string) *Failure {
	return notFound("response_not_found", "there is no stored response %q; it may have expired, or made room for later "+
		"ones", id)
}

func (s *Server) readResponse(id, owner string, r *http.Request) (interface{}, error) {
	if stream := r.URL.Query().Get("stream"); stream != "" && stream != "false" {
		return nil, invalid("stream", "stream is not supported for a stored response; leave it out")
	}
	if stored, is := s.stored.get(id, owner).(*storedResponse); is {
		return stored.body, nil
	}
	return nil, noResponse(id)
}

func (s *Server) deleteResponse(id, owner string) (interface{}, error) {
	if _, is := s.stored.get(id, owner).(*storedResponse); !is || !s.stored.remove(id, owner) {
		return nil, noResponse(id)
	}
	return map[string]interface{}{"id": id, "object": "response", "deleted": true}, nil
}

func (s *Server) inputItems(id, owner string, r *http.Request) (interface{}, error) {
	if stored, is := s.stored.get(id, owner).(*storedResponse); is {
		return pageOf(stored.items[:stored.numPrompt], r.URL.Query())
	}
	return nil, noResponse(id)
}
