// Package local implements the engine of a server with the library. It loads the models of a configuration
// when they are first used, and unloads them again.
package local

import (
	"context"
	"errors"
	"math"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"time"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// Engine holds the models of a configuration by name. It is a server.Engine and a server.Manager. Safe for
// concurrent use.
type Engine struct {
	runtime *quire.Runtime
	log     *server.Logger
	ctx     context.Context // ends with the engine, and ends running loads
	end     context.CancelFunc
	running sync.WaitGroup // goroutines that load or watch
	logits  *memoryShare   // of log-probabilities of prompts

	mutex  sync.Mutex
	models map[string]*slot
	live   map[*model]struct{} // all models that are not freed: those of slots, and retired ones still in use
	freed  bool                // a model was freed since the heap was last trimmed
	pages  map[string]*pagePublisher

	budgets map[string]int64 // bytes by device; replaced, never changed
	library *quire.Queue     // lines of the library's log
}

// slot holds one model of the configuration.
type slot struct {
	name     string
	config   server.ModelConfig
	current  *model        // nil if it is not resident
	loading  chan struct{} // closed when the load ends; nil if none is running
	failure  error         // of the last load
	retryAt  time.Time     // until then requests get failure, so that a broken model is not read for each request
	served   bool          // it was resident before
	watching watch

	described *server.Description // nil until the model is first described
}

const retryAfter = 5 * time.Second

// New creates an engine for the models of a checked configuration, and starts to load those with preload.
func New(config *server.Config, log *server.Logger) (*Engine, error) {
	runtime, err := newRuntime(config)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	e := &Engine{runtime: runtime, log: log, ctx: ctx, end: end, logits: newMemoryShare(maxLogitBytes),
		models: map[string]*slot{}, live: map[*model]struct{}{}, pages: map[string]*pagePublisher{}, budgets: config.MemoryBudgets}
	log.SetLevel(config.Level())
	if err := e.followLog(); err != nil {
		_ = runtime.Close()
		return nil, err
	}
	e.Configure(config)
	e.running.Add(1)
	go e.watchModels()
	return e, nil
}

// newRuntime creates a runtime with the settings of a configuration. Without a number of threads, they follow the
// processors that the control group grants.
func newRuntime(config *server.Config) (*quire.Runtime, error) {
	threads := config.Threads
	if granted := server.GrantedProcessors(os.DirFS("/")); threads == 0 && granted > 0 && granted < goruntime.NumCPU() {
		threads = granted
	}
	return quire.NewRuntime(quire.RuntimeOptions{NumThreads: threads, MemoryBudgets: config.MemoryBudgets,
		Stages: strings.Join(config.Stages, ","), StageKeyFile: config.StageKeyFile,
		StageTransport: config.StageTransport})
}

// Version returns the version of the library.
func (e *Engine) Version() string { return quire.LibraryVersion() }

// Configure applies the models of a new configuration. A removed or changed model is unloaded once its
// requests have ended; new requests use the new one.
func (e *Engine) Configure(config *server.Config) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.setLogLevel()
	e.setBudgets(config.MemoryBudgets)
	for name, s := range e.models {
		if described, stays := config.Models[name]; !stays || !s.config.Same(described) {
			delete(e.models, name)
			e.retire(s)
		}
	}
	for name, described := range config.Models {
		s := e.models[name]
		if s == nil {
			s = &slot{name: name}
			e.models[name] = s
		}
		s.config = described
		if described.Preload && s.current == nil && s.loading == nil {
			e.beginLoad(s)
		}
	}
	e.configurePages(config)
}

// setBudgets applies the budgets of a new configuration. Memory beyond a smaller budget stays until its model is
// unloaded. The caller holds the mutex.
func (e *Engine) setBudgets(budgets map[string]int64) {
	for device := range e.budgets {
		if _, stays := budgets[device]; !stays {
			e.setBudget(device, math.MaxInt64) // no limit
		}
	}
	for device, bytes := range budgets {
		if before, had := e.budgets[device]; !had || before != bytes {
			e.setBudget(device, bytes)
		}
	}
	e.budgets = budgets
}

func (e *Engine) setBudget(device string, bytes int64) {
	if err := e.runtime.SetMemoryBudget(device, bytes); err != nil {
		e.log.Error("a memory budget cannot be changed", server.Fields{"field": "memory_budgets." + device, "error": err.Error()})
	}
}

// currentBudgets returns the budgets of the configuration in use.
func (e *Engine) currentBudgets() map[string]int64 {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return e.budgets
}

// Close ends all running jobs and unloads all models.
func (e *Engine) Close() {
	e.end()
	e.running.Wait()
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for m := range e.live {
		_ = m.cache.Shutdown(context.Background())
		m.free()
	}
	for _, pages := range e.pages {
		pages.close()
	}
	e.live, e.models, e.pages = nil, nil, nil
	_ = e.library.Close()
	_ = e.runtime.Close()
}

