package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"quire.dev/quire/server"
)

// fakePuller notes what it is asked for; a name with "gone" fails.
type fakePuller struct {
	commands, names []string
	handler         *server.Server
}

func (p *fakePuller) Pull(ctx context.Context, command, name string, progress func(server.PullProgress)) error {
	p.commands, p.names = append(p.commands, command), append(p.names, name)
	progress(server.PullProgress{Completed: 3, Total: 10})
	if strings.Contains(name, "gone") {
		return &server.Failure{Status: http.StatusBadGateway, Message: "the hub has no " + name}
	}
	if strings.Contains(name, "broken") {
		return errors.New("secret")
	}
	progress(server.PullProgress{Completed: 10, Total: 10, Checking: true})
	p.handler.AddModel(name, server.ModelConfig{Path: name})
	return nil
}

func startPuller(t *testing.T, change func(*server.Config)) (*fixture, *fakePuller) {
	f := start(t, func(c *server.Config) {
		c.PullCommand = "/usr/bin/quire"
		if change != nil {
			change(c)
		}
	})
	puller := &fakePuller{handler: f.server}
	f.server.SetPuller(puller)
	return f, puller
}

func TestAPulledModelIsServedUnderItsName(t *testing.T) {
	f, puller := startPuller(t, nil)
	lines := f.lines("/api/pull", `{"model":"hf.co/org/small:Q4_K_M"}`)
	expect(t, lines, []map[string]interface{}{
		{"status": "pulling manifest"},
		{"status": "pulling org/small:Q4_K_M", "digest": "org/small:Q4_K_M", "total": 10, "completed": 3},
		{"status": "verifying sha256 digest"},
		{"status": "success"}})
	expect(t, puller.names, []string{"org/small:Q4_K_M"})
	expect(t, puller.commands, []string{"/usr/bin/quire"})
	for _, name := range []string{"org/small:Q4_K_M", "hf.co/org/small:Q4_K_M", "huggingface.co/org/small:Q4_K_M"} {
		expect(t, f.post("/api/show", `{"model":"`+name+`"}`)["capabilities"] != nil, true)
		body := f.post("/api/chat", `{"model":"`+name+`","messages":[{"role":"user","content":"hi"}],"stream":false}`)
		expect(t, at(body, "message", "content"), "hi")
	}
	if _, text := f.do("GET", "/v1/models", ""); !strings.Contains(text, `"org/small:Q4_K_M"`) {
		t.Error(text)
	}
}

func TestAPullIsAnsweredWhole(t *testing.T) {
	f, puller := startPuller(t, nil)
	expect(t, f.post("/api/pull", `{"name":"org/small:latest","stream":false}`), map[string]string{"status": "success"})
	expect(t, puller.names, []string{"org/small"})
}

func TestAModelOfTheConfigurationIsThere(t *testing.T) {
	f, puller := startPuller(t, nil)
	for _, name := range []string{"m", "m:latest"} {
		expect(t, f.lines("/api/pull", `{"model":"`+name+`"}`), []map[string]string{{"status": "success"}})
	}
	expect(t, len(puller.names), 0)
}

func TestAPullThatFailsHasItsReason(t *testing.T) {
	f, _ := startPuller(t, nil)
	lines := f.lines("/api/pull", `{"model":"org/gone"}`)
	expect(t, lines[len(lines)-1], map[string]string{"error": "the hub has no org/gone"})
	f.refused("/api/pull", `{"model":"org/gone","stream":false}`, 502, "the hub has no org/gone")
	if text := f.refused("/api/pull", `{"model":"org/broken","stream":false}`, 500, "")["error"].(string); strings.Contains(text, "secret") {
		t.Error(text)
	}
	for _, name := range []string{"", "small", "../x/y", "org/a/b", "hf.co/", "--help/x", "org/small:../x"} {
		f.refused("/api/pull", `{"model":"`+name+`"}`, 400, "ORG/NAME")
	}
}

func TestPullsNeedAnAdministratorIfThereAreKeys(t *testing.T) {
	f, puller := startPuller(t, func(c *server.Config) {
		c.Admin = []string{digest("root")}
		c.Keys = []server.Key{{SHA256: digest("guest"), Owner: "guest"}, {SHA256: digest("root"), Owner: "root"}}
	})
	f.key = "guest"
	f.refused("/api/pull", `{"model":"org/small"}`, 403, "admin")
	expect(t, len(puller.names), 0)
	f.key = "root"
	expect(t, f.post("/api/pull", `{"model":"org/small","stream":false}`)["status"], "success")
}

func TestAServerWithoutACommandPullsNothing(t *testing.T) {
	f, puller := startPuller(t, func(c *server.Config) { c.PullCommand = "" })
	f.refused("/api/pull", `{"model":"org/small"}`, 403, "pull_command")
	expect(t, len(puller.names), 0)
}
