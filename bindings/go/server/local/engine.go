// Package local is the engine of a server over the library: it loads the models of a configuration when they are first
// asked for, and gives them up again.
package local

import (
	"context"
	"errors"
	"sync"
	"time"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// Engine has the models of a configuration by name. It is a server.Engine and a server.Manager. Any goroutine.
type Engine struct {
	runtime *quire.Runtime
	log     *server.Logger
	ctx     context.Context // ends with the engine, and with it what is being loaded
	end     context.CancelFunc
	running sync.WaitGroup // goroutines that load or watch

	mutex  sync.Mutex
	models map[string]*slot
	live   map[*model]struct{} // all that are not freed: of slots, and dismissed ones that are in use
	freed  bool                // a model was freed since the heap was last trimmed
	pages  map[string]*pagePublisher
}

// slot is the place of one model of the configuration.
type slot struct {
	name     string
	config   server.ModelConfig
	current  *model        // nil: it is not resident
	loading  chan struct{} // closed once the load is over; nil: none is under way
	failure  error         // of the last load
	retryAt  time.Time     // until then failure stands, so that a broken model is not read once for each request
	served   bool          // it was resident before
	watching watch
}

const retryAfter = 5 * time.Second

// New makes an engine of the models of a configuration that has been checked, and begins to load those that are to be
// there at start.
func New(config *server.Config, log *server.Logger) (*Engine, error) {
	runtime, err := quire.NewRuntime(quire.RuntimeOptions{NumThreads: config.Threads,
		MemoryBudgets: config.MemoryBudgets})
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	e := &Engine{runtime: runtime, log: log, ctx: ctx, end: end, models: map[string]*slot{},
		live: map[*model]struct{}{}, pages: map[string]*pagePublisher{}}
	e.Configure(config)
	e.running.Add(1)
	go e.look()
	return e, nil
}

// Configure takes over the models of a new configuration. One that is gone or described otherwise is given up once what
// runs on it has come to its end; requests from now on get the new one.
func (e *Engine) Configure(config *server.Config) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for name, s := range e.models {
		if described, stays := config.Models[name]; !stays || !s.config.Same(described) {
			delete(e.models, name)
			e.dismiss(s)
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

// Close gives up all models; what runs on them ends.
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
	_ = e.runtime.Close()
}

// dismiss has no later request get the model of a slot; it is freed once nobody uses it. The caller holds the mutex.
func (e *Engine) dismiss(s *slot) {
	if m := s.current; m != nil {
		s.current, m.leaving = nil, true
		e.freeUnused(m)
	}
}

// freeUnused frees a model that is to go and that nobody uses. The caller holds the mutex.
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

// Open gives the model of a name until its Close, loading it where it is not resident: once, however many ask for it. The end of ctx
// ends the wait and not the load, which others may wait for.
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

// asModel keeps a nil pointer from becoming an interface that is not nil.
func asModel(m *model) server.Model {
	if m == nil {
		return nil
	}
	return m
}

// resident is the model, or the load of it that is under way, or why there is neither.
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
	loaded, err := e.loadWithRoom(s.name, config)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	close(s.loading)
	s.loading = nil
	switch {
	case err != nil:
		e.log.Error("a model cannot be loaded", server.Fields{"model": s.name, "error": err.Error()})
		s.failure, s.retryAt = loadFailure(s.name, err), time.Now().Add(retryAfter)
	case e.models[s.name] != s || e.ctx.Err() != nil:
		loaded.free() // another configuration came meanwhile
	default:
		s.current, s.served = loaded, true
		e.live[loaded] = struct{}{}
		e.followPages(s)
		e.log.Info("a model is resident", server.Fields{"model": s.name, "seconds": time.Since(began).Seconds()})
	}
}

// loadWithRoom loads a model. Where memory runs out it gives up models that nobody uses, the one unused for longest
// first.
func (e *Engine) loadWithRoom(name string, config server.ModelConfig) (*model, error) {
	for {
		loaded, err := load(e.ctx, e, name, config)
		if !errors.Is(err, quire.OutOfMemory) || !e.makeRoom() {
			return loaded, err
		}
	}
}

func (e *Engine) makeRoom() bool {
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
	e.log.Info("a model is given up for another", server.Fields{"model": oldest.name})
	e.dismiss(oldest)
	return true
}

// Evict gives up a model: at once where nobody uses it, else when its last request is over, unless another one comes
// before that. So a model in demand never lies in memory twice.
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

// lost gives up a model whose device is gone, so that the next request loads it anew.
func (e *Engine) lost(m *model) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if s := e.models[m.name]; s != nil && s.current == m {
		e.log.Error("a model lost its device", server.Fields{"model": m.name})
		e.dismiss(s)
	}
}
