package local_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"quire.dev/quire/server"
)

// SHA-256 of "root".
const rootDigest = "4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2"

// administer returns the status and the answer of the admin interface.
func (f *fixture) administer(method, path, body string) (int, string) {
	f.t.Helper()
	response, text := f.sendAs("root", method, path, body)
	return response.StatusCode, string(text)
}

// startAliased starts a server whose alias "chat" names one of two models with different context lengths.
func startAliased(t *testing.T) *fixture {
	return start(t, func(c *server.Config) {
		model := server.ModelConfig{Path: modelPath(t), CacheTokens: 4096, ContextTokens: 512}
		c.Models = map[string]server.ModelConfig{"old": model}
		model.ContextTokens = 1024
		c.Models["new"] = model
		model.Path = filepath.Join(t.TempDir(), "nothing")
		c.Models["broken"] = model
		c.Aliases = map[string]string{"chat": "old"}
		c.Admin = []string{rootDigest}
	})
}

// context returns the context length of the model that a name refers to.
func (f *fixture) context(name string) int {
	var got struct {
		Context int `json:"max_model_len"`
	}
	f.post("/v1/tokenize", fmt.Sprintf(`{"model":%q,"prompt":"a"}`, name), &got)
	return got.Context
}

func TestAnAliasIsExchangedWhileRequestsRun(t *testing.T) {
	f := startAliased(t)
	if got := f.context("chat"); got != 512 {
		t.Fatal(got)
	}
	over := make(chan struct{})
	var clients sync.WaitGroup
	for i := 0; i < 4; i++ {
		clients.Add(1)
		go func() {
			defer clients.Done()
			for {
				select {
				case <-over:
					return
				default:
				}
				response, err := http.Post(f.URL+"/v1/completions", "application/json", strings.NewReader(
					`{"model":"chat","prompt":"Once","max_tokens":24,"stream":true}`))
				if err != nil {
					t.Error(err)
					return
				}
				text, err := io.ReadAll(response.Body)
				response.Body.Close()
				if err != nil || !strings.HasSuffix(string(text), "data: [DONE]\n\n") || strings.Contains(string(text), "error") {
					t.Errorf("%v %s", err, text)
				}
			}
		}()
	}
	for round := 0; round < 4; round++ {
		target, context := "new", 1024
		if round%2 == 1 {
			target, context = "old", 512
		}
		if status, text := f.administer("POST", "/admin/aliases/chat", `{"model":"`+target+`"}`); status != http.StatusOK {
			t.Error(status, text)
		}
		if got := f.context("chat"); got != context {
			t.Errorf("round %d: %d", round, got)
		}
		other := map[string]string{"new": "old", "old": "new"}[target]
		if status, text := f.administer("POST", "/admin/models/"+other+"/evict", ""); status != http.StatusOK {
			t.Error(status, text)
		}
	}
	close(over)
	clients.Wait()
}

func TestAnExchangeThatFailsChangesNothing(t *testing.T) {
	f := startAliased(t)
	for body, want := range map[string]int{`{"model":"broken"}`: http.StatusServiceUnavailable,
		`{"model":"nobody"}`: http.StatusNotFound, `{}`: http.StatusBadRequest, `[`: http.StatusBadRequest} {
		if status, text := f.administer("POST", "/admin/aliases/chat", body); status != want {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, _ := f.administer("POST", "/admin/aliases/old", `{"model":"new"}`); status != http.StatusBadRequest {
		t.Error(status)
	}
	if status, text := f.administer("GET", "/admin/aliases", ""); status != http.StatusOK || text != `{"chat":"old"}` {
		t.Error(status, text)
	}
	if got := f.context("chat"); got != 512 {
		t.Error(got)
	}
	if status, _ := f.administer("POST", "/admin/aliases/more", `{"model":"new"}`); status != http.StatusOK || f.context("more") != 1024 {
		t.Error(status)
	}
	response, err := http.Post(f.URL+"/admin/aliases/chat", "application/json", strings.NewReader(`{"model":"new"}`))
	if err != nil || response.StatusCode != http.StatusForbidden {
		t.Error("without a key: ", err, response)
	}
	response.Body.Close()
}
