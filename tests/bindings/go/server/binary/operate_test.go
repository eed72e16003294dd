package binary_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// configured writes a configuration and returns its path.
func configured(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheCheckLooksAtFilesAndModels(t *testing.T) {
	for expected, text := range map[string]string{
		"models.a.path":          `{"models": {"a": {"path": "/nowhere/at/all"}}}`,
		"models.a.chat_template": `{"models": {"a": {"path": "/nowhere/at/all", "chat_template": "/nowhere"}}}`,
		"keys[0].models[0]":      `{"models": {"a": {"path": "x"}}, "keys": [{"sha256": "` + strings.Repeat("0", 64) + `", "owner": "o", "models": ["b"]}]}`,
	} {
		if text, status := output(t, "--config", configured(t, text), "--check"); status != 2 || !strings.Contains(text, expected) {
			t.Errorf("%s: %d %s", expected, status, text)
		}
	}
	if text, status := output(t, "--model", "story="+modelPath(t), "--check"); status != 0 || !strings.Contains(text, "is valid") {
		t.Error(status, text)
	}
}

func TestPageEventsGoOnAfterTooManyOpenFiles(t *testing.T) {
	file := configured(t, fmt.Sprintf(`{"models": {"a": {"path": %q, "page_events": {"listen": "127.0.0.1:0"}}}}`, t.TempDir()))
	p := launch(t, exec.Command("sh", "-c", `ulimit -n 64; exec "$0" "$@"`, command(t), "--config", file, "--listen", "127.0.0.1:0"))
	events := p.logged("page events are published")["address"].(string)
	var others []net.Conn
	p.eventually("no descriptor is left", func() bool {
		others = append(others, p.dial())
		return strings.Contains(p.text(), "too many open files")
	})
	subscriber, err := net.Dial("tcp", events)
	if err != nil {
		t.Fatal(err)
	}
	defer subscriber.Close()
	time.Sleep(300 * time.Millisecond) // accept fails several times
	for _, conn := range others {
		conn.Close()
	}
	_ = subscriber.SetDeadline(time.Now().Add(30 * time.Second))
	var greeting [64]byte
	if _, err := io.ReadFull(subscriber, greeting[:]); err != nil || greeting[0] != 0xFF {
		t.Errorf("%v: %x", err, greeting)
	}
	if status, _ := p.get("/health/live"); status != http.StatusOK {
		t.Error(status)
	}
}

func TestAProtocolOfSpansThatIsNotSupportedIsAWarning(t *testing.T) {
	cmd := exec.Command(command(t), "--model", "a="+t.TempDir(), "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	p := launch(t, cmd)
	if line := p.logged("a variable of OpenTelemetry is not followed"); line["level"] != "warning" {
		t.Error(line)
	}
}

func TestAReboundNameIsRefused(t *testing.T) {
	p := start(t, "--model", "a="+t.TempDir())
	request, _ := http.NewRequest("GET", p.url+"/v1/models", nil)
	for host, expected := range map[string]int{"evil.example.com": 403, "localhost:8080": 200} {
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != expected {
			t.Errorf("%s: %d", host, response.StatusCode)
		}
	}
}
