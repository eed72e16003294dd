package server_test

import (
	"bytes"
	"net/http/httptest"
	"testing"

	"quire.dev/quire-test/server/fake"
	"quire.dev/quire/server"
)

// startManaged starts a server whose engine has states and descriptions of its models.
func startManaged(t *testing.T, change func(*server.Config), engine *fake.Managed) *fixture {
	t.Helper()
	config := &server.Config{Models: map[string]server.ModelConfig{"m": {Path: "x"}}}
	if change != nil {
		change(config)
	}
	if err := config.Check(); err != nil {
		t.Fatal(err)
	}
	engine.Engine = &fake.Engine{}
	f := &fixture{t: t, engine: engine.Engine, log: &fake.Log{}}
	f.server = server.New(engine, config, server.NewLogger(f.log))
	f.Server = httptest.NewServer(f.server)
	t.Cleanup(f.Close)
	return f
}

// only configures one model, so that requests may leave its name out.
func only(c *server.Config) {
	c.Models, c.Aliases = map[string]server.ModelConfig{"m": {Path: "x"}}, nil
}

// refused checks that a request is refused with a message that has the words, and returns its body.
func (f *fixture) refused(path, body string, status int, words string) map[string]interface{} {
	f.t.Helper()
	response, text := f.do("POST", path, body)
	if response.StatusCode != status || !bytes.Contains([]byte(text), []byte(words)) {
		f.t.Errorf("%s %s: %d %s, not %d with %q", path, body, response.StatusCode, text, status, words)
	}
	return f.object(text)
}
