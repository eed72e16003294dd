package server

import (
	"io"
	"net/http"
	"sort"
	"strings"
	"time"
)

// Interfaces for operators: models, health, and the admin interface.

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
	ID          string   `json:"id"`
	Object      string   `json:"object"`
	Created     int64    `json:"created"`
	OwnedBy     string   `json:"owned_by"`
	MaxModelLen int64    `json:"max_model_len,omitempty"` // tokens of one request, in vLLM's format
	Aliases     []string `json:"aliases,omitempty"`       // other names of the model, in llama.cpp's format
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
	var aliases []string
	for alias, target := range config.Aliases {
		if target == name {
			aliases = append(aliases, alias)
		}
	}
	sort.Strings(aliases)
	return modelBody{name, "model", s.started.Unix(), owner, s.describe(config.target(name)).ContextTokens, aliases}
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

// versions answers with the version of the library, in vLLM's form.
func (s *Server) versions(w http.ResponseWriter, _ *http.Request) {
	_ = answer(w, map[string]string{"version": s.version()})
}

// load answers with the number of running requests, in vLLM's form.
func (s *Server) load(w http.ResponseWriter, _ *http.Request) {
	_ = answer(w, map[string]int{"server_load": s.admission.numRunning()})
}

// live succeeds if the process answers and its engines make progress.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	if manager, is := s.engine.(Manager); is && !manager.Stepping() {
		s.fail(w, r, unavailable(0, "a step of a model has been running for a minute; its device may hang, so restart the server"))
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
	kind, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/admin/"), "/")
	last := strings.LastIndexByte(name, '/') // names may contain slashes
	switch {
	case kind == "aliases":
		s.administerAliases(w, r, name)
	case is && kind == "models" && name == "" && r.Method == http.MethodGet:
		_ = answer(w, manager.States())
	case is && kind == "models" && last > 0 && r.Method == http.MethodPost:
		s.changeModel(w, r, manager, name[:last], name[last+1:])
	default:
		s.fail(w, r, notFound("", "the admin interface has no %s %s; GET /openapi.json lists the paths", r.Method, r.URL.Path))
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
