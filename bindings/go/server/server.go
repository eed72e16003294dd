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

// Server is an http.Handler. Safe for concurrent use.
type Server struct {
	engine    Engine
	config    atomic.Pointer[Config]
	admission *admission
	shares    routeShares // of routes
	stored    *store
	counters  counters
	log       *Logger
	tracer    Tracer // nil if there is none
	puller    Puller // nil if there is none
	mux       *http.ServeMux
	started   time.Time
	paths     map[string]bool // of the metrics
	longTexts gate

	largeBodies gate  // of bodies that are decoded
	bodyBytes   int64 // of all running requests; atomic
}

// New creates a server for the models of an engine. The configuration must have been checked.
func New(engine Engine, config *Config, log *Logger) *Server {
	s := &Server{engine: engine, admission: newAdmission(config), stored: newStore(&config.Limits),
		log: log, mux: http.NewServeMux(), started: time.Now(), paths: map[string]bool{}, longTexts: newGate(),
		largeBodies: make(gate, 1)}
	s.config.Store(config)
	s.log.SetLevel(config.Level())
	s.routes()
	return s
}

// Configure applies a new configuration; running requests keep the old one.
func (s *Server) Configure(config *Config) {
	s.config.Store(config)
	s.shares.reset()
	s.admission.configure(config)
	s.stored.configure(&config.Limits)
	s.log.SetLevel(config.Level())
}

// AddModel adds a model to the configuration and returns the new one.
func (s *Server) AddModel(name string, model ModelConfig) *Config {
	for {
		old := s.config.Load()
		changed := old.withModel(name, model)
		if s.config.CompareAndSwap(old, changed) {
			return changed
		}
	}
}

// Drain refuses new requests and waits until none is running, or ctx ends.
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

// DrainTime returns the drain time of the configuration.
func (s *Server) DrainTime() time.Duration {
	return time.Duration(s.config.Load().Limits.DrainSeconds) * time.Second
}

// ServeHTTP answers one request. A panic only ends that request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limits := &s.config.Load().Limits
	exchange := &exchange{ResponseWriter: w, id: requestID(r), began: time.Now(), conn: connectionOf(r.Context()),
		writeTime: time.Duration(limits.WriteSeconds) * time.Second}
	exchange.allowRead(exchange.began.Add(time.Duration(limits.BodySeconds) * time.Second))
	exchange.allowWrite()
	w.Header().Set("x-request-id", exchange.id)
	if isAnthropic(r) {
		w.Header().Set("request-id", exchange.id)
	}
	r = s.withVersion(r)
	defer s.finish(exchange, r)
	if s.guard(exchange, r) {
		s.mux.ServeHTTP(exchange, r)
	}
}

func (s *Server) finish(e *exchange, r *http.Request) {
	if problem := recover(); problem != nil {
		s.log.Error("a request failed inside the server", Fields{"request": e.id, "problem": problem})
		if !e.wrote {
			s.fail(e, r, failureOf(nil))
		}
	}
	took := time.Since(e.began)
	s.counters.observe(s.knownPath(r.URL.Path), e, took)
	s.record(e, r)
	s.logRequest(e, r, took)
}

// knownPath bounds the number of label values, whatever paths clients request.
func (s *Server) knownPath(path string) string {
	if s.paths[path] {
		return path
	}
	return "other"
}

// exchange is the ResponseWriter of one request, with data for the log and the metrics.
type exchange struct {
	http.ResponseWriter
	id        string
	began     time.Time
	status    int
	wrote     bool
	conn      net.Conn // nil if time limits do not apply
	writeTime time.Duration
	allowed   time.Time // time of the last extension of the write deadline
	traced    traced
	report    report

	beforeHeader func() // completes the header before it is sent; nil if it is complete
}

// allowRead sets the deadline for data of the client; the zero time means none.
func (e *exchange) allowRead(until time.Time) {
	if e.conn != nil {
		_ = e.conn.SetReadDeadline(until)
	}
}

// allowWrite extends the write deadline, but not for every token. Without a deadline, a client that does not
// read would hold its request forever.
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
		e.begin(status)
	}
	e.ResponseWriter.WriteHeader(status)
}

// begin notes the status of an answer, whose header is sent next.
func (e *exchange) begin(status int) {
	e.status, e.wrote = status, true
	if e.beforeHeader != nil {
		e.beforeHeader()
	}
}

func (e *exchange) Write(text []byte) (int, error) {
	if !e.wrote {
		e.begin(http.StatusOK)
	}
	e.allowWrite()
	return e.ResponseWriter.Write(text)
}

func (e *exchange) Flush() {
	if flusher, can := e.ResponseWriter.(http.Flusher); can {
		flusher.Flush()
	}
}

// requestID returns the client's id, so that repeated requests can be recognized, or a new one.
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
	s.post("/v1/responses/input_tokens", s.countInputTokens)
	s.mux.HandleFunc("/v1/responses/", s.storedResponses)
	s.post("/v1/conversations", s.createConversation)
	s.mux.HandleFunc("/v1/conversations/", s.conversations)
	s.post("/v1/messages", s.messages)
	s.post("/v1/messages/count_tokens", s.countTokens)
	s.mux.HandleFunc("/v1/messages/batches", s.refuseBatches)
	s.mux.HandleFunc("/v1/messages/batches/", s.refuseBatches)
	s.post("/v1/tokenize", s.tokenize)
	s.post("/v1/detokenize", s.detokenize)
	s.post("/v1/score", s.score)
	s.post("/v1/rerank", s.rerankV1)
	s.post("/v2/rerank", s.rerankV2)
	s.llamaRoutes()
	s.ollamaRoutes()
	s.get("/openapi.json", s.openAPI)
	s.get("/v1/models", s.listModels)
	s.mux.HandleFunc("/v1/models/", s.getModel)
	s.get("/health", s.health)
	s.get("/health/live", s.live)
	s.get("/health/ready", s.health)
	s.get("/health/startup", s.health)
	s.get("/metrics", s.metrics)
	s.get("/get_server_info", s.serverInfo)
	s.get("/version", s.versions)
	s.get("/load", s.load)
	s.get("/kv_event_sources", s.pageSources)
	s.mux.HandleFunc("/admin/", s.admin)
	s.mux.HandleFunc("/", s.page)
}

