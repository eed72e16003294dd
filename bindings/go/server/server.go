package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Server is an http.Handler. Any goroutine.
type Server struct {
	engine    Engine
	config    atomic.Pointer[Config]
	admission *admission
	shares    shares // of routes
	stored    *responseStore
	counters  counters
	log       *Logger
	tracer    Tracer // nil: none
	mux       *http.ServeMux
	started   time.Time
	bodyBytes int64 // of all requests that are under way; atomic
}

// New makes a server of an engine's models. The configuration has been checked.
func New(engine Engine, config *Config, log *Logger) *Server {
	s := &Server{engine: engine, admission: newAdmission(config), stored: newResponseStore(config.Limits.MaxStored),
		log: log, mux: http.NewServeMux(), started: time.Now()}
	s.config.Store(config)
	s.routes()
	return s
}

// Configure takes over a new configuration; requests under way go on by the old one.
func (s *Server) Configure(config *Config) {
	s.config.Store(config)
	s.shares.reset()
	s.admission.configure(config)
	s.stored.resize(config.Limits.MaxStored)
}

// Drain refuses new requests and waits until none is under way, or ctx ends.
func (s *Server) Drain(ctx context.Context) error {
	s.admission.close()
	for s.admission.numRunning() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// DrainTime is how long a drain may take by the configuration.
func (s *Server) DrainTime() time.Duration {
	return time.Duration(s.config.Load().Limits.DrainSeconds) * time.Second
}

// ServeHTTP answers one request; what it panics with ends that request alone.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limits := &s.config.Load().Limits
	exchange := &exchange{ResponseWriter: w, id: requestID(r), began: time.Now(), conn: connectionOf(r.Context()),
		writeTime: time.Duration(limits.WriteSeconds) * time.Second}
	exchange.allowRead(exchange.began.Add(time.Duration(limits.BodySeconds) * time.Second))
	exchange.allowWrite()
	w.Header().Set("x-request-id", exchange.id)
	defer s.finish(exchange, r)
	s.mux.ServeHTTP(exchange, r)
}

func (s *Server) finish(e *exchange, r *http.Request) {
	if problem := recover(); problem != nil {
		s.log.Error("a request failed inside the server", Fields{"request": e.id, "problem": problem})
		if !e.wrote {
			s.fail(e, r, failureOf(nil))
		}
	}
	s.counters.observe(r.URL.Path, e.status, time.Since(e.began))
	s.record(e, r)
	s.log.Info("request", Fields{"request": e.id, "trace": r.Header.Get("traceparent"), "method": r.Method,
		"path": r.URL.Path, "status": e.status, "seconds": time.Since(e.began).Seconds()})
}

// exchange is one request's way back, with what the log and the figures want to know of it.
type exchange struct {
	http.ResponseWriter
	id        string
	began     time.Time
	status    int
	wrote     bool
	conn      net.Conn // nil: the limits of time are not ours
	writeTime time.Duration
	allowed   time.Time // when the client was last given time
	traced    traced
}

// allowRead says until when the client may take to send; the zero time: for ever.
func (e *exchange) allowRead(until time.Time) {
	if e.conn != nil {
		_ = e.conn.SetReadDeadline(until)
	}
}

// allowWrite gives the client time to take what is written next, not for each token anew. One that takes nothing would
// hold its request for ever.
func (e *exchange) allowWrite() {
	if e.conn == nil {
		return
	}
	if now := time.Now(); now.Sub(e.allowed) > e.writeTime/4 {
		e.allowed = now
		_ = e.conn.SetWriteDeadline(now.Add(e.writeTime))
	}
}

func (e *exchange) WriteHeader(status int) {
	if !e.wrote {
		e.status, e.wrote = status, true
	}
	e.ResponseWriter.WriteHeader(status)
}

func (e *exchange) Write(text []byte) (int, error) {
	if !e.wrote {
		e.status, e.wrote = http.StatusOK, true
	}
	e.allowWrite()
	return e.ResponseWriter.Write(text)
}

func (e *exchange) Flush() {
	if flusher, can := e.ResponseWriter.(http.Flusher); can {
		flusher.Flush()
	}
}

// requestID takes the client's id, so that a request that is sent again can be told, or makes one.
func requestID(r *http.Request) string {
	if id := r.Header.Get("x-request-id"); id != "" && len(id) <= 128 && isPlain(id) {
		return id
	}
	return newID("req_")
}

func isPlain(text string) bool {
	for _, c := range text {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

func newID(prefix string) string {
	bytes := make([]byte, 16)
	_, _ = rand.Read(bytes)
	return prefix + hex.EncodeToString(bytes)
}

func (s *Server) routes() {
	s.post("/v1/chat/completions", s.chatCompletions)
	s.post("/v1/chat/completions/render", s.renderChat)
	s.post("/v1/completions", s.completions)
	s.post("/v1/completions/render", s.renderCompletions)
	s.post("/v1/embeddings", s.embeddings)
	s.post("/v1/responses", s.createResponse)
	s.mux.HandleFunc("/v1/responses/", s.storedResponse)
	s.post("/v1/messages", s.messages)
	s.post("/v1/messages/count_tokens", s.countTokens)
	s.post("/v1/tokenize", s.tokenize)
	s.post("/v1/detokenize", s.detokenize)
	s.post("/v1/score", s.score)
	s.get("/v1/models", s.listModels)
	s.mux.HandleFunc("/v1/models/", s.getModel)
	s.get("/health", s.health)
	s.get("/health/live", s.live)
	s.get("/health/ready", s.health)
	s.get("/health/startup", s.health)
	s.get("/metrics", s.metrics)
	s.get("/get_server_info", s.serverInfo)
	s.get("/kv_event_sources", s.pageSources)
	s.mux.HandleFunc("/admin/", s.admin)
	s.mux.HandleFunc("/", s.page)
}

// call is a request that was let in.
type call struct {
	*exchange
	server *Server
	r      *http.Request
	ctx    context.Context
	cancel context.CancelFunc
	key    Key
	permit *permit
	config *Config

	bodyBytes int64 // read so far
	opened    Model // nil: none
}

func (s *Server) post(path string, handle func(*call) error) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			s.fail(w, r, &Failure{Status: http.StatusMethodNotAllowed, Kind: "invalid_request_error",
				Message: path + " takes POST"})
			return
		}
		s.letIn(w, r, handle)
	})
}