// retire removes the model from its slot and frees it once it has no users. The caller holds the mutex.
func (e *Engine) retire(s *slot) {
	if m := s.current; m != nil {
		s.current, m.leaving = nil, true
		e.freeUnused(m)
	}
}

// freeUnused frees a leaving model without users. The caller holds the mutex.
func (e *Engine) freeUnused(m *model) {
	if _, lives := e.live[m]; !lives || !m.leaving || m.users > 0 {
		return
	}
	if s := e.models[m.name]; s != nil && s.current == m {
		s.current = nil
	}
	delete(e.live, m)
	m.free()
	e.freed = true
}

// release ends one use of a model.
func (e *Engine) release(m *model) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	m.users--
	m.used = time.Now()
	e.freeUnused(m)
}

// Open returns the model of a name for use until its Close. If it is not resident, Open loads it, once for
// all concurrent callers. The end of ctx ends the wait but not the load, since other callers may wait for it.
func (e *Engine) Open(ctx context.Context, name string) (server.Model, error) {
	for {
		loaded, loading, err := e.resident(name)
		if loaded != nil || err != nil {
			return asModel(loaded), err
		}
		select {
		case <-loading:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// asModel prevents a nil pointer from becoming a non-nil interface.
func asModel(m *model) server.Model {
	if m == nil {
		return nil
	}
	return m
}

// resident returns the model, its running load, or the reason why there is neither.
func (e *Engine) resident(name string) (*model, <-chan struct{}, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	s := e.models[name]
	switch {
	case s == nil || e.ctx.Err() != nil:
		return nil, nil, gone(name)
	case s.current != nil:
		s.current.leaving = false
		s.current.users++
		return s.current, nil, nil
	case s.failure != nil && time.Now().Before(s.retryAt):
		return nil, nil, s.failure
	case s.loading == nil:
		e.beginLoad(s)
	}
	return nil, s.loading, nil
}

// beginLoad loads a model on a goroutine of its own. The caller holds the mutex.
func (e *Engine) beginLoad(s *slot) {
	s.loading, s.failure = make(chan struct{}), nil
	e.running.Add(1)
	go e.load(s, s.config)
}

func (e *Engine) load(s *slot, config server.ModelConfig) {
	defer e.running.Done()
	began := time.Now()
	loaded, err := e.loadOrMakeRoom(s.name, config)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	close(s.loading)
	s.loading = nil
	switch {
	case err != nil:
		e.log.Error("a model cannot be loaded", server.Fields{"model": s.name, "error": err.Error()})
		s.failure, s.retryAt = loadFailure(s.name, err), time.Now().Add(retryAfter)
	case e.models[s.name] != s || e.ctx.Err() != nil:
		loaded.free() // the configuration has changed meanwhile
	default:
		s.current, s.served = loaded, true
		e.live[loaded] = struct{}{}
		e.followPages(s)
		fields := server.Fields{"model": s.name, "seconds": time.Since(began).Seconds()}
		if loaded.network != "" {
			fields["draft_network"] = loaded.network
		}
		e.log.Info("a model was loaded", fields)
	}
}

// loadOrMakeRoom loads a model. If memory runs out, it unloads models without users, the least recently used
// first, and tries again. For a model that can never fit, none is unloaded.
func (e *Engine) loadOrMakeRoom(name string, config server.ModelConfig) (*model, error) {
	for checked := false; ; {
		loaded, err := load(e.ctx, e, name, config)
		if !errors.Is(err, quire.CodeOutOfMemory) {
			return loaded, err
		}
		if !checked {
			checked = true
			if never := checkFit(e.runtime, name, config, e.currentBudgets()); never != nil {
				return nil, never
			}
		}
		if !e.unloadOldest() {
			return nil, err
		}
	}
}

func (e *Engine) unloadOldest() bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	var oldest *slot
	for _, s := range e.models {
		if s.current == nil || s.current.users > 0 {
			continue
		}
		if oldest == nil || s.current.used.Before(oldest.current.used) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	e.log.Info("a model was unloaded to free memory for another", server.Fields{"model": oldest.name})
	e.retire(oldest)
	return true
}

// Evict unloads a model: at once if it has no users, otherwise after its last request, unless a new request
// comes first. So a model never occupies memory twice.
func (e *Engine) Evict(name string) error {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	s := e.models[name]
	if s == nil {
		return gone(name)
	}
	s.failure = nil
	if s.current != nil {
		s.current.leaving = true
		e.freeUnused(s.current)
	}
	return nil
}

// unloadLost unloads a model whose device is lost, so that the next request loads it again.
func (e *Engine) unloadLost(m *model) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if s := e.models[m.name]; s != nil && s.current == m {
		e.log.Error("a model lost its device", server.Fields{"model": m.name})
		e.retire(s)
	}
}
