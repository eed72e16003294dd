package server_test

import (
	"testing"

	"quire.dev/quire-test/server/fake"
	"quire.dev/quire/server"
)

func TestPathsWithoutTheirVersionAreTheSame(t *testing.T) {
	f := start(t, nil)
	expect(t, at(f.post("/chat/completions", chat("hello", "")), "choices", 0, "message", "content"), "hello")
	expect(t, at(f.post("/completions", `{"model":"m","prompt":"hi"}`), "choices", 0, "text"), "hi")
	expect(t, at(f.post("/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`),
		"content", 0, "text"), "hi")
	response, text := f.do("POST", "/messages", `{}`)
	expect(t, response.StatusCode, 400)
	expect(t, f.object(text)["type"], "error") // Anthropic's form
	for path, status := range map[string]int{"/models": 200, "/models/m": 200, "/health": 200, "/nothing": 404,
		"/v1/nothing": 404, "/v1/": 404, "/v1/v1/models": 404, "/v1/health": 404} {
		response, text := f.do("GET", path, "")
		if response.StatusCode != status {
			t.Errorf("%s: %d %s", path, response.StatusCode, text)
		}
	}
}

func TestNamesMayContainSlashes(t *testing.T) {
	const name = "org/family/model"
	engine := &fake.Managed{}
	f := startManaged(t, func(c *server.Config) {
		c.Models = map[string]server.ModelConfig{name: {Path: "x"}, "m": {Path: "x"}}
		c.Admin = []string{digest("root")}
	}, engine)
	for _, path := range []string{"/v1/models/org/family/model", "/v1/models/org%2Ffamily%2Fmodel", "/models/org%2Ffamily/model"} {
		response, text := f.do("GET", path, "")
		if response.StatusCode != 200 || f.object(text)["id"] != name {
			t.Errorf("%s: %d %s", path, response.StatusCode, text)
		}
	}
	f.key = "root"
	expect(t, f.post("/admin/models/org/family/model/load", ""), map[string]string{"model": name, "state": ""})
	expect(t, f.post("/admin/models/org%2Ffamily%2Fmodel/evict", ""), map[string]string{"model": name, "state": "on disk"})
	expect(t, engine.Evicted(name), true)
	expect(t, f.post("/admin/aliases/openai/gpt", `{"model":"`+name+`"}`)["alias"], "openai/gpt")
	f.key = ""
	response, text := f.do("POST", "/v1/completions", `{"model":"openai/gpt","prompt":"hi"}`)
	if response.StatusCode != 200 {
		t.Error(text)
	}
	f.key = "root"
	response, _ = f.do("POST", "/admin/models/load", "")
	expect(t, response.StatusCode, 404)
	response, _ = f.do("POST", "/admin/models/org/family/load", "")
	expect(t, response.StatusCode, 404)
}

func TestTheListOfModelsHasTheirContext(t *testing.T) {
	f := startManaged(t, nil, &fake.Managed{Description: server.Description{ContextTokens: 4096}})
	_, text := f.do("GET", "/v1/models", "")
	expect(t, at(f.object(text), "data", 0, "max_model_len"), 4096)
	_, text = f.do("GET", "/v1/models/m", "")
	expect(t, f.object(text)["max_model_len"], 4096)
}
