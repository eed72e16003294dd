package server

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Check returns an error for invalid fields, and fills in defaults.
func (c *Config) Check() error {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:8080"
	}
	if err := checkAddress("listen", c.Listen); err != nil {
		return err
	}
	if _, err := ParseLogLevel(c.LogLevel); err != nil {
		return fmt.Errorf("log_level %w", err)
	}
	if err := c.Limits.check(); err != nil {
		return err
	}
	c.Limits.applyDefaults()
	for _, check := range []func() error{c.checkModels, c.checkNames, c.checkRoutes, c.checkKeys, c.checkOrigins} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// Level returns the level of the log of a checked configuration.
func (c *Config) Level() LogLevel {
	level, _ := ParseLogLevel(c.LogLevel)
	return level
}

func checkAddress(field, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%s is %q; it must be HOST:PORT, such as 127.0.0.1:8080", field, address)
	}
	return nil
}

func (c *Config) checkModels() error {
	if len(c.Models) == 0 && c.PullCommand == "" {
		return fmt.Errorf("models is empty; add at least one model with its path, or pull_command")
	}
	if c.Models == nil {
		c.Models = map[string]ModelConfig{}
	}
	for name, model := range c.Models {
		if name == "" {
			return fmt.Errorf("models has an empty name")
		}
		if err := model.check("models." + name); err != nil {
			return err
		}
	}
	for device, bytes := range c.MemoryBudgets {
		if bytes < 0 {
			return fmt.Errorf("memory_budgets.%s is %d; it must not be negative", device, bytes)
		}
	}
	if c.Threads < 0 {
		return fmt.Errorf("threads is %d; it must not be negative", c.Threads)
	}
	return c.checkStages()
}

func (c *Config) checkStages() error {
	for i, stage := range c.Stages {
		field := fmt.Sprintf("stages[%d]", i)
		address := strings.TrimPrefix(stage, "tcp://")
		if address == stage {
			return fmt.Errorf("%s is %q; use tcp://HOST:PORT", field, stage)
		}
		if err := checkAddress(field, address); err != nil {
			return err
		}
	}
	if len(c.Stages) > 0 && c.StageKeyFile == "" {
		return fmt.Errorf("stage_key_file is missing; stages need the file of their key")
	}
	switch c.StageTransport {
	case "", "auto", "tcp", "nccl":
	default:
		return fmt.Errorf("stage_transport is %q; use auto, tcp or nccl", c.StageTransport)
	}
	return nil
}

func (m *ModelConfig) check(field string) error {
	if m.Path == "" {
		return fmt.Errorf("%s.path is missing", field)
	}
	for name, value := range map[string]int64{"cache_tokens": int64(m.CacheTokens), "context_tokens": int64(m.ContextTokens),
		"min_cache_tokens": int64(m.MinCacheTokens), "max_jobs": int64(m.MaxJobs), "max_drafts": int64(m.MaxDrafts), "shards": int64(m.Shards), "card_expert_bytes": m.CardExpertBytes, "prefix_bytes": m.PrefixBytes,
		"prefix_directory_bytes": m.PrefixDirectoryBytes, "idle_seconds": int64(m.IdleSeconds)} {
		if value < 0 {
			return fmt.Errorf("%s.%s is %d; it must not be negative", field, name, value)
		}
	}
	events := m.PageEvents
	if events == nil {
		return nil
	}
	if events.Listen == "" {
		return fmt.Errorf("%s.page_events.listen is missing", field)
	}
	err := checkAddress(field+".page_events.listen", strings.TrimPrefix(events.Listen, "tcp://"))
	if err == nil && events.Replay != "" {
		err = checkAddress(field+".page_events.replay", strings.TrimPrefix(events.Replay, "tcp://"))
	}
	return err
}

