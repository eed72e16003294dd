package server

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"sort"
	"strings"
	"sync"
	"time"
)

// Interfaces for operators: models, health, metrics, the log, and the admin interface.

// Manager is an optional interface of an Engine: residency of its models, and metrics.
type Manager interface {
	States() map[string]string // by model: resident, loading, on disk, ...
	Evict(name string) error
	Stepping() bool                     // false if a step has been running for too long
	WriteMetrics(out io.Writer) error   // in Prometheus' text format
	Loads() map[string]ModelLoad        // of the resident models
	PageSources() map[string]PageSource // of the models that publish page events
}

// States of models that decide whether the server is healthy.
const (
	StateResident = "resident"
	StateStarting = "starting" // loaded for the first time
	StateFailed   = "failed"   // its last load failed
)

// ModelLoad holds the number of jobs of a model and the size of its cache.
type ModelLoad struct {
	Waiting, Running             int // jobs
	PageTokens, Pages, PagesUsed int
}

type modelBody struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (s *Server) modelNames(key Key) []string {
	config := s.config.Load()
	var names []string
	for name := range config.Models {
		if key.mayUse(name) {
			names = append(names, name)
		}
	}
	for alias, name := range config.Aliases {
		if key.mayUse(name) {
			names = append(names, alias)
		}
	}
	sort.Strings(names)
	return names
}

func (s *Server) modelBody(name string) modelBody {
	config := s.config.Load()
	owner := config.Models[name].OwnedBy
	if target, is := config.Aliases[name]; is {
		owner = config.Models[target].OwnedBy
	}
	if owner == "" {
		owner = "quire"
	}
	return modelBody{name, "model", s.started.Unix(), owner}
}

func (s *Server) listModels(w http.ResponseWriter, r *http.Request) {
	key, failure := s.admission.authenticate(r)
	if failure != nil {
		s.fail(w, r, failure)
		return
	}
	if isAnthropic(r) {
		s.listAnthropicModels(w, r, s.modelNames(key))
		return
	}
	data := []modelBody{}
	for _, name := range s.modelNames(key) {
		data = append(data, s.modelBody(name))
	}
	_ = answer(w, map[string]interface{}{"object": "list", "data": data})
}

func (s *Server) getModel(w http.ResponseWriter, r *http.Request) {
	key, failure := s.admission.authenticate(r)
	if failure != nil {
		s.fail(w, r, failure)
		return
	}
	wanted := strings.TrimPrefix(r.URL.Path, "/v1/models/")
	for _, name := range s.modelNames(key) {
		if name == wanted {
			if isAnthropic(r) {
				_ = answer(w, s.anthropicModel(name))
				return
			}
			_ = answer(w, s.modelBody(name))
			return
		}
	}
	s.fail(w, r, notFound("model_not_found", "there is no model %q; GET /v1/models lists the models", wanted))
}

// live succeeds if the process answers and its engines make progress.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	if manager, is := s.engine.(Manager); is && !manager.Stepping() {
		s.fail(w, r, unavailable(0, "a step has not ended for a long time"))
		return
	}
	_ = answer(w, map[string]string{"status": "ok"})
}

// health succeeds if the server accepts requests: models with preload are loaded, and the server is not
// shutting down.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	if s.admission.isClosing() {
		s.fail(w, r, unavailable(0, "the server is shutting down"))
		return
	}
	if manager, is := s.engine.(Manager); is {
		states := manager.States()
		for name, model := range s.config.Load().Models {
			if state := states[name]; model.Preload && (state == StateStarting || state == StateFailed) {
				s.fail(w, r, unavailable(time.Second, "the model %q is %s", name, states[name]))
				return
			}
		}
	}
	s.live(w, r)
}

// admin answers GET /admin/models, POST /admin/models/NAME/{load,evict}, and requests about aliases.
func (s *Server) admin(w http.ResponseWriter, r *http.Request) {
	if !s.isAdmin(r) {
		s.fail(w, r, &Failure{Status: http.StatusForbidden, Kind: "invalid_request_error",
			Message: "the admin interface needs a key listed in `admin` of the configuration"})
		return
	}
	manager, is := s.engine.(Manager)
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/admin/"), "/")
	switch {
	case path[0] == "aliases":
		s.administerAliases(w, r, path[1:])
	case is && len(path) == 1 && path[0] == "models" && r.Method == http.MethodGet:
		_ = answer(w, manager.States())
	case is && len(path) == 3 && path[0] == "models" && r.Method == http.MethodPost:
		s.changeModel(w, r, manager, path[1], path[2])
	default:
		s.fail(w, r, notFound("", "the admin interface has no %s %s", r.Method, r.URL.Path))
	}
}

func (s *Server) changeModel(w http.ResponseWriter, r *http.Request, manager Manager, name, action string) {
	var err error
	if _, known := s.config.Load().Models[name]; !known {
		s.fail(w, r, notFound("model_not_found", "there is no model %q", name))
		return
	}
	switch action {
	case "load":
		var model Model
		if model, err = s.engine.Open(r.Context(), name); err == nil {
			model.Close()
		}
	case "evict":
		err = manager.Evict(name)
	default:
		err = notFound("", "a model can be loaded or evicted, not %q", action)
	}
	if err != nil {
		s.fail(w, r, failureOf(err))
		return
	}
	_ = answer(w, map[string]string{"model": name, "state": manager.States()[name]})
}

