package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"
)

// Config is the configuration file. It is read again on SIGHUP; running requests keep the old configuration.
type Config struct {
	Listen string `json:"listen"` // host:port; default 127.0.0.1:8080
	// Names under which clients may reach the server; "*.NAME" and "*" are patterns. If empty, every name, but only
	// localhost and the machine's own if the server listens on the loopback address. Addresses are always allowed.
	Hosts []string `json:"hosts"`
	// Origins of web pages that may use the server, such as https://chat.example.com; "*" allows all.
	Origins  []string               `json:"origins"`
	LogLevel string                 `json:"log_level"` // debug, info, warning or error; "" means info
	Models   map[string]ModelConfig `json:"models"`
	Aliases  map[string]string      `json:"aliases"` // name to model
	// Command quire, which brings the models that /api/pull asks for; "" refuses such requests.
	PullCommand string `json:"pull_command"`
	// Models to try in order if a model cannot be opened: name to other models.
	Fallbacks map[string][]string `json:"fallbacks"`
	Routes    []Route             `json:"routes"`
	Keys      []Key               `json:"keys"`  // if empty, every client may use everything but the admin interface
	Admin     []string            `json:"admin"` // SHA-256 of the keys of the admin interface, in hex; if empty, it is off
	Limits    Limits              `json:"limits"`
	Threads   int                 `json:"threads"` // threads that compute on the CPU; 0 means one per core
	// Bytes of each device that all models together may take. If a model does not fit, models without users are
	// unloaded.
	MemoryBudgets map[string]int64 `json:"memory_budgets"`
	// Stages on other hosts, tcp://HOST:PORT, that models may name in devices; the file of their key; and how
	// activations travel to them: auto, tcp or nccl.
	Stages         []string `json:"stages"`
	StageKeyFile   string   `json:"stage_key_file"`
	StageTransport string   `json:"stage_transport"`
}

// NeedsRestart returns the fields that differ from those of the configuration of the start and only count there.
func (c *Config) NeedsRestart(started *Config) []string {
	var fields []string
	for _, field := range []struct {
		name    string
		differs bool
	}{
		{"listen", c.Listen != started.Listen},
		{"threads", c.Threads != started.Threads},
		{"stages", strings.Join(c.Stages, ",") != strings.Join(started.Stages, ",")},
		{"stage_key_file", c.StageKeyFile != started.StageKeyFile},
		{"stage_transport", c.StageTransport != started.StageTransport},
		{"limits.max_connections", c.Limits.MaxConnections != started.Limits.MaxConnections},
	} {
		if field.differs {
			fields = append(fields, field.name)
		}
	}
	return fields
}

// withModel returns a copy with one more model.
func (c *Config) withModel(name string, model ModelConfig) *Config {
	changed := *c
	changed.Models = make(map[string]ModelConfig, len(c.Models)+1)
	for other, config := range c.Models {
		changed.Models[other] = config
	}
	changed.Models[name] = model
	return &changed
}