func (s *Server) get(path string, handle http.HandlerFunc) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", http.MethodGet)
			s.fail(w, r, &Failure{Status: http.StatusMethodNotAllowed, Kind: "invalid_request_error",
				Message: path + " takes GET"})
			return
		}
		handle(w, r)
	})
}

func (s *Server) letIn(w http.ResponseWriter, r *http.Request, handle func(*call) error) {
	config := s.config.Load()
	key, failure := s.admission.authenticate(r)
	if failure != nil {
		s.fail(w, r, failure)
		return
	}
	permit, failure := s.admission.enter(key)
	if failure != nil {
		s.fail(w, r, failure)
		return
	}
	defer permit.release()
	limit, failure := requestTime(r, config)
	if failure != nil {
		s.fail(w, r, failure)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	c := &call{exchange: w.(*exchange), server: s, r: r, ctx: ctx, cancel: cancel, key: key, permit: permit,
		config: config}
	defer c.end()
	if err := handle(c); err != nil {
		s.giveUp(c, err)
	}
}

// requestTime is what the client gives the request, in x-request-timeout (seconds), within what the server does.
func requestTime(r *http.Request, config *Config) (time.Duration, *Failure) {
	limit := config.Limits.requestTime()
	header := r.Header.Get("x-request-timeout")
	if header == "" {
		return limit, nil
	}
	seconds, err := strconv.ParseFloat(header, 64)
	if err != nil || !(seconds > 0 && seconds < 1e9) {
		return 0, invalid("x-request-timeout", "x-request-timeout must be a number of seconds above 0, not %q", header)
	}
	if asked := time.Duration(seconds * float64(time.Second)); asked < limit {
		return asked, nil
	}
	return limit, nil
}

// statusClientGone stands in the log and the figures where the client went away before it was answered, as nginx has it.
const statusClientGone = 499

// giveUp tells the client what went wrong: as the answer where nothing was sent, else inside the stream.
func (s *Server) giveUp(c *call, err error) {
	var told *Failure
	if c.r.Context().Err() != nil && !errors.As(err, &told) {
		c.status = statusClientGone
		return // nobody listens
	}
	failure := failureOf(err)
	if failure.Status >= http.StatusInternalServerError {
		s.log.Error("a request failed", Fields{"request": c.id, "error": err.Error()})
	}
	if !c.wrote {
		s.fail(c, c.r, failure)
		return
	}
	stream := &sse{w: c, flusher: c} // its header is sent
	if isAnthropic(c.r) {
		_ = stream.sendText("error", string(failure.anthropicBody(c.id)))
		return
	}
	_ = stream.sendText("", string(failure.openAIBody()))
}

func isAnthropic(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/messages") }

func (s *Server) fail(w http.ResponseWriter, r *http.Request, failure *Failure) {
	failure.setHeaders(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(failure.Status)
	if isAnthropic(r) {
		id := ""
		if e, is := w.(*exchange); is {
			id = e.id
		}
		_, _ = w.Write(failure.anthropicBody(id))
		return
	}
	_, _ = w.Write(failure.openAIBody())
}

func answer(w http.ResponseWriter, value interface{}) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(text)
	return err
}

// open opens a model for the call, whose end closes it: it resolves the name for the key of the call, trying its fallbacks where it cannot be opened.
func (s *Server) open(c *call, name string, promptBytes int) (Model, error) {
	if name == "" {
		return nil, invalid("model", "model is missing")
	}
	resolved, failure := c.config.resolve(asked{name: name, owner: c.key.Owner, promptBytes: promptBytes,
		requests: s.admission.numRunning()}, &s.shares)
	if failure != nil {
		return nil, failure
	}
	if !c.key.mayUse(resolved) {
		return nil, notFound("model_not_found", "there is no model %q for this key", name)
	}
	model, err := s.engine.Open(c.ctx, resolved)
	for _, other := range c.config.Fallbacks[resolved] {
		if err == nil || c.ctx.Err() != nil {
			break
		}
		s.log.Warn("a model cannot be opened; trying the next", Fields{"request": c.id, "model": resolved,
			"next": other, "error": err.Error()})
		resolved = other
		model, err = s.engine.Open(c.ctx, other)
	}
	if err == nil {
		c.opened = model
		c.traced.model = resolved
	}
	return model, err
}

// submit opens the model and has it answer once.
func (s *Server) submit(c *call, name string, g *Generation) (Stream, error) {
	model, err := s.open(c, name, len(g.Messages))
	if err != nil {
		return nil, err
	}
	return model.Submit(c.ctx, g)
}

func (c *call) scheduling(priority *int) Scheduling {
	out := Scheduling{Namespace: c.key.Owner, Priority: c.key.Priority}
	if priority != nil && *priority < out.Priority {
		out.Priority = *priority // a client may step back, not ahead
	}
	if deadline, has := c.ctx.Deadline(); has {
		out.Deadline = time.Until(deadline)
	}
	return out
}

func (c *call) heartbeat() time.Duration {
	return time.Duration(c.config.Limits.HeartbeatSeconds) * time.Second
}
