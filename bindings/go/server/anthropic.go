package server

import (
	"net/http"
	"strings"
	"time"
)

// isAnthropic reports whether a request comes from a client of Anthropic's interface, which expects errors and
// lists in its form.
func isAnthropic(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/v1/messages") || r.Header.Get("anthropic-version") != ""
}

// refuseBatches answers the requests about batches, of which the server has none.
func (s *Server) refuseBatches(w http.ResponseWriter, r *http.Request) {
	if _, failure := s.admission.authenticate(r); failure != nil {
		s.fail(w, r, failure)
		return
	}
	s.fail(w, r, notFound("", "batches of messages are not supported; send each request to /v1/messages"))
}

type anthropicModel struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
	Lifecycle   string `json:"lifecycle"`
}

func (s *Server) anthropicModel(name string) anthropicModel {
	return anthropicModel{"model", name, name, s.started.UTC().Format(time.RFC3339), "active"}
}

// Numbers of models on a page.
const (
	modelPageDefault = 20
	modelPageMax     = 1000
)

// listAnthropicModels answers with a page: `limit` models, those after `after_id` or before `before_id`.
func (s *Server) listAnthropicModels(w http.ResponseWriter, r *http.Request, names []string) {
	query := r.URL.Query()
	limit, err := pageLimit(query, modelPageDefault, modelPageMax)
	if err != nil {
		s.fail(w, r, failureOf(err))
		return
	}
	after, before := query.Get("after_id"), query.Get("before_id")
	for field, cursor := range map[string]string{"after_id": after, "before_id": before} {
		if cursor != "" && !isListed(cursor, names) {
			s.fail(w, r, invalid(field, "%s is %q, which is not a model of the list; leave it out", field, cursor))
			return
		}
	}
	var between []string
	for _, name := range names { // in alphabetical order
		if name > after && (before == "" || name < before) {
			between = append(between, name)
		}
	}
	hasMore := len(between) > limit
	switch {
	case hasMore && before != "":
		between = between[len(between)-limit:]
	case hasMore:
		between = between[:limit]
	}
	data := []anthropicModel{}
	for _, name := range between {
		data = append(data, s.anthropicModel(name))
	}
	body := map[string]interface{}{"data": data, "has_more": hasMore, "first_id": nil, "last_id": nil}
	if len(data) > 0 {
		body["first_id"], body["last_id"] = data[0].ID, data[len(data)-1].ID
	}
	_ = answer(w, body)
}