func (s *Server) isAdmin(r *http.Request) bool {
	digest := keyDigest(r)
	for _, allowed := range s.config.Load().Admin {
		if strings.EqualFold(allowed, digest) {
			return true
		}
	}
	return false
}

// counters holds the server's own metrics; those of the engine come from the library.
type counters struct {
	mu       sync.Mutex
	requests map[string]int64 // by path and status
	seconds  map[string]float64
	usage    Usage
}

func (c *counters) observe(path string, status int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests == nil {
		c.requests, c.seconds = map[string]int64{}, map[string]float64{}
	}
	key := fmt.Sprintf(`path=%q,status="%d"`, knownPath(path), status)
	c.requests[key]++
	c.seconds[key] += took.Seconds()
}

// knownPath bounds the number of label values, whatever paths clients request.
func knownPath(path string) string {
	for _, known := range []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages",
		"/v1/messages/count_tokens", "/v1/models", "/v1/responses", "/v1/tokenize", "/v1/detokenize", "/v1/score",
		"/health", "/health/live", "/health/ready", "/health/startup", "/metrics"} {
		if path == known {
			return path
		}
	}
	return "other"
}

func (c *counters) count(usage Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.usage.Prompt += usage.Prompt
	c.usage.Cached += usage.Cached
	c.usage.New += usage.New
}

func (c *counters) write(out io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	family := func(name, help string) {
		fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s counter\n", name, help, name)
	}
	keys := make([]string, 0, len(c.requests))
	for key := range c.requests {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	family("quire_server_requests_total", "Requests by path and status.")
	for _, key := range keys {
		fmt.Fprintf(out, "quire_server_requests_total{%s} %d\n", key, c.requests[key])
	}
	family("quire_server_request_seconds_total", "Time from the first byte of a request to the last byte of its answer.")
	for _, key := range keys {
		fmt.Fprintf(out, "quire_server_request_seconds_total{%s} %g\n", key, c.seconds[key])
	}
	family("quire_server_prompt_tokens_total", "Prompt tokens.")
	fmt.Fprintf(out, "quire_server_prompt_tokens_total %d\n", c.usage.Prompt)
	family("quire_server_cached_tokens_total", "Prompt tokens found in the cache.")
	fmt.Fprintf(out, "quire_server_cached_tokens_total %d\n", c.usage.Cached)
	family("quire_server_new_tokens_total", "Generated tokens.")
	fmt.Fprintf(out, "quire_server_new_tokens_total %d\n", c.usage.New)
}

// metrics writes Prometheus' text format.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if manager, is := s.engine.(Manager); is {
		writeLoads(w, manager.Loads())
		if err := manager.WriteMetrics(w); err != nil {
			s.log.Error("the metrics of the engine cannot be read", Fields{"error": err.Error()})
		}
	}
	s.counters.write(w)
}

// writeLoads writes the gauges of the gateway inference extension under the names that its routers read.
// Routers read one sample of each, so the gauges cover all models together; the share is that of the fullest
// cache.
func writeLoads(w io.Writer, loads map[string]ModelLoad) {
	family := func(name, help string) { fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name) }
	gauge := func(name, help string, value float64) {
		family(name, help)
		fmt.Fprintf(w, "%s %g\n", name, value)
	}
	names := make([]string, 0, len(loads))
	var waiting, running int
	var fullest float64
	for name, load := range loads {
		names = append(names, name)
		waiting += load.Waiting
		running += load.Running
		if load.Pages > 0 {
			fullest = math.Max(fullest, float64(load.PagesUsed)/float64(load.Pages))
		}
	}
	sort.Strings(names)
	gauge("vllm:num_requests_waiting", "Jobs that wait to run.", float64(waiting))
	gauge("vllm:num_requests_running", "Jobs that take part in steps.", float64(running))
	gauge("vllm:kv_cache_usage_perc", "Share of the pages that jobs hold, 0 to 1.", fullest)
	family("vllm:cache_config_info", "Page size and number of pages of a model's cache.")
	for _, name := range names {
		fmt.Fprintf(w, "vllm:cache_config_info{block_size=\"%d\",num_gpu_blocks=\"%d\",model_name=%q} 1\n",
			loads[name].PageTokens, loads[name].Pages, name)
	}
}

// Fields holds the further fields of a log line.
type Fields map[string]interface{}

// Logger writes one JSON object per line. No line contains the text of a prompt or an answer. Safe for
// concurrent use.
type Logger struct {
	mu  sync.Mutex
	out io.Writer
}

// NewLogger creates a logger that writes to out, or to standard error if out is nil.
func NewLogger(out io.Writer) *Logger {
	if out == nil {
		out = os.Stderr
	}
	return &Logger{out: out}
}

// Info, Warn and Error write a line of their level.
func (l *Logger) Info(message string, more Fields)  { l.write("info", message, more) }
func (l *Logger) Warn(message string, more Fields)  { l.write("warning", message, more) }
func (l *Logger) Error(message string, more Fields) { l.write("error", message, more) }

func (l *Logger) write(level, message string, more Fields) {
	line := Fields{"time": time.Now().UTC().Format(time.RFC3339Nano), "level": level, "message": message}
	for key, value := range more {
		if value != "" {
			line[key] = value
		}
	}
	text, err := json.Marshal(line)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.out.Write(append(text, '\n'))
}
