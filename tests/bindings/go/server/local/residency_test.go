package local_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

func TestAModelIsLoadedOnceByItsFirstRequests(t *testing.T) {
	f := start(t, nil)
	if state := f.engine.States()["story"]; state != "on disk" {
		t.Fatal(state)
	}
	var clients sync.WaitGroup
	for i := 0; i < 8; i++ {
		clients.Add(1)
		go func() {
			defer clients.Done()
			response, _ := http.Post(f.URL+"/v1/completions", "application/json",
				strings.NewReader(`{"model":"story","prompt":"a","max_tokens":4}`))
			if response.StatusCode != http.StatusOK {
				t.Error(response.Status)
			}
			response.Body.Close()
		}()
	}
	clients.Wait()
	if loads := strings.Count(f.log.String(), "a model was loaded"); loads != 1 {
		t.Errorf("it was loaded %d times", loads)
	}
}

func TestAModelThatFailsToLoadReportsItAndHarmsNoOther(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Models["broken"] = server.ModelConfig{Path: "/nowhere/at/all"} })
	for i := 0; i < 3; i++ {
		response, text := f.send("/v1/completions", `{"model":"broken","prompt":"a"}`)
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" ||
			strings.Contains(string(text), "nowhere") {
			t.Errorf("%d %s", response.StatusCode, text)
		}
	}
	if tries := strings.Count(f.log.String(), "a model cannot be loaded"); tries != 1 {
		t.Errorf("the log has %d failed loads", tries)
	}
	var got answer
	f.post("/v1/completions", `{"model":"story","prompt":"a","max_tokens":4}`, &got)
}

// follow starts a long stream and returns a reader of its lines.
func (f *fixture) follow(ctx context.Context, more string) (*http.Response, *bufio.Reader) {
	f.t.Helper()
	request, _ := http.NewRequestWithContext(ctx, "POST", f.URL+"/v1/completions", strings.NewReader(
		`{"model":"story","prompt":"`+prompt+`","stream":true,"logit_bias":{"1":-1000}`+more+`}`))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		f.t.Fatal(err)
	}
	lines := bufio.NewReader(response.Body)
	if _, err := lines.ReadString('\n'); err != nil {
		f.t.Fatal(err)
	}
	return response, lines
}

func TestAClientThatGoesAwayEndsItsJob(t *testing.T) {
	f := start(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	response, _ := f.follow(ctx, `,"max_tokens":2000`)
	if running := f.figure(`quire_jobs_running{cache="story"}`); running != 1 {
		t.Errorf("%g jobs run", running)
	}
	cancel()
	response.Body.Close()
	f.eventually("the job is over", func() bool { return f.figure(`quire_jobs_running{cache="story"}`) == 0 })
	if cancelled := f.figure(`quire_jobs_cancelled_total{cache="story"}`); cancelled != 1 {
		t.Errorf("%g jobs were cancelled", cancelled)
	}
	if held := f.figure(`quire_pages_referenced{cache="story"}`); held != 0 {
		t.Errorf("%g pages are held", held)
	}
}

func TestAnEvictedModelFinishesItsRequestsFirst(t *testing.T) {
	f := start(t, nil)
	_, lines := f.follow(context.Background(), `,"max_tokens":300`)
	if err := f.engine.Evict("story"); err != nil {
		t.Fatal(err)
	}
	if state := f.engine.States()["story"]; state != "leaving" {
		t.Error(state)
	}
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Fatal(err, string(rest[len(rest)-200:]))
	}
	f.eventually("the model is unloaded", func() bool { return f.engine.States()["story"] == "on disk" })
	var got answer
	f.post("/v1/completions", `{"model":"story","prompt":"a","max_tokens":4}`, &got)
	if loads := strings.Count(f.log.String(), "a model was loaded"); loads != 2 {
		t.Errorf("it was loaded %d times", loads)
	}
}

func TestAnEvictedModelStaysIfARequestComes(t *testing.T) {
	f := start(t, nil)
	_, lines := f.follow(context.Background(), `,"max_tokens":300`)
	if err := f.engine.Evict("story"); err != nil {
		t.Fatal(err)
	}
	var got answer
	f.post("/v1/completions", `{"model":"story","prompt":"a","max_tokens":4}`, &got)
	if _, err := io.ReadAll(lines); err != nil {
		t.Fatal(err)
	}
	f.post("/v1/completions", `{"model":"story","prompt":"a","max_tokens":4}`, &got)
	if loads := strings.Count(f.log.String(), "a model was loaded"); loads != 1 {
		t.Errorf("it was loaded %d times", loads)
	}
}