// checkNames checks aliases and fallbacks.
func (c *Config) checkNames() error {
	for alias, name := range c.Aliases {
		if _, taken := c.Models[alias]; taken {
			return fmt.Errorf("aliases.%s is also the name of a model", alias)
		}
		if err := c.requireModel("aliases."+alias, name); err != nil {
			return err
		}
	}
	for name, others := range c.Fallbacks {
		for i, other := range others {
			if err := c.requireModel(fmt.Sprintf("fallbacks.%s[%d]", name, i), other); err != nil {
				return err
			}
		}
		if _, known := c.Models[name]; !known {
			return fmt.Errorf("fallbacks.%s: there is no model of this name", name)
		}
	}
	return nil
}

func (c *Config) checkRoutes() error {
	for i, route := range c.Routes {
		if err := c.requireModel(fmt.Sprintf("routes[%d].to", i), route.To); err != nil {
			return err
		}
		if !(route.Share >= 0 && route.Share <= 1) {
			return fmt.Errorf("routes[%d].share is %v; it must be from 0 to 1", i, route.Share)
		}
		if route.MaxPromptBytes > 0 && route.MinPromptBytes > route.MaxPromptBytes {
			return fmt.Errorf("routes[%d].min_prompt_bytes is %d, above its max_prompt_bytes of %d: no request fits", i,
				route.MinPromptBytes, route.MaxPromptBytes)
		}
	}
	return nil
}

func (c *Config) requireModel(field, name string) error {
	if _, known := c.Models[name]; !known {
		return fmt.Errorf("%s is %q, which is not a model of the configuration", field, name)
	}
	return nil
}

func (c *Config) checkKeys() error {
	for i, key := range c.Keys {
		if err := checkHash(fmt.Sprintf("keys[%d].sha256", i), key.SHA256); err != nil {
			return err
		}
		if key.Owner == "" {
			return fmt.Errorf("keys[%d].owner is missing", i)
		}
		for j, name := range key.Models {
			if target, is := c.Aliases[name]; is {
				return fmt.Errorf("keys[%d].models[%d] is %q, an alias; a key names models, here %q", i, j, name, target)
			}
			if err := c.requireModel(fmt.Sprintf("keys[%d].models[%d]", i, j), name); err != nil {
				return err
			}
		}
		if key.RequestsPerMinute < 0 || key.TokensPerMinute < 0 || key.MaxJobs < 0 {
			return fmt.Errorf("keys[%d] has a negative limit; 0 means no limit", i)
		}
	}
	for i, hash := range c.Admin {
		if err := checkHash(fmt.Sprintf("admin[%d]", i), hash); err != nil {
			return err
		}
	}
	return nil
}

func checkHash(field, text string) error {
	if bytes, err := hex.DecodeString(text); err != nil || len(bytes) != 32 {
		return fmt.Errorf("%s must be 64 hexadecimal digits (printf %%s KEY | sha256sum)", field)
	}
	return nil
}

func (c *Config) checkOrigins() error {
	for i, origin := range c.Origins {
		page, err := url.Parse(strings.Replace(origin, "*.", "any.", 1))
		if origin == "*" || origin == "null" {
			continue
		}
		if err != nil || page.Scheme == "" || page.Host == "" || page.Path != "" {
			return fmt.Errorf("origins[%d] is %q; it must be like https://chat.example.com, without a path", i, origin)
		}
	}
	for i, host := range c.Hosts {
		if host == "" || strings.ContainsAny(host, "/: ") {
			return fmt.Errorf("hosts[%d] is %q; it must be a name without a scheme and a port", i, host)
		}
	}
	return nil
}

func (l *Limits) check() error {
	for name, value := range map[string]int64{"max_body_bytes": l.MaxBodyBytes, "max_bodies_bytes": l.MaxBodiesBytes,
		"max_queue": int64(l.MaxQueue), "max_stored": int64(l.MaxStored), "request_seconds": int64(l.RequestSeconds),
		"heartbeat_seconds": int64(l.HeartbeatSeconds), "drain_seconds": int64(l.DrainSeconds),
		"body_seconds": int64(l.BodySeconds), "write_seconds": int64(l.WriteSeconds),
		"max_connections": int64(l.MaxConnections), "max_choices": int64(l.MaxChoices)} {
		if value < 0 {
			return fmt.Errorf("limits.%s is %d; it must not be negative", name, value)
		}
	}
	return nil
}
