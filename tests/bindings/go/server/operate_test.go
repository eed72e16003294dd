package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"quire.dev/quire-test/server/exposition"
	"quire.dev/quire/server"
)

// logLine waits for the given number of log lines of requests to the path, and returns the last.
func (f *fixture) logLine(path string, number int) map[string]interface{} {
	f.t.Helper()
	var found []map[string]interface{}
	eventually(f.t, func() bool {
		found = nil
		for _, text := range strings.Split(strings.TrimSpace(f.log.String()), "\n") {
			if text == "" {
				continue
			}
			if line := f.object(text); line["path"] == path {
				found = append(found, line)
			}
		}
		return len(found) >= number
	})
	return found[len(found)-1]
}

func TestTheLogLineOfARequestDescribesItsWork(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Keys = []server.Key{{SHA256: digest("k"), Owner: "ada"}} })
	f.key = "k"
	f.post("/v1/chat/completions", strings.Replace(chat("hello there", `,"n":2`), `"m"`, `"gpt-4o"`, 1))
	line := f.logLine("/v1/chat/completions", 1)
	for field, want := range map[string]interface{}{"model": "m", "owner": "ada", "client": "127.0.0.1", "status": 200,
		"prompt_tokens": 5, "cached_tokens": 2, "new_tokens": 4, "queued_seconds": 0.003, "finish": "stop,stop",
		"refused": nil, "level": "info"} {
		expect(t, line[field], want)
	}
	first, _ := line["first_token_seconds"].(float64)
	if seconds, _ := line["seconds"].(float64); first <= 0 || first > seconds {
		t.Error(line)
	}
}

func TestTheLogLineContainsWhyARequestWasRefused(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Keys = []server.Key{{SHA256: digest("k"), Owner: "ada", RequestsPerMinute: 2}}
	})
	f.do("POST", "/v1/chat/completions", chat("secret", ""))
	expect(t, f.logLine("/v1/chat/completions", 1)["refused"], "invalid_api_key")
	f.key = "k"
	f.do("POST", "/v1/chat/completions", chat("secret", `,"tool_choice":"secret"`))
	expect(t, f.logLine("/v1/chat/completions", 2)["refused"], "invalid_request")
	expect(t, f.logLine("/v1/chat/completions", 2)["field"], "tool_choice")
	f.do("POST", "/v1/chat/completions", chat("fail", `,"stream":true`))
	expect(t, f.logLine("/v1/chat/completions", 3)["refused"], "internal")
	expect(t, f.logLine("/v1/chat/completions", 3)["finish"], "cancelled")
	f.do("POST", "/v1/chat/completions", chat("secret", ""))
	expect(t, f.logLine("/v1/chat/completions", 4)["refused"], "key_requests")
	if strings.Contains(strings.ReplaceAll(f.log.String(), "secret detail", ""), "secret") {
		t.Error("the log contains text of a request")
	}
}

func TestProbesAreLoggedOnlyIfTheyFailOrAtTheLevelDebug(t *testing.T) {
	f := start(t, nil)
	f.do("GET", "/health/live", "")
	f.do("GET", "/metrics", "")
	_ = f.server.Drain(context.Background()) // nothing runs
	f.do("GET", "/health/ready", "")
	expect(t, f.logLine("/health/ready", 1)["status"], 503)
	expect(t, strings.Count(f.log.String(), "\n"), 1)
	f = start(t, func(c *server.Config) { c.LogLevel = "debug" })
	f.do("GET", "/health/live", "")
	expect(t, f.logLine("/health/live", 1)["level"], "debug")
	f = start(t, func(c *server.Config) { c.LogLevel = "error" })
	f.post("/v1/chat/completions", chat("hello", ""))
	f.Close()
	expect(t, f.log.String(), "")
}

