package local

import (
	"io"
	"time"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// Monitoring of an engine: states of its models, progress of their steps, and statistics.

// A step that takes longer than this counts as hanging.
const maxStepTime = time.Minute

const watchInterval = time.Second

// watch is the progress of one model's steps.
type watch struct {
	steps   int64
	moved   time.Time // time of the last progress, or of the last check without work
	waiting bool      // a check is running; a hanging step blocks it
}

// watchModels unloads models that were idle for their idle time, and checks the progress of the others.
func (e *Engine) watchModels() {
	defer e.running.Done()
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case now := <-ticks.C:
			e.unloadIdle(now)
			e.trim()
			e.checkSteps(now)
		}
	}
}

func (e *Engine) unloadIdle(now time.Time) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for _, s := range e.models {
		limit := time.Duration(s.config.IdleSeconds) * time.Second
		if s.current == nil || limit == 0 || s.current.users > 0 || now.Sub(s.current.used) < limit {
			continue
		}
		e.log.Info("a model was unloaded after its idle time", server.Fields{"model": s.name})
		e.retire(s)
	}
}

// trim returns heap memory of freed models to the system.
func (e *Engine) trim() {
	e.mutex.Lock()
	freed := e.freed
	e.freed = false
	e.mutex.Unlock()
	if freed {
		trimHeap()
	}
}

// checkSteps reads the statistics of each model on a goroutine of its own, since they are only available
// between two steps.
func (e *Engine) checkSteps(now time.Time) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for _, s := range e.models {
		if s.current == nil {
			s.watching = watch{moved: now}
		} else if !s.watching.waiting {
			s.watching.waiting = true
			e.running.Add(1)
			go e.checkStepsOf(s, s.current)
		}
	}
}

func (e *Engine) checkStepsOf(s *slot, m *model) {
	defer e.running.Done()
	stats, err := m.cache.Stats()
	e.mutex.Lock()
	defer e.mutex.Unlock()
	s.watching.waiting = false
	// Held jobs take part in no step, but they count as running, or as queued once they have lost their pages.
	if err != nil || stats.Steps != s.watching.steps || stats.JobsRunning+stats.JobsQueued <= m.held.Load() {
		s.watching.steps, s.watching.moved = stats.Steps, time.Now()
	}
}

// Stepping returns false if a model has work but no step has ended for too long.
func (e *Engine) Stepping() bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for _, s := range e.models {
		if s.current != nil && !s.watching.moved.IsZero() && time.Since(s.watching.moved) > maxStepTime {
			return false
		}
	}
	return true
}

// States returns the state of each model: one of the server's states, or "loading", "leaving" or "on disk".
func (e *Engine) States() map[string]string {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	states := map[string]string{}
	for name, s := range e.models {
		switch {
		case s.current != nil && s.current.leaving:
			states[name] = "leaving"
		case s.current != nil:
			states[name] = server.StateResident
		case s.loading != nil && s.served:
			states[name] = "loading"
		case s.loading != nil:
			states[name] = server.StateStarting
		case s.failure != nil:
			states[name] = server.StateFailed
		default:
			states[name] = "on disk"
		}
	}
	return states
}

// WriteMetrics writes the library's metrics of all models in Prometheus' text format.
func (e *Engine) WriteMetrics(out io.Writer) error {
	text, err := e.runtime.Metrics()
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}

// Loads returns the load of the resident models.
func (e *Engine) Loads() map[string]server.ModelLoad {
	resident := map[string]*model{}
	e.mutex.Lock()
	for name, s := range e.models {
		if s.current != nil {
			resident[name] = s.current
		}
	}
	e.mutex.Unlock()
	loads := map[string]server.ModelLoad{}
	for name, m := range resident {
		if stats, err := m.cache.Stats(); err == nil {
			loads[name] = loadOf(stats)
		}
	}
	return loads
}

func loadOf(stats quire.Stats) server.ModelLoad {
	return server.ModelLoad{Waiting: int(stats.JobsQueued), Running: int(stats.JobsRunning),
		PageTokens: int(stats.PageTokens), Pages: int(stats.PagesTotal), PagesUsed: int(stats.PagesReferenced)}
}
