package local_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"quire.dev/quire-test/server/exposition"
	"quire.dev/quire/server"
)

// deployed returns a file of packaging/server.
func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../../../packaging/server", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	metric = regexp.MustCompile(`\b(?:quire|process|go|vllm)[_:][a-zA-Z0-9_:]+`)
	labels = regexp.MustCompile(`by \(([^)]*)\)|[{,]\s*(\w+)\s*=~?"`)
	words  = regexp.MustCompile(`\w+`)
	quoted = regexp.MustCompile(`"[^"]*"`)
	rule   = regexp.MustCompile(`(?s)- alert: (\w+)\n\s+expr: (.*?)\n\s+(?:for: \d+m\n\s+)?labels: \{ severity: (?:critical|warning) \}\n` +
		`\s+annotations:\n\s+summary: "[^\n]+"\n\s+description: [^\n]+\n`)
)

// Labels that Prometheus adds.
var added = map[string]bool{"job": true, "instance": true, "le": true}

func checkQuery(t *testing.T, page *exposition.Page, where, query string) {
	t.Helper()
	found := metric.FindAllString(quoted.ReplaceAllString(query, `""`), -1)
	if len(found) == 0 && !strings.HasPrefix(query, "up{") {
		t.Errorf("%s: the query %q has no metric", where, query)
	}
	for _, name := range found {
		if !page.Has(name) {
			t.Errorf("%s: /metrics has no %s", where, name)
		}
	}
	for _, group := range labels.FindAllStringSubmatch(query, -1) {
		for _, label := range words.FindAllString(group[1]+group[2], -1) {
			if !page.Labels[label] && !added[label] {
				t.Errorf("%s: no metric has the label %s", where, label)
			}
		}
	}
}

// metricsPage returns the page of a server that has answered and refused a request.
func metricsPage(t *testing.T) *exposition.Page {
	f := start(t, nil)
	var got answer
	f.post("/v1/completions", `{"model":"story","prompt":"a","max_tokens":4}`, &got)
	f.refused("/v1/completions", `{"model":"story","prompt":"a","max_tokens":0}`, 400)
	_, text := f.get("/metrics")
	page, err := exposition.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestTheMetricsOfTheLibraryAndTheServerFollowTheTextFormat(t *testing.T) {
	page := metricsPage(t)
	if page.Samples[`quire_server_new_tokens_total{model="story"}`] != 4 {
		t.Errorf("%v", page.Samples)
	}
}

func TestDashboardAndAlertsUseMetricsThatExist(t *testing.T) {
	page := metricsPage(t)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(deployed(t, "grafana/quire.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			checkQuery(t, page, panel.Title, target.Expr)
			queries++
		}
	}
	text := deployed(t, "prometheus/alerts.yaml")
	rules := rule.FindAllStringSubmatch(text, -1)
	if queries < 25 || len(rules) < 8 || len(rules) != strings.Count(text, "- alert:") {
		t.Errorf("%d queries, %d of %d rules", queries, len(rules), strings.Count(text, "- alert:"))
	}
	for _, parts := range rules {
		checkQuery(t, page, parts[1], parts[2])
	}
}

func TestDeployedConfigurationsAreValid(t *testing.T) {
	check := func(name, text string) {
		path := filepath.Join(t.TempDir(), "server.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := server.ReadConfig(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"server.json", "docker/server.json"} {
		check(name, deployed(t, name))
	}
	_, after, found := strings.Cut(deployed(t, "kubernetes/worker.yaml"), "server.json: |\n")
	inside, _, ended := strings.Cut(after, "\n---")
	if !found || !ended {
		t.Fatal("worker.yaml has no configuration")
	}
	check("worker.yaml", inside)
}

func TestTheImageAndItsExampleAgree(t *testing.T) {
	image, compose := deployed(t, "docker/Dockerfile"), deployed(t, "docker/compose.yaml")
	for text, lines := range map[string][]string{
		image: {"FROM debian:12-slim", "COPY libquire0.1_*.deb quire-server_*.deb ", "USER 65532", "EXPOSE 8080",
			`CMD ["--config", "/etc/quire/server.json"]`, "/health/live"},
		compose: {"./server.json:/etc/quire/server.json", "./models:/models", `"8080:8080"`, "prometheus/alerts.yaml",
			"grafana/quire.json"},
		deployed(t, "docker/server.json"):         {`"listen": "0.0.0.0:8080"`, `"path": "/models/chat"`, `"quire"`},
		deployed(t, "prometheus/prometheus.yaml"): {"- alerts.yaml", `["quire:8080"]`},
	} {
		for _, line := range lines {
			if !strings.Contains(text, line) {
				t.Errorf("%q is missing in %.60q", line, text)
			}
		}
	}
	for _, file := range regexp.MustCompile(`- \.\./(\S+?):/`).FindAllStringSubmatch(compose, -1) {
		deployed(t, file[1])
	}
}
