package server

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// Requests that a browser sends for a page of another site. Such a page can reach a server on the user's
// machine, under its address or, with a rebound name, under the page's own.

// guard refuses requests of foreign pages, and answers the preflight requests of allowed ones. It returns false if
// the request is finished.
func (s *Server) guard(e *exchange, r *http.Request) bool {
	config := s.config.Load()
	header := e.Header()
	header.Set("X-Frame-Options", "DENY") // no page shows this server inside itself
	header.Set("X-Content-Type-Options", "nosniff")
	if e.conn != nil && !config.acceptsHost(r.Host) {
		s.fail(e, r, (&Failure{Status: http.StatusForbidden, Kind: "invalid_request_error", Code: "host_not_allowed",
			Message: "this server does not answer under the name of the Host header; its operator can add it to `hosts`"}))
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" || isSameOrigin(origin, r.Host) {
		return true
	}
	header.Add("Vary", "Origin")
	if !matchesAny(config.Origins, origin) {
		s.fail(e, r, &Failure{Status: http.StatusForbidden, Kind: "invalid_request_error", Code: "origin_not_allowed",
			Message: "pages of this origin may not use the server; its operator can add it to `origins`"})
		return false
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", "Retry-After, x-request-id, x-should-retry, "+rateHeaders)
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		allowPreflight(header, r)
		e.WriteHeader(http.StatusNoContent)
		return false
	}
	return true
}

// allowPreflight allows everything that the interfaces use.
func allowPreflight(header http.Header, r *http.Request) {
	header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	if wanted := r.Header.Get("Access-Control-Request-Headers"); wanted != "" {
		header.Set("Access-Control-Allow-Headers", wanted) // a wildcard does not include Authorization
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		header.Set("Access-Control-Allow-Private-Network", "true")
	}
	header.Set("Access-Control-Max-Age", "600")
}

// isSameOrigin reports whether a page was served under the host of the request. The scheme may differ, because a
// proxy may end TLS.
func isSameOrigin(origin, host string) bool {
	page, err := url.Parse(origin)
	if err != nil || page.Host == "" || page.Scheme != "http" && page.Scheme != "https" {
		return false
	}
	return strings.EqualFold(trimPort(page.Host), trimPort(host))
}

// trimPort removes the port of http or https, which browsers leave out.
func trimPort(host string) string {
	return strings.TrimSuffix(strings.TrimSuffix(host, ":80"), ":443")
}

// acceptsHost reports whether a request may name this host. With `hosts` these names are accepted, otherwise every name
// unless the server listens on the loopback address. Addresses are accepted always, because only a name can be rebound.
func (c *Config) acceptsHost(host string) bool {
	name := host
	if split, _, err := net.SplitHostPort(host); err == nil {
		name = split
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if net.ParseIP(strings.Trim(name, "[]")) != nil || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if len(c.Hosts) > 0 {
		return matchesAny(c.Hosts, name)
	}
	if !isLoopback(c.Listen) {
		return true
	}
	own, err := os.Hostname()
	return err == nil && name != "" && strings.EqualFold(name, own)
}

func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// matchesAny compares a text with patterns: "*" fits everything, and "*." at the beginning of a host fits each name
// below it.
func matchesAny(patterns []string, text string) bool {
	for _, pattern := range patterns {
		before, after, wild := strings.Cut(pattern, "*")
		if pattern == "*" || strings.EqualFold(pattern, text) {
			return true
		}
		lower := strings.ToLower(text)
		if wild && strings.HasPrefix(after, ".") && len(text) > len(before)+len(after) &&
			strings.HasPrefix(lower, strings.ToLower(before)) && strings.HasSuffix(lower, strings.ToLower(after)) {
			return true
		}
	}
	return false
}
