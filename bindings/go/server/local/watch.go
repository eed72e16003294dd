package local

import (
	"io"
	"time"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// What operators ask an engine: where its models are, whether they advance, and figures.

// A step that takes longer than this is taken for one that hangs.
const maxStepTime = time.Minute

const lookEvery = time.Second

// watch is what is known of the steps of one model.
type watch struct {
	steps   int64
	moved   time.Time // when the steps last went on, or there was nothing to do
	waiting bool      // a look is under way, which a step that hangs keeps waiting
}

// look gives up models that nobody has used for their time, and sees whether the others advance.
func (e *Engine) look() {
	defer e.running.Done()
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case now := <-ticks.C:
			e.dropIdle(now)
			e.trim()
			e.lookAtSteps(now)
		}
	}
}

func (e *Engine) dropIdle(now time.Time) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for _, s := range e.models {
		limit := time.Duration(s.config.IdleSeconds) * time.Second
		if s.current == nil || limit == 0 || s.current.users > 0 || now.Sub(s.current.used) < limit {
			continue
		}
		e.log.Info("a model is given up: nobody used it", server.Fields{"model": s.name})
		e.dismiss(s)
	}
}

// trim gives the system back what the heap keeps of models that were freed.
func (e *Engine) trim() {
	e.mutex.Lock()
	freed := e.freed
	e.freed = false
	e.mutex.Unlock()
	if freed {
		trimHeap()
	}
}

// lookAtSteps asks each model for its figures, on a goroutine of its own: they come between two steps.
func (e *Engine) lookAtSteps(now time.Time) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for _, s := range e.models {
		if s.current == nil {
			s.watching = watch{moved: now}
		} else if !s.watching.waiting {
			s.watching.waiting = true
			e.running.Add(1)
			go e.lookAt(s, s.current)
		}
	}
}

func (e *Engine) lookAt(s *slot, m *model) {
	defer e.running.Done()
	stats, err := m.cache.Stats()
	e.mutex.Lock()
	defer e.mutex.Unlock()
	s.watching.waiting = false
	if err != nil || stats.Steps != s.watching.steps || stats.JobsRunning+stats.JobsQueued == 0 {
		s.watching.steps, s.watching.moved = stats.Steps, time.Now()
	}
}

// Stepping is false where a model has work and no step has ended for long.
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

// States says where each model is: beside the states that the server knows, "loading",
// "leaving" or "on disk".
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

// WriteMetrics writes the library's figures of all models, in Prometheus' text format.
func (e *Engine) WriteMetrics(out io.Writer) error {
	text, err := e.runtime.Metrics()
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}

// Loads are the figures of the models that are resident.
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
