package server

import (
	_ "embed" // for the page
	"net/http"
)

//go:embed page.html
var pageHTML []byte

// page serves a chat page for people. The page loads nothing from other servers.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		s.fail(w, r, notFound("", "this server has no path %s", r.URL.Path))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'")
	_, _ = w.Write(pageHTML)
}