// call is an admitted request.
type call struct {
	*exchange
	server *Server
	r      *http.Request
	ctx    context.Context
	cancel context.CancelFunc
	key    Key
	permit *permit
	config *Config

	bodyBytes int64  // read so far
	decoded   func() // lets the next large body be decoded; nil if this one is not large
	opened    Model  // nil if none
}

func (s *Server) post(path string, handle func(*call) error) {
	s.admitted(http.MethodPost, path, handle)
}

// admitted serves a path with one method, for requests that are admitted.
func (s *Server) admitted(method, path string, handle func(*call) error) {
	s.paths[path] = true
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			s.fail(w, r, &Failure{Status: http.StatusMethodNotAllowed, Kind: "invalid_request_error",
				Message: path + " requires the method " + method})
			return
		}
		s.admit(w, r, handle)
	})
}

func (s *Server) get(path string, handle http.HandlerFunc) {
	s.paths[path] = true
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", http.MethodGet)
			s.fail(w, r, &Failure{Status: http.StatusMethodNotAllowed, Kind: "invalid_request_error",
				Message: path + " requires the method GET"})
			return
		}
		handle(w, r)
	})
}

func (s *Server) admit(w http.ResponseWriter, r *http.Request, handle func(*call) error) {
	config := s.config.Load()
	key, failure := s.admission.authenticate(r)
	if failure != nil {
		s.fail(w, r, failure)
		return
	}
	w.(*exchange).report.owner = key.Owner
	s.reportRates(w.(*exchange), r, key)
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
		s.sendFailure(c, err)
	}
}

// requestTime returns the time limit of the request, from x-request-timeout (seconds) but at most the
// server's limit.
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
	if wanted := time.Duration(seconds * float64(time.Second)); wanted < limit {
		return wanted, nil
	}
	return limit, nil
}

// statusClientGone is the status in the log and metrics if the client disconnected before the answer, as in
// nginx.
const statusClientGone = 499

// sendFailure sends the error to the client: as the answer if nothing was sent, otherwise inside the stream.
func (s *Server) sendFailure(c *call, err error) {
	var told *Failure
	if c.r.Context().Err() != nil && !errors.As(err, &told) {
		c.status = statusClientGone
		c.refuse(&Failure{Reason: "client_gone"})
		return // the client has disconnected
	}
	failure := failureOf(err)
	c.refuse(failure)
	if failure.Status >= http.StatusInternalServerError {
		s.log.Error("a request failed", Fields{"request": c.id, "error": err.Error()})
	}
	if !c.wrote {
		s.fail(c, c.r, failure)
		return
	}
	if isOllama(c.r) {
		_ = (&ndjson{c, c}).sendText(failure.ollamaBody())
		return
	}
	stream := &sse{w: c, flusher: c} // its header is already sent
	if isAnthropic(c.r) {
		_ = stream.sendText("error", string(failure.anthropicBody(c.id)))
		return
	}
	_ = stream.sendText("", string(failure.openAIBody()))
}

func isOllama(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }

func (s *Server) fail(w http.ResponseWriter, r *http.Request, failure *Failure) {
	if e, is := w.(interface{ refuse(*Failure) }); is {
		e.refuse(failure)
	}
	failure.setHeaders(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(failure.Status)
	if isOllama(r) {
		_, _ = w.Write(failure.ollamaBody())
		return
	}
	if isAnthropic(r) {
		_, _ = w.Write(failure.anthropicBody(w.Header().Get("request-id")))
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

// open opens a model until the end of the call. It resolves the name for the key of the call, and tries the
// fallbacks if the model cannot be opened.
func (s *Server) open(c *call, name string, promptBytes int) (*meteredModel, error) {
	c.endDecoding() // a model may have to be loaded
	if name == "" {
		return nil, invalid("model", "model is missing; GET /v1/models lists the models")
	}
	resolved, failure := c.config.resolve(routedRequest{name: name, owner: c.key.Owner, promptBytes: promptBytes,
		requests: s.admission.numRunning()}, &s.shares)
	if failure != nil {
		return nil, failure
	}
	if !c.key.mayUse(resolved) {
		return nil, notFound("model_not_found", "there is no model %q for this key; GET /v1/models lists its models", name)
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
	if err != nil {
		return nil, err
	}
	c.opened = model
	c.traced.model = resolved
	return &meteredModel{Model: model, call: c}, nil
}

// submit opens the model and submits one generation.
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
		out.Priority = *priority // a client may only lower its priority
	}
	if deadline, has := c.ctx.Deadline(); has {
		out.Deadline = time.Until(deadline)
	}
	return out
}

func (c *call) heartbeat() time.Duration {
	return time.Duration(c.config.Limits.HeartbeatSeconds) * time.Second
}