func TestMetricsFollowTheTextFormat(t *testing.T) {
	hostile := "m\"\\\n{}é"
	f := start(t, func(c *server.Config) { c.Models[hostile] = server.ModelConfig{Path: "x"} })
	f.post("/v1/chat/completions", chat("one two three", ""))
	f.post("/v1/embeddings", `{"model":"m","input":"a"}`)
	name, _ := json.Marshal(hostile)
	f.do("POST", "/v1/chat/completions", strings.Replace(chat("hello", ""), `"m"`, string(name), 1))
	f.do("POST", "/v1/chat/completions", chat("refuse", ""))
	f.do("POST", "/v1/chat/completions", chat("x", `,"n":0`))
	response, text := f.do("GET", "/metrics", "")
	expect(t, response.Header.Get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8")
	page, err := exposition.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for sample, want := range map[string]float64{
		`quire_server_requests_total{path="/v1/chat/completions",status="200"}`: 2,
		`quire_server_requests_total{path="/v1/chat/completions",status="400"}`: 2,
		`quire_server_prompt_tokens_total{model="m"}`:                           6 + 1,
		`quire_server_cached_tokens_total{model="m"}`:                           2,
		`quire_server_new_tokens_total{model="m"}`:                              3,
		`quire_server_generations_total{model="m",reason="stop"}`:               1,
		`quire_server_refusals_total{model="m",reason="invalid_request"}`:       1,
		`quire_server_refusals_total{model="",reason="invalid_request"}`:        1,
		`quire_server_request_duration_seconds_count{model="m"}`:                2,
		`quire_server_time_to_first_token_seconds_count{model="m"}`:             1,
		`quire_server_request_prompt_tokens_bucket{model="m",le="4"}`:           1,
		`quire_server_request_new_tokens_sum{model="m"}`:                        3,
		`quire_server_request_new_tokens_bucket{model="m",le="+Inf"}`:           1,
		`quire_server_new_tokens_total{model="m\"\\\n{}é"}`:                     1,
		`quire_server_requests_running`:                                         0,
	} {
		if got, known := page.Samples[sample]; !known || got != want {
			t.Errorf("%s is %g, not %g (%v)", sample, got, want, known)
		}
	}
	for _, family := range []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds",
		"process_max_fds", "process_start_time_seconds", "go_goroutines", "go_info", "quire_build_info"} {
		if page.Types[family] == "" {
			t.Errorf("%s is missing", family)
		}
	}
	if bytes := page.Samples["process_resident_memory_bytes"]; bytes < 1<<20 || bytes > 1<<40 {
		t.Errorf("%g bytes are resident", bytes)
	}
}

func TestMetricsNameNoOwnersIfThereAreKeys(t *testing.T) {
	const text = "# HELP quire_namespace_jobs_running Jobs.\n# TYPE quire_namespace_jobs_running gauge\n" +
		"quire_namespace_jobs_running{cache=\"m\",namespace=\"ada\"} 1\n# HELP quire_jobs_running Jobs.\n" +
		"# TYPE quire_jobs_running gauge\nquire_jobs_running{cache=\"m\"} 1\n"
	for _, one := range []struct {
		keys, admin bool
		key         string
		named       bool
	}{{false, false, "", true}, {true, true, "", false}, {true, true, "k", false}, {true, true, "root", true}, {true, false, "root", false}} {
		f := start(t, func(c *server.Config) {
			if one.keys {
				c.Keys = []server.Key{{SHA256: digest("k"), Owner: "ada"}}
			}
			if one.admin {
				c.Admin = []string{digest("root")}
			}
		})
		f.engine.Metrics = text
		f.key = one.key
		_, got := f.do("GET", "/metrics", "")
		page, err := exposition.Parse(got)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(got, "ada") != one.named || page.Samples[`quire_jobs_running{cache="m"}`] != 1 {
			t.Errorf("%+v: %.300s", one, got)
		}
	}
}