func TestAnUnusedModelIsEvicted(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Models["story"] = server.ModelConfig{Path: modelPath(t), IdleSeconds: 1, Preload: true}
	})
	f.eventually("it is resident", func() bool { return f.engine.States()["story"] == server.StateResident })
	f.eventually("it is given up", func() bool { return f.engine.States()["story"] == "on disk" })
	response, err := http.Get(f.URL + "/health/ready")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Error(err, response.Status)
	}
}

func TestModelsThatDoNotFitTogetherTakeTurns(t *testing.T) {
	runtime, err := quire.NewRuntime(quire.RuntimeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.Close()
	plan, err := runtime.Plan(modelPath(t), quire.ModelOptions{}, quire.CacheOptions{MaxTokens: 8192})
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, func(c *server.Config) {
		c.Models["second"] = c.Models["story"]
		c.MemoryBudgets = map[string]int64{"cpu": plan.TotalBytes * 3 / 2}
	})
	for i := 0; i < 3; i++ {
		for _, name := range []string{"story", "second"} {
			var got answer
			f.post("/v1/completions", `{"model":"`+name+`","prompt":"a","max_tokens":4}`, &got)
		}
	}
	if turns := strings.Count(f.log.String(), "unloaded to free memory for another"); turns != 5 {
		t.Errorf("%d turns:\n%s", turns, f.log.String())
	}
}

func TestANewConfigurationReplacesChangedModels(t *testing.T) {
	f := start(t, nil)
	var got answer
	f.post("/v1/completions", `{"model":"story","prompt":"a","max_tokens":4}`, &got)
	same := *f.config
	same.Models = map[string]server.ModelConfig{"story": f.config.Models["story"]}
	f.engine.Configure(&same)
	if state := f.engine.States()["story"]; state != server.StateResident {
		t.Error(state)
	}
	other := same
	other.Models = map[string]server.ModelConfig{"story": {Path: modelPath(t), CacheTokens: 4096}}
	f.engine.Configure(&other)
	if state := f.engine.States()["story"]; state != "on disk" {
		t.Error(state)
	}
	other.Models = map[string]server.ModelConfig{"other": {Path: modelPath(t)}}
	f.engine.Configure(&other)
	if _, err := f.engine.Open(context.Background(), "story"); err == nil {
		t.Error("an unloaded model was opened")
	}
}

func TestADeadlineThatPassesIsAGatewayTimeout(t *testing.T) {
	f := start(t, nil)
	request, _ := http.NewRequest("POST", f.URL+"/v1/completions",
		strings.NewReader(`{"model":"story","prompt":"a","max_tokens":2000,"logit_bias":{"1":-1000}}`))
	request.Header.Set("x-request-timeout", "0.2")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusGatewayTimeout {
		t.Error(response.Status)
	}
	f.eventually("the job is over", func() bool { return f.figure(`quire_jobs_running{cache="story"}`) == 0 })
}

var sample = regexp.MustCompile(`^([a-z_:]+)(\{[^{}]*\})? (-?[0-9.e+-]+|NaN|\+Inf)$`)

func TestMetricsListEachFamilyOnce(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Models["second"] = c.Models["story"] })
	var got answer
	f.post("/v1/completions", `{"model":"story","prompt":"a","max_tokens":4}`, &got)
	f.post("/v1/completions", `{"model":"second","prompt":"a","max_tokens":4}`, &got)
	response, err := http.Get(f.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	families, samples := map[string]bool{}, map[string]bool{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		line := lines.Text()
		if fields := strings.Fields(line); fields[0] == "#" {
			if fields[1] == "TYPE" && families[fields[2]] {
				t.Errorf("%s appears twice", fields[2])
			}
			families[fields[2]] = families[fields[2]] || fields[1] == "TYPE"
			continue
		}
		parts := sample.FindStringSubmatch(line)
		if parts == nil || samples[parts[1]+parts[2]] {
			t.Errorf("%q is no sample, or appears twice", line)
			continue
		}
		samples[parts[1]+parts[2]] = true
	}
	for _, name := range []string{"vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc",
		"vllm:cache_config_info", "quire_jobs_running", "quire_server_requests_total"} {
		if !families[name] {
			t.Errorf("%s is missing", name)
		}
	}
}
