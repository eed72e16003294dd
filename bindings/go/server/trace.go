package server

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"time"
)

// Span describes one request in a trace over several services. No attribute contains text of a prompt or an
// answer.
type Span struct {
	TraceID    [16]byte
	SpanID     [8]byte
	ParentID   [8]byte // zero if the trace begins here
	State      string  // tracestate of the client, passed on
	Name       string
	Start, End time.Time
	Attributes []Attribute
	Events     []SpanEvent
	Failed     bool
}

// Attribute is a name with a string, an int64 or a list of strings.
type Attribute struct {
	Name  string
	Value interface{}
}

// SpanEvent is a moment within a span.
type SpanEvent struct {
	Name string
	Time time.Time
}

// Tracer receives the spans of finished requests. It must be safe for concurrent use, and must not wait.
type Tracer interface{ Record(Span) }

// Trace records a span of each admitted request, except for requests whose client does not sample its trace.
// It must be called before the server serves.
func (s *Server) Trace(tracer Tracer) { s.tracer = tracer }

// traced holds data for the span that are only known during the work on a request.
type traced struct {
	model      string
	results    []Result
	firstToken time.Time
}

// Operations of OpenTelemetry's semantic conventions for generative AI; other paths create no spans.
var operations = map[string]string{
	"/v1/chat/completions": "chat", "/v1/responses": "chat", "/v1/messages": "chat",
	"/v1/completions": "text_completion", "/v1/embeddings": "embeddings",
}

func (s *Server) record(e *exchange, r *http.Request) {
	operation, known := operations[r.URL.Path]
	if s.tracer == nil || !known || r.Method != http.MethodPost {
		return
	}
	span := Span{Name: operation, Start: e.began, End: time.Now(), Failed: e.status >= http.StatusInternalServerError,
		State: r.Header.Get("tracestate")}
	if !span.continueFrom(r.Header.Get("traceparent")) {
		return
	}
	add := func(name string, value interface{}) {
		span.Attributes = append(span.Attributes, Attribute{name, value})
	}
	add("gen_ai.operation.name", operation)
	add("gen_ai.provider.name", "quire")
	add("http.request.method", r.Method)
	add("http.route", r.URL.Path)
	add("http.response.status_code", int64(e.status))
	add("quire.request.id", e.id)
	if e.traced.model != "" {
		span.Name += " " + e.traced.model
		add("gen_ai.request.model", e.traced.model)
	}
	addResults(&span, e.traced.results)
	if operation != "embeddings" && len(e.traced.results) > 0 {
		add("gen_ai.response.finish_reasons", finishWords(e.traced.results))
	}
	if !e.traced.firstToken.IsZero() {
		span.Events = append(span.Events, SpanEvent{"first token", e.traced.firstToken})
	}
	s.tracer.Record(span)
}

func addResults(span *Span, results []Result) {
	if len(results) == 0 {
		return
	}
	usage := newUsage(results)
	span.Attributes = append(span.Attributes,
		Attribute{"gen_ai.usage.input_tokens", int64(usage.PromptTokens)},
		Attribute{"gen_ai.usage.cache_read.input_tokens", int64(usage.PromptDetails.Cached)},
		Attribute{"gen_ai.usage.output_tokens", int64(usage.CompletionTokens)})
}

func finishWords(results []Result) []string {
	words := make([]string, len(results))
	for i, result := range results {
		words[i] = finishWord(result.Finish)
	}
	return words
}

// continueFrom continues the trace of the client (W3C Trace Context, version 00 and the common prefix of
// later versions), or begins a new one. It returns false if the client does not sample the trace.
func (s *Span) continueFrom(parent string) bool {
	_, _ = rand.Read(s.SpanID[:])
	var version, flags [1]byte
	whole := len(parent) == 55 || len(parent) > 55 && parent[55] == '-'
	if whole && parent[2] == '-' && parent[35] == '-' && parent[52] == '-' && isLowerHex(version[:], parent[:2]) &&
		version[0] != 0xff && (version[0] != 0 || len(parent) == 55) && isLowerHex(s.TraceID[:], parent[3:35]) &&
		isLowerHex(s.ParentID[:], parent[36:52]) && isLowerHex(flags[:], parent[53:55]) && s.TraceID != [16]byte{} &&
		s.ParentID != [8]byte{} {
		return flags[0]&1 != 0
	}
	s.ParentID, s.State = [8]byte{}, ""
	_, _ = rand.Read(s.TraceID[:])
	return true
}

func isLowerHex(into []byte, text string) bool {
	for _, c := range text {
		if c >= 'A' && c <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(into, []byte(text))
	return err == nil
}
