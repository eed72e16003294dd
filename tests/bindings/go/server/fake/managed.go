package fake

import (
	"io"
	"sync"
	"time"

	"quire.dev/quire/server"
)

// Managed is an engine whose models have states and descriptions. All are resident until they are evicted.
type Managed struct {
	*Engine
	Running     int // jobs of each model
	Description server.Description

	mu      sync.Mutex
	evicted map[string]bool
}

// Version returns the version of the engine.
func (m *Managed) Version() string { return "1.2.3" }

// Evict makes a model leave.
func (m *Managed) Evict(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.evicted == nil {
		m.evicted = map[string]bool{}
	}
	m.evicted[name] = true
	return nil
}

// Evicted reports whether a model was evicted.
func (m *Managed) Evicted(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.evicted[name]
}

// States returns the states of the evicted models.
func (m *Managed) States() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := map[string]string{}
	for name := range m.evicted {
		states[name] = "on disk"
	}
	return states
}

// Stepping returns true.
func (m *Managed) Stepping() bool { return true }

// WriteMetrics writes nothing.
func (m *Managed) WriteMetrics(io.Writer) error { return nil }

// Loads returns the load of the models "m" and "other".
func (m *Managed) Loads() map[string]server.ModelLoad {
	return map[string]server.ModelLoad{"m": {Running: m.Running}, "other": {Running: m.Running}}
}

// PageSources returns none.
func (m *Managed) PageSources() map[string]server.PageSource { return nil }

// Describe returns the same description for each model.
func (m *Managed) Describe(name string) (server.Description, error) {
	description := m.Description
	description.Resident = !m.Evicted(name)
	description.Modified = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return description, nil
}
