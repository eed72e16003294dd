package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"time"
)

// Config is what the configuration file says. It is read again on SIGHUP; what is running goes on by the old one.
type Config struct {
	Listen  string                 `json:"listen"` // host:port; default 127.0.0.1:8080
	Models  map[string]ModelConfig `json:"models"`
	Aliases map[string]string      `json:"aliases"` // name to model
	// Tried in order where a model cannot be opened: name to other models.
	Fallbacks map[string][]string `json:"fallbacks"`
	Routes    []Route             `json:"routes"`
	Keys      []Key               `json:"keys"`  // none: every client may use everything but the admin interface
	Admin     []string            `json:"admin"` // SHA-256 of keys of the admin interface, hex; none: it is off
	Limits    Limits              `json:"limits"`
	Threads   int                 `json:"threads"` // that compute on the CPU; 0: one a core
	// Bytes of each device that all models together may take; one that has no room gives up those that nobody uses.
	MemoryBudgets map[string]int64 `json:"memory_budgets"`
}

// ModelConfig says where a model lies and how it is loaded.
type ModelConfig struct {
	Path        string   `json:"path"`
	Devices     []string `json:"devices"`
	CacheTokens int      `json:"cache_tokens"`
	// Of a cache that grows and shrinks: what it has at least; 0: cache_tokens, always.
	MinCacheTokens int    `json:"min_cache_tokens"`
	ContextTokens  int    `json:"context_tokens"` // of one request; 0: what the model was made for
	MaxJobs        int    `json:"max_jobs"`
	KvFormat       string `json:"kv_format"`
	// Host memory, and a directory, for prefixes that leave the cache; 0 and "": they are computed anew.
	PrefixBytes          int64  `json:"prefix_bytes"`
	PrefixDirectory      string `json:"prefix_directory"`
	PrefixDirectoryBytes int64  `json:"prefix_directory_bytes"` // that all its files may take; 0: 4 GiB
	Preload              bool   `json:"preload"`                // loaded at start; else by its first request
	IdleSeconds          int    `json:"idle_seconds"`
	OwnedBy              string `json:"owned_by"`
	ChatTemplate         string `json:"chat_template"` // path of a template that wins over the model's
	// Where events of its pages are published; nil: nowhere.
	PageEvents *PageEvents `json:"page_events"`
	Dialect    string      `json:"dialect"` // in which it writes reasoning and calls; "": as the template tells
}

// PageEvents says where it is published what becomes of the pages of a model, in vLLM's form over ZeroMQ.
type PageEvents struct {
	Listen string `json:"listen"` // HOST:PORT
	Replay string `json:"replay"` // HOST:PORT where subscribers ask for what they missed; "": nowhere
	Topic  string `json:"topic"`  // {model} and $VARIABLES stand for what they name; "": kv@{model}
	// Owners whose pages are told, with their tokens; none: all.
	Namespaces []string `json:"namespaces"`
}

// Same tells whether a model is loaded in the same way.
func (m ModelConfig) Same(other ModelConfig) bool {
	// What does not count for the load.
	m.Preload, m.IdleSeconds, m.OwnedBy = other.Preload, other.IdleSeconds, other.OwnedBy
	m.PageEvents = other.PageEvents
	return reflect.DeepEqual(m, other)
}

// Key is one client's access.
type Key struct {
	SHA256            string   `json:"sha256"` // of the key, hex
	Owner             string   `json:"owner"`
	Models            []string `json:"models"` // none: all
	RequestsPerMinute int      `json:"requests_per_minute"`
	TokensPerMinute   int      `json:"tokens_per_minute"`
	MaxJobs           int      `json:"max_jobs"`
	Priority          int      `json:"priority"`
}

// Limits bound what a client can take; 0 is the default.
type Limits struct {
	MaxBodyBytes     int64 `json:"max_body_bytes"`    // 16 MiB
	MaxBodiesBytes   int64 `json:"max_bodies_bytes"`  // of all requests under way, 256 MiB
	MaxQueue         int   `json:"max_queue"`         // requests that wait or run, 1024
	MaxStored        int   `json:"max_stored"`        // responses kept for previous_response_id, 1024
	RequestSeconds   int   `json:"request_seconds"`   // 600
	HeartbeatSeconds int   `json:"heartbeat_seconds"` // of a stream that is silent, 15
	DrainSeconds     int   `json:"drain_seconds"`     // after SIGTERM, 60
	BodySeconds      int   `json:"body_seconds"`      // until a body has come, 60
	WriteSeconds     int   `json:"write_seconds"`     // for which a client may take nothing of its answer, 30
	MaxConnections   int   `json:"max_connections"`   // 4096; others wait
	MaxChoices       int   `json:"max_choices"`       // n, 16
}

func (l *Limits) applyDefaults() {
	set := func(value *int, fallback int) {
		if *value == 0 {
			*value = fallback
		}
	}
	if l.MaxBodyBytes == 0 {
		l.MaxBodyBytes = 16 << 20
	}
	if l.MaxBodiesBytes == 0 {
		l.MaxBodiesBytes = 256 << 20
	}
	set(&l.MaxQueue, 1024)
	set(&l.MaxStored, 1024)
	set(&l.RequestSeconds, 600)
	set(&l.HeartbeatSeconds, 15)
	set(&l.DrainSeconds, 60)
	set(&l.BodySeconds, 60)
	set(&l.WriteSeconds, 30)
	set(&l.MaxConnections, 4096)
	set(&l.MaxChoices, 16)
}

func (l *Limits) requestTime() time.Duration { return time.Duration(l.RequestSeconds) * time.Second }

// ReadConfig reads and checks a configuration file. The error names the field.
func ReadConfig(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	config := &Config{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := config.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return config, nil
}

// Check says what of a configuration cannot be, and fills in defaults.
func (c *Config) Check() error {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:8080"
	}
	c.Limits.applyDefaults()
	if len(c.Models) == 0 {
		return fmt.Errorf("models: there is none; name at least one with its path")
	}
	for name, model := range c.Models {
		if model.Path == "" {
			return fmt.Errorf("models.%s.path is missing", name)
		}
		if events := model.PageEvents; events != nil && events.Listen == "" {
			return fmt.Errorf("models.%s.page_events.listen is missing", name)
		}
	}
	for alias, name := range c.Aliases {
		if _, taken := c.Models[alias]; taken {
			return fmt.Errorf("aliases.%s is the name of a model too", alias)
		}
		if err := c.requireModel("aliases."+alias, name); err != nil {
			return err
		}
	}
	for name, others := range c.Fallbacks {
		for _, other := range others {
			if err := c.requireModel("fallbacks."+name, other); err != nil {
				return err
			}
		}
	}
	for i, route := range c.Routes {
		if err := c.requireModel(fmt.Sprintf("routes[%d].to", i), route.To); err != nil {
			return err
		}
		if route.Share < 0 || route.Share > 1 {
			return fmt.Errorf("routes[%d].share is %v; it must be from 0 to 1", i, route.Share)
		}
	}
	return c.checkKeys()
}

func (c *Config) requireModel(field, name string) error {
	if _, known := c.Models[name]; !known {
		return fmt.Errorf("%s names %q, which is no model", field, name)
	}
	return nil
}

func (c *Config) checkKeys() error {
	for i, key := range c.Keys {
		if len(key.SHA256) != 64 {
			return fmt.Errorf("keys[%d].sha256 must be 64 hexadecimal digits (printf %%s KEY | sha256sum)", i)
		}
		if key.Owner == "" {
			return fmt.Errorf("keys[%d].owner is missing", i)
		}
	}
	return nil
}
