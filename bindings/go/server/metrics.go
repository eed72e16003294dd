package server

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"net/http"
	"sort"
	"strconv"
	"sync"
	"time"
)

// Bounds of histograms.
var (
	secondBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 600}
	tokenBounds  = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144}
)

// counters holds the server's own metrics; those of the engine come from the library. Labels have bounded
// numbers of values: paths of the server, models of the configuration, and reasons of the source code.
type counters struct {
	mu       sync.Mutex
	requests map[pathStatus]*requestSum
	models   map[string]*modelFigures
	refused  map[modelReason]int64
}

type pathStatus struct {
	path   string
	status int
}

type requestSum struct {
	count   int64
	seconds float64
}

type modelReason struct{ model, reason string }

// modelFigures are the figures of one model.
type modelFigures struct {
	usage                             Usage
	duration, firstToken, prompt, new *histogram
	ends                              map[string]int64 // by reason
}

// of returns the figures of a model. The caller holds the mutex.
func (c *counters) of(model string) *modelFigures {
	figures := c.models[model]
	if figures == nil {
		figures = &modelFigures{duration: newHistogram(secondBounds), firstToken: newHistogram(secondBounds),
			prompt: newHistogram(tokenBounds), new: newHistogram(tokenBounds), ends: map[string]int64{}}
		if c.models == nil {
			c.models = map[string]*modelFigures{}
		}
		c.models[model] = figures
	}
	return figures
}

// observe counts a finished request.
func (c *counters) observe(path string, e *exchange, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests == nil {
		c.requests, c.refused = map[pathStatus]*requestSum{}, map[modelReason]int64{}
	}
	sum := c.requests[pathStatus{path, e.status}]
	if sum == nil {
		sum = &requestSum{}
		c.requests[pathStatus{path, e.status}] = sum
	}
	sum.count++
	sum.seconds += took.Seconds()
	e.report.mutex.Lock()
	defer e.report.mutex.Unlock()
	if e.report.refusal != nil {
		c.refused[modelReason{e.traced.model, e.report.refusal.reason()}]++
	}
	if !e.report.ran {
		return
	}
	figures := c.of(e.traced.model)
	figures.duration.observe(took.Seconds())
	figures.prompt.observe(float64(e.report.usage.Prompt))
	if len(e.report.ends) > 0 {
		figures.new.observe(float64(e.report.usage.New))
	}
	if !e.traced.firstToken.IsZero() {
		figures.firstToken.observe(e.traced.firstToken.Sub(e.began).Seconds())
	}
}

func (c *counters) countTokens(model string, usage Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	figures := c.of(model)
	figures.usage.Prompt += usage.Prompt
	figures.usage.Cached += usage.Cached
	figures.usage.New += usage.New
}

func (c *counters) countEnd(model, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(model).ends[reason]++
}

func (c *counters) write(e exposition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeRequests(e)
	names := make([]string, 0, len(c.models))
	for name := range c.models {
		names = append(names, name)
	}
	sort.Strings(names)
	total := func(name, help string, value func(*modelFigures) int) {
		e.family(name, "counter", help)
		for _, model := range names {
			e.sample(name, float64(value(c.models[model])), "model", model)
		}
	}
	total("quire_server_prompt_tokens_total", "Prompt tokens.", func(m *modelFigures) int { return m.usage.Prompt })
	total("quire_server_cached_tokens_total", "Prompt tokens found in the cache.",
		func(m *modelFigures) int { return m.usage.Cached })
	total("quire_server_new_tokens_total", "Generated tokens.", func(m *modelFigures) int { return m.usage.New })
	histograms := func(name, help string, of func(*modelFigures) *histogram) {
		e.family(name, "histogram", help)
		for _, model := range names {
			e.histogram(name, of(c.models[model]), "model", model)
		}
	}
	histograms("quire_server_request_duration_seconds", "Time from the first byte of a request to the last byte of its answer.",
		func(m *modelFigures) *histogram { return m.duration })
	histograms("quire_server_time_to_first_token_seconds", "Time from the first byte of a request to its first token.",
		func(m *modelFigures) *histogram { return m.firstToken })
	histograms("quire_server_request_prompt_tokens", "Prompt tokens of a request.",
		func(m *modelFigures) *histogram { return m.prompt })
	histograms("quire_server_request_new_tokens", "Generated tokens of a request.",
		func(m *modelFigures) *histogram { return m.new })
	c.writeEnds(e, names)
}

