package server

import (
	_ "embed" // the page
	"net/http"
)

//go:embed page.html
var pageHTML []byte

// page is for people: a chat with the models of this server. It loads nothing from elsewhere.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		s.fail(w, r, notFound("", "there is no %s here", r.URL.Path))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'")
	_, _ = w.Write(pageHTML)
}
