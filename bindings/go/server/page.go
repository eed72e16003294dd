package server

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed page.html page
var pageFiles embed.FS

// pagePolicy lets the page load its own files and call its own server, and nothing more: no inline scripts or
// styles, no evaluation, no frames, and no text that is parsed as HTML (trusted types).
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types 'none'"

var pageTypes = map[string]string{".html": "text/html", ".css": "text/css", ".mjs": "text/javascript",
	".svg": "image/svg+xml"}

// page serves a chat page for people at /, and its files at /page/.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "page.html"
	} else if !strings.HasPrefix(name, "page/") {
		name = ""
	}
	file, err := pageFiles.ReadFile(name)
	if err != nil {
		s.fail(w, r, notFound("", "this server has no path %s; GET /openapi.json lists the paths", r.URL.Path))
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", http.MethodGet)
		s.fail(w, r, &Failure{Status: http.StatusMethodNotAllowed, Kind: "invalid_request_error",
			Message: r.URL.Path + " requires the method GET"})
		return
	}
	setPageHeaders(w.Header(), pageTypes[path.Ext(name)], file)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
}

// setPageHeaders lets browsers keep a file, but ask each time whether it is still the same.
func setPageHeaders(header http.Header, kind string, file []byte) {
	digest := sha256.Sum256(file)
	header.Set("Content-Type", kind+"; charset=utf-8")
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", `"`+hex.EncodeToString(digest[:16])+`"`)
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
}