func (c *counters) writeRequests(e exposition) {
	keys := make([]pathStatus, 0, len(c.requests))
	for key := range c.requests {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool {
		return keys[i].path < keys[j].path || keys[i].path == keys[j].path && keys[i].status < keys[j].status
	})
	e.family("quire_server_requests_total", "counter", "Requests by path and status.")
	for _, key := range keys {
		e.sample("quire_server_requests_total", float64(c.requests[key].count), "path", key.path, "status",
			strconv.Itoa(key.status))
	}
	e.family("quire_server_request_seconds_total", "counter",
		"Time from the first byte of a request to the last byte of its answer.")
	for _, key := range keys {
		e.sample("quire_server_request_seconds_total", c.requests[key].seconds, "path", key.path, "status",
			strconv.Itoa(key.status))
	}
}

// writeEnds writes why generations ended, and why requests were refused.
func (c *counters) writeEnds(e exposition, names []string) {
	e.family("quire_server_generations_total", "counter", "Ended generations by the reason of their end.")
	for _, model := range names {
		ends := c.models[model].ends
		for _, reason := range sortedKeys(ends) {
			e.sample("quire_server_generations_total", float64(ends[reason]), "model", model, "reason", reason)
		}
	}
	refused := make([]modelReason, 0, len(c.refused))
	for key := range c.refused {
		refused = append(refused, key)
	}
	sort.Slice(refused, func(i, j int) bool {
		return refused[i].model < refused[j].model || refused[i].model == refused[j].model && refused[i].reason < refused[j].reason
	})
	e.family("quire_server_refusals_total", "counter",
		"Requests that were refused or failed, by reason; the model is empty if it was not reached.")
	for _, key := range refused {
		e.sample("quire_server_refusals_total", float64(c.refused[key]), "model", key.model, "reason", key.reason)
	}
}

func sortedKeys(counts map[string]int64) []string {
	keys := make([]string, 0, len(counts))
	for key := range counts {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// metrics writes Prometheus' text format. If there are keys, metrics with names of owners are only for keys of the
// admin interface.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	out := bufio.NewWriter(w)
	defer out.Flush()
	e := exposition{out}
	if manager, is := s.engine.(Manager); is {
		writeLoads(e, manager.Loads())
		var text bytes.Buffer
		if err := manager.WriteMetrics(&text); err != nil {
			s.log.Error("the metrics of the engine cannot be read", Fields{"error": err.Error()})
		} else {
			withOwners := len(s.config.Load().Keys) == 0 || s.isAdmin(r)
			writeEngineMetrics(out, text.Bytes(), withOwners)
		}
	}
	s.counters.write(e)
	e.single("quire_server_requests_running", "gauge", "Admitted requests that have not ended.",
		float64(s.admission.numRunning()))
	s.writeBuild(e)
	writeProcess(e)
}

// Families of the engine with names of owners begin so.
var ownerFamilies = []byte("quire_namespace_")

// writeEngineMetrics copies the metrics of the engine, with or without those that contain names of owners.
func writeEngineMetrics(out io.Writer, text []byte, withOwners bool) {
	for _, line := range bytes.SplitAfter(text, []byte("\n")) {
		name := bytes.TrimPrefix(bytes.TrimPrefix(line, []byte("# HELP ")), []byte("# TYPE "))
		if withOwners || !bytes.HasPrefix(name, ownerFamilies) {
			_, _ = out.Write(line)
		}
	}
}

// writeLoads writes the gauges of the gateway inference extension under the names that its routers read.
// Routers read one sample of each, so the gauges cover all models together; the share is that of the fullest
// cache.
func writeLoads(e exposition, loads map[string]ModelLoad) {
	names := make([]string, 0, len(loads))
	var waiting, running int
	var fullest float64
	for name, load := range loads {
		names = append(names, name)
		waiting += load.Waiting
		running += load.Running
		if load.Pages > 0 {
			fullest = math.Max(fullest, float64(load.PagesUsed)/float64(load.Pages))
		}
	}
	sort.Strings(names)
	e.single("vllm:num_requests_waiting", "gauge", "Jobs that wait to run.", float64(waiting))
	e.single("vllm:num_requests_running", "gauge", "Jobs that take part in steps.", float64(running))
	e.single("vllm:kv_cache_usage_perc", "gauge", "Share of the pages that jobs hold, 0 to 1.", fullest)
	e.family("vllm:cache_config_info", "gauge", "Page size and number of pages of a model's cache.")
	for _, name := range names {
		e.sample("vllm:cache_config_info", 1, "block_size", strconv.Itoa(loads[name].PageTokens), "num_gpu_blocks",
			strconv.Itoa(loads[name].Pages), "model_name", name)
	}
}
