package server

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// report collects what the log line and the metrics of one request contain. Safe for concurrent use.
type report struct {
	mutex   sync.Mutex
	owner   string
	usage   Usage
	ran     bool          // work was done, so the usage means something
	queued  time.Duration // longest of its generations
	ends    []string
	refusal *Failure
}

// addUsage adds the tokens of a piece of work. A prompt with several answers counts once.
func (r *report) addUsage(usage Usage, withPrompt bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.ran = true
	if withPrompt {
		r.usage.Prompt += usage.Prompt
		r.usage.Cached += usage.Cached
	}
	r.usage.New += usage.New
}

func (r *report) addEnd(finish string, queued time.Duration) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.ends = append(r.ends, finish)
	if queued > r.queued {
		r.queued = queued
	}
}

// refuse keeps the first reason why a request failed.
func (e *exchange) refuse(failure *Failure) {
	e.report.mutex.Lock()
	defer e.report.mutex.Unlock()
	if e.report.refusal == nil {
		e.report.refusal = failure
	}
}

// isProbe reports whether machines request a path every few seconds. Such requests are logged at the level debug if
// they succeed.
func isProbe(path string) bool {
	return path == "/metrics" || path == "/health" || strings.HasPrefix(path, "/health/")
}

// logRequest writes the line of a finished request. It contains no message of a failure, because messages may
// quote the request.
func (s *Server) logRequest(e *exchange, r *http.Request, took time.Duration) {
	level := LevelInfo
	if isProbe(r.URL.Path) && e.status < http.StatusBadRequest {
		level = LevelDebug
	}
	if level < s.log.Level() {
		return
	}
	line := Fields{"request": e.id, "trace": r.Header.Get("traceparent"), "method": r.Method, "path": r.URL.Path,
		"status": e.status, "seconds": took.Seconds(), "client": clientOf(r), "model": e.traced.model,
		"owner": e.report.owner}
	e.report.mutex.Lock()
	defer e.report.mutex.Unlock()
	if e.report.ran {
		line["prompt_tokens"] = e.report.usage.Prompt
		line["cached_tokens"] = e.report.usage.Cached
		line["new_tokens"] = e.report.usage.New
	}
	if len(e.report.ends) > 0 {
		line["finish"] = strings.Join(e.report.ends, ",")
		line["queued_seconds"] = e.report.queued.Seconds()
	}
	if !e.traced.firstToken.IsZero() {
		line["first_token_seconds"] = e.traced.firstToken.Sub(e.began).Seconds()
	}
	if refusal := e.report.refusal; refusal != nil {
		line["refused"], line["field"] = refusal.reason(), refusal.Param
	}
	s.log.Log(level, "request", line)
}

// clientOf returns the address of the connection, which is that of a proxy if there is one.
func clientOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}