// ModelConfig holds the path of a model and how it is loaded.
type ModelConfig struct {
	Path        string   `json:"path"`
	Devices     []string `json:"devices"`
	Shards      int      `json:"shards"` // of each layer (tensor parallelism); 0 means 1
	CacheTokens int      `json:"cache_tokens"`
	// Minimum size of an elastic cache; 0 means that it always has cache_tokens.
	MinCacheTokens int    `json:"min_cache_tokens"`
	ContextTokens  int    `json:"context_tokens"` // of one request; 0 means the context length of the model
	MaxJobs        int    `json:"max_jobs"`
	KvFormat       string `json:"kv_format"`
	// Layers whose experts lie in host memory: none, all, auto or a number; "" means none.
	HostExperts string `json:"host_experts"`
	// Memory of each card for experts among them that stay there between steps; 0 means none.
	CardExpertBytes int64 `json:"card_expert_bytes"`
	// Drafter of speculative decoding: auto, none, ngram, mtp, or the path or hub name of a draft network; "" means auto.
	Drafter   string `json:"drafter"`
	MaxDrafts int    `json:"max_drafts"` // proposed tokens of a step; 0 means the library's default
	// Host memory, and a directory, for prefixes evicted from the cache; 0 and "" mean that they are computed
	// again.
	PrefixBytes          int64  `json:"prefix_bytes"`
	PrefixDirectory      string `json:"prefix_directory"`
	PrefixDirectoryBytes int64  `json:"prefix_directory_bytes"` // limit of all its files; 0 means 4 GiB
	Preload              bool   `json:"preload"`                // loaded at start, otherwise by its first request
	IdleSeconds          int    `json:"idle_seconds"`
	OwnedBy              string `json:"owned_by"`
	ChatTemplate         string `json:"chat_template"` // path of a template that replaces the model's own
	// Publishing of page events; nil means none.
	PageEvents *PageEvents `json:"page_events"`
	Dialect    string      `json:"dialect"` // format of reasoning and calls; "" means that of the template
	Thinks     *bool       `json:"thinks"`  // the model may reason before it answers; nil means as its template shows
}

// PageEvents holds the addresses for publishing changes of a model's pages, in vLLM's format over ZeroMQ.
type PageEvents struct {
	Listen string `json:"listen"` // HOST:PORT
	Replay string `json:"replay"` // HOST:PORT where subscribers request missed events; "" means none
	Topic  string `json:"topic"`  // {model} and $VARIABLES are replaced; "" means kv@{model}
	// Owners whose pages are published, with their tokens; empty means all.
	Namespaces []string `json:"namespaces"`
}

// Same reports whether two configurations load a model in the same way.
func (m ModelConfig) Same(other ModelConfig) bool {
	// These fields do not affect the load.
	m.Preload, m.IdleSeconds, m.OwnedBy = other.Preload, other.IdleSeconds, other.OwnedBy
	m.PageEvents = other.PageEvents
	return reflect.DeepEqual(m, other)
}

// Key holds the access rights of one client.
type Key struct {
	SHA256            string   `json:"sha256"` // of the key, in hex
	Owner             string   `json:"owner"`
	Models            []string `json:"models"` // empty means all
	RequestsPerMinute int      `json:"requests_per_minute"`
	TokensPerMinute   int      `json:"tokens_per_minute"`
	MaxJobs           int      `json:"max_jobs"`
	Priority          int      `json:"priority"`
}

// Limits bounds the resources of clients; 0 means the default given here.
type Limits struct {
	MaxBodyBytes     int64 `json:"max_body_bytes"`    // 16 MiB
	MaxBodiesBytes   int64 `json:"max_bodies_bytes"`  // of all running requests, 256 MiB
	MaxQueue         int   `json:"max_queue"`         // waiting or running requests, 1024
	MaxStored        int   `json:"max_stored"`        // stored responses and conversations, 1024
	MaxStoredBytes   int64 `json:"max_stored_bytes"`  // that they take together, 128 MiB
	StoredSeconds    int   `json:"stored_seconds"`    // since their last change, a day
	RequestSeconds   int   `json:"request_seconds"`   // 600
	HeartbeatSeconds int   `json:"heartbeat_seconds"` // interval for silent streams, 15
	DrainSeconds     int   `json:"drain_seconds"`     // after SIGTERM, 60
	BodySeconds      int   `json:"body_seconds"`      // until a body has arrived, 60
	WriteSeconds     int   `json:"write_seconds"`     // time that a client may stop reading its answer, 30
	MaxConnections   int   `json:"max_connections"`   // 4096; further ones wait
	MaxChoices       int   `json:"max_choices"`       // maximum n, 16
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
	set(&l.StoredSeconds, 86400)
	if l.MaxStoredBytes == 0 {
		l.MaxStoredBytes = 128 << 20
	}
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
