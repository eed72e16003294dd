package server

import (
	"net/http"
	"strings"
)

// withVersion returns the request with /v1 before its path if only that path exists: clients with a base address
// without /v1 find every interface too.
func (s *Server) withVersion(r *http.Request) *http.Request {
	if r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/v1/") || s.serves(r) {
		return r
	}
	url := *r.URL
	url.Path, url.RawPath = "/v1"+r.URL.Path, ""
	changed := *r
	changed.URL = &url
	if !s.serves(&changed) {
		return r
	}
	return &changed
}

// serves reports whether the path of a request is one of the server's; the page at "/" takes all others.
func (s *Server) serves(r *http.Request) bool {
	_, pattern := s.mux.Handler(r)
	return pattern != "/" && pattern != ""
}
