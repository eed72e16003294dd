package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"quire.dev/quire/server"
)

// startSocket starts a server with its limits on connections, as the command does.
func startSocket(t *testing.T, change func(*server.Config)) *fixture {
	f := start(t, change)
	served := httptest.NewUnstartedServer(nil)
	served.Config = f.server.HTTPServer()
	served.Start()
	t.Cleanup(served.Close)
	f.Server.Close()
	f.Server = served
	return f
}

// send sends a request with headers; "Host" replaces that of the address.
func (f *fixture) sendWith(method, path, body string, headers map[string]string) *http.Response {
	f.t.Helper()
	request, _ := http.NewRequest(method, f.URL+path, strings.NewReader(body))
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	request.Host = headers["Host"]
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		f.t.Fatal(err)
	}
	response.Body.Close()
	return response
}

func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	f := startSocket(t, func(c *server.Config) { c.Origins = []string{"https://chat.example.com", "http://*.inside"} })
	own := strings.TrimPrefix(f.URL, "http://")
	for origin, status := range map[string]int{
		"": 200, "http://" + own: 200, "https://chat.example.com": 200, "http://a.inside": 200,
		"https://evil.example.com": 403, "null": 403, "http://127.0.0.1:1": 403, "http://chat.example.com": 403,
		"https://chat.example.com.evil": 403, "http://.inside": 403, "http://a.inside.evil": 403, "file://" + own: 403,
		"://": 403,
	} {
		headers := map[string]string{"Content-Type": "text/plain"}
		if origin != "" {
			headers["Origin"] = origin
		}
		response := f.sendWith("POST", "/v1/chat/completions", chat("hello", ""), headers)
		if response.StatusCode != status {
			t.Errorf("%s: %d", origin, response.StatusCode)
		}
		allowed := response.Header.Get("Access-Control-Allow-Origin")
		if crosses := status == 200 && origin != "" && !strings.HasSuffix(origin, own); (allowed == origin) != crosses && origin != "" {
			t.Errorf("%s: allowed %q", origin, allowed)
		}
	}
}

func TestAPreflightIsAnsweredForAllowedOriginsOnly(t *testing.T) {
	f := startSocket(t, func(c *server.Config) {
		c.Origins = []string{"https://chat.example.com"}
		c.Keys = []server.Key{{SHA256: digest("k"), Owner: "a"}}
	})
	headers := map[string]string{"Origin": "https://chat.example.com", "Access-Control-Request-Method": "POST",
		"Access-Control-Request-Headers": "authorization, content-type"}
	response := f.sendWith("OPTIONS", "/v1/chat/completions", "", headers)
	expect(t, response.StatusCode, 204)
	expect(t, response.Header.Get("Access-Control-Allow-Headers"), "authorization, content-type")
	expect(t, strings.Contains(response.Header.Get("Access-Control-Allow-Methods"), "POST"), true)
	expect(t, response.Header.Get("Access-Control-Allow-Origin"), "https://chat.example.com")
	expect(t, response.Header.Get("Vary"), "Origin")
	headers["Origin"] = "https://evil.example.com"
	response = f.sendWith("OPTIONS", "/v1/chat/completions", "", headers)
	expect(t, response.StatusCode, 403)
	expect(t, response.Header.Get("Access-Control-Allow-Origin"), "")
}

func TestAReboundNameIsRefused(t *testing.T) {
	loopback := startSocket(t, nil)
	named := startSocket(t, func(c *server.Config) { c.Hosts = []string{"gpu.example.com", "*.cluster.local"} })
	open := startSocket(t, func(c *server.Config) { c.Listen = "0.0.0.0:8080" })
	for _, one := range []struct {
		f      *fixture
		host   string
		status int
	}{
		{loopback, "evil.example.com:8080", 403}, {loopback, "localhost:8080", 200}, {loopback, "LOCALHOST", 200},
		{loopback, "127.0.0.1", 200}, {loopback, "[::1]:8080", 200}, {loopback, "192.168.1.5:8080", 200},
		{loopback, "localhost.evil.example.com", 403}, {loopback, "127.0.0.1.evil.example.com", 403},
		{named, "gpu.example.com:8080", 200}, {named, "a.cluster.local", 200}, {named, "cluster.local", 403},
		{named, "evil.example.com", 403}, {named, "gpu.example.com.", 200}, {named, "10.0.0.1:8080", 200},
		{open, "any.name.at.all:8080", 200},
	} {
		response := one.f.sendWith("POST", "/v1/chat/completions", chat("hello", ""), map[string]string{"Host": one.host})
		if response.StatusCode != one.status {
			t.Errorf("%s: %d, not %d", one.host, response.StatusCode, one.status)
		}
	}
}

func TestNoPageShowsTheServerInsideItself(t *testing.T) {
	f := start(t, nil)
	response, _ := f.do("GET", "/", "")
	expect(t, response.Header.Get("X-Frame-Options"), "DENY")
}
