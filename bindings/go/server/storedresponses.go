package server

import (
	"encoding/json"
	"net/http"
	"strconv"
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
	events     *eventLog       // nil unless the response was created with background and stream
}

func (r *storedResponse) size() int64 { return int64(len(r.body)) + sizeOf(r.items) + r.events.size() }

func (r *storedResponse) dropped() {
	if r.cancel != nil {
		r.cancel()
	}
	if r.events != nil {
		r.events.end(noResponse(r.id))
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
	out := &storedResponse{id: w.body.ID, status: w.body.Status, background: w.request.Background, body: body, events: w.events,
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
	if id == "compact" && part == "" && r.Method == http.MethodPost {
		s.fail(w, r, notFound("", "responses are not compacted here; send truncation \"auto\" to drop the oldest turns"))
		return
	}
	switch part + " " + r.Method {
	case " GET":
		if isStreamed(r) {
			s.streamStored(w.(*exchange), r, id, key.Owner)
			return
		}
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
		return notFound("", "this server has no path %s; GET /openapi.json lists the paths", r.URL.Path)
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
	if r.URL.Query().Get("starting_after") != "" {
		return nil, invalid("starting_after", "starting_after needs stream=true")
	}
	if stored, is := s.stored.get(id, owner).(*storedResponse); is {
		return stored.body, nil
	}
	return nil, noResponse(id)
}

func isStreamed(r *http.Request) bool {
	stream := r.URL.Query().Get("stream")
	return stream != "" && stream != "false"
}

// streamStored sends the events of a background response: those after the sequence number starting_after, and further
// ones as they come.
func (s *Server) streamStored(e *exchange, r *http.Request, id, owner string) {
	events, next, err := s.eventsFrom(id, owner, r)
	if err != nil {
		s.fail(e, r, failureOf(err))
		return
	}
	c := &call{exchange: e, server: s, r: r, ctx: r.Context(), config: s.config.Load()}
	if err := events.follow(c.ctx, e, next, c.heartbeat()); err != nil {
		s.sendFailure(c, err)
	}
}

// eventsFrom returns the events of a response, and the sequence number of the first one that a request asks for.
func (s *Server) eventsFrom(id, owner string, r *http.Request) (*eventLog, int, error) {
	stored, is := s.stored.get(id, owner).(*storedResponse)
	if !is {
		return nil, 0, noResponse(id)
	}
	if stored.events == nil {
		return nil, 0, invalid("stream", "stream needs a response that was created with background and stream; the response %q "+
			"was not; leave stream out", id)
	}
	after := r.URL.Query().Get("starting_after")
	if after == "" {
		return stored.events, 0, nil
	}
	number, err := strconv.ParseInt(after, 10, 32)
	if err != nil || number < 0 {
		return nil, 0, invalid("starting_after", "starting_after must be the sequence number of an event, from 0 on, not %.100q", after)
	}
	return stored.events, int(number) + 1, nil
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