func TestEachFieldOfTheConfigurationIsChecked(t *testing.T) {
	base := func() *server.Config {
		return &server.Config{Models: map[string]server.ModelConfig{"m": {Path: "x"}}, Aliases: map[string]string{"a": "m"}}
	}
	for field, change := range map[string]func(*server.Config){
		"keys[0].sha256": func(c *server.Config) { c.Keys = []server.Key{{SHA256: strings.Repeat("g", 64), Owner: "o"}} },
		"admin[0]":       func(c *server.Config) { c.Admin = []string{"abc"} },
		"keys[0].models[0]": func(c *server.Config) {
			c.Keys = []server.Key{{SHA256: digest("k"), Owner: "o", Models: []string{"q"}}}
		},
		"an alias": func(c *server.Config) {
			c.Keys = []server.Key{{SHA256: digest("k"), Owner: "o", Models: []string{"a"}}}
		},
		"negative limit":         func(c *server.Config) { c.Keys = []server.Key{{SHA256: digest("k"), Owner: "o", MaxJobs: -1}} },
		"fallbacks.q":            func(c *server.Config) { c.Fallbacks = map[string][]string{"q": {"m"}} },
		"routes[0].min_prompt":   func(c *server.Config) { c.Routes = []server.Route{{To: "m", MinPromptBytes: 9, MaxPromptBytes: 3}} },
		"listen":                 func(c *server.Config) { c.Listen = "8080" },
		"log_level":              func(c *server.Config) { c.LogLevel = "loud" },
		"limits.max_connections": func(c *server.Config) { c.Limits.MaxConnections = -1 },
		"models.m.cache_tokens":  func(c *server.Config) { c.Models["m"] = server.ModelConfig{Path: "x", CacheTokens: -1} },
		"page_events.replay": func(c *server.Config) {
			c.Models["m"] = server.ModelConfig{Path: "x", PageEvents: &server.PageEvents{Listen: ":1", Replay: "x"}}
		},
		"origins[0]":         func(c *server.Config) { c.Origins = []string{"chat.example.com"} },
		"hosts[0]":           func(c *server.Config) { c.Hosts = []string{"http://a"} },
		"memory_budgets.cpu": func(c *server.Config) { c.MemoryBudgets = map[string]int64{"cpu": -1} },
		"stages[1]":          func(c *server.Config) { c.Stages = []string{"tcp://10.0.0.2:7430", "cuda:0"} },
		"stages[0]":          func(c *server.Config) { c.Stages, c.StageKeyFile = []string{"tcp://10.0.0.2"}, "key" },
		"stage_key_file":     func(c *server.Config) { c.Stages = []string{"tcp://10.0.0.2:7430"} },
		"stage_transport":    func(c *server.Config) { c.StageTransport = "rdma" },
	} {
		config := base()
		change(config)
		if err := config.Check(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := base().Check(); err != nil {
		t.Error(err)
	}
}

func TestProcessorsFollowTheControlGroup(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for want, root := range map[int]fstest.MapFS{
		0: {"sys/fs/cgroup/cpu.max": file("max 100000\n"), "proc/self/cgroup": file("0::/\n")},
		2: {"sys/fs/cgroup/cpu.max": file("150000 100000\n"), "proc/self/cgroup": file("0::/\n")},
		1: {"sys/fs/cgroup/a/b/cpu.max": file("400000 100000\n"), "sys/fs/cgroup/a/cpu.max": file("1000 100000\n"),
			"proc/self/cgroup": file("1:name=systemd:/x\n0::/a/b\n")},
		4: {"sys/fs/cgroup/cpu.max": file("400000 100000\n"), "proc/self/cgroup": file("0::/of/the/host\n")},
	} {
		if got := server.GrantedProcessors(root); got != want {
			t.Errorf("%d, not %d", got, want)
		}
	}
	for _, text := range []string{"", "100000", "0 100000", "-1 100000", "100000 0", "a b", "99999999999999999999 1"} {
		if got := server.GrantedProcessors(fstest.MapFS{"sys/fs/cgroup/cpu.max": file(text)}); got != 0 {
			t.Errorf("%q grants %d", text, got)
		}
	}
}

func TestAChangeThatNeedsARestartIsNamed(t *testing.T) {
	config := func(change func(*server.Config)) *server.Config {
		c := &server.Config{Models: map[string]server.ModelConfig{"m": {Path: "x"}}}
		change(c)
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	started := config(func(*server.Config) {})
	expect(t, len(config(func(c *server.Config) { c.MemoryBudgets = map[string]int64{"cpu": 1} }).NeedsRestart(started)), 0)
	expect(t, config(func(c *server.Config) {
		c.Listen, c.Threads, c.Limits.MaxConnections = "127.0.0.1:1", 2, 7
		c.Stages, c.StageKeyFile, c.StageTransport = []string{"tcp://10.0.0.2:7430"}, "key", "tcp"
	}).NeedsRestart(started), []string{"listen", "threads", "stages", "stage_key_file", "stage_transport", "limits.max_connections"})
}
