// The command quire-server as operators use it: options, signals and limits, over loopback.
package binary_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// command returns the path of the server in the build, or builds one.
func command(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.path = os.Getenv("QUIRE_TEST_SERVER"); built.path != "" {
			return
		}
		built.path = filepath.Join(os.TempDir(), fmt.Sprint("quire-server-", os.Getpid()))
		output, err := exec.Command("go", "build", "-o", built.path, "quire.dev/quire/cmd/quire-server").CombinedOutput()
		if err != nil {
			built.failure = fmt.Sprint(err, "\n", string(output))
		}
	})
	if built.failure != "" {
		t.Fatal(built.failure)
	}
	return built.path
}

var built struct {
	once          sync.Once
	path, failure string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.path != "" && os.Getenv("QUIRE_TEST_SERVER") == "" {
		os.Remove(built.path)
	}
	os.Exit(code)
}

func modelPath(t *testing.T) string {
	path := os.Getenv("QUIRE_TEST_MODEL")
	if path == "" {
		t.Skip("QUIRE_TEST_MODEL names no model")
	}
	return path
}

// process is a running server with its log.
type process struct {
	t       *testing.T
	command *exec.Cmd
	url     string
	ended   chan struct{}

	mutex sync.Mutex
	lines []string
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	return launch(t, exec.Command(command(t), append(args, "--listen", "127.0.0.1:0")...))
}

// launch runs a command that becomes a server.
func launch(t *testing.T, command *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, command: command, ended: make(chan struct{})}
	log, err := p.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.ended
	})
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			p.mutex.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mutex.Unlock()
		}
		_ = p.command.Wait()
	}()
	p.url = "http://" + p.logged("listening")["address"].(string)
	return p
}

// serve starts a server with the embedded model under the name "story".
func serve(t *testing.T) *process {
	p := start(t, "--model", "story="+modelPath(t))
	p.logged("a model was loaded")
	return p
}

// logged waits for a log line with the message.
func (p *process) logged(message string) map[string]interface{} {
	p.t.Helper()
	var found map[string]interface{}
	p.eventually("the log contains: "+message, func() bool {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		for _, line := range p.lines {
			var fields map[string]interface{}
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				p.t.Fatalf("%v: %s", err, line)
			}
			if fields["message"] == message {
				found = fields
				return true
			}
		}
		return false
	})
	return found
}

func (p *process) text() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return strings.Join(p.lines, "\n")
}

func (p *process) eventually(what string, holds func() bool) {
	p.t.Helper()
	for i := 0; i < 3000; i++ {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.t.Fatalf("it never came to be that %s; the log:\n%s", what, p.text())
}

func (p *process) signal(which syscall.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(which); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) exitStatus() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		p.t.Fatalf("it does not end; the log:\n%s", p.text())
	}
	return p.command.ProcessState.ExitCode()
}

func (p *process) get(path string) (int, string) {
	p.t.Helper()
	response, err := http.Get(p.url + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

func (p *process) post(path, body string) (int, string) {
	p.t.Helper()
	response, err := http.Post(p.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// follow starts a stream of the given number of tokens and returns after its first piece has arrived.
func (p *process) follow(tokens int) (*http.Response, *bufio.Reader) {
	p.t.Helper()
	response, err := http.Post(p.url+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(
		`{"model":"story","prompt":"Once upon a time","stream":true,"max_tokens":%d,"logit_bias":{"1":-1000}}`, tokens)))
	if err != nil {
		p.t.Fatal(err)
	}
	lines := bufio.NewReader(response.Body)
	if _, err := lines.ReadString('\n'); err != nil {
		p.t.Fatal(err)
	}
	return response, lines
}

func output(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(command(t), args...)
	text, _ := cmd.CombinedOutput()
	return string(text), cmd.ProcessState.ExitCode()
}

func TestTheCommandLineReportsMistakes(t *testing.T) {
	if text, status := output(t, "--help"); status != 0 || !strings.Contains(text, "--config FILE") {
		t.Error(status, text)
	}
	if text, status := output(t, "--version"); status != 0 || !strings.HasPrefix(text, "quire-server 0.") {
		t.Error(status, text)
	}
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(`{"models": {"a": {"path": "x"}}, "limitz": {}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for expected, args := range map[string][]string{
		"give a configuration": {},
		"NAME=PATH":            {"--model", "story"},
		"exclude each other":   {"--model", "a=b", "--config", file},
		"limitz":               {"--config", file, "--check"},
		"no such file":         {"--config", "/nowhere"},
		"not defined":          {"--modell", "a=b"},
		"is not an option":     {"serve"},
	} {
		if text, status := output(t, args...); status != 2 || !strings.Contains(text, expected) {
			t.Errorf("%v: %d %s", args, status, text)
		}
	}
}

func TestRunningRequestsFinishBeforeTheServerStops(t *testing.T) {
	p := serve(t)
	_, lines := p.follow(1500)
	p.signal(syscall.SIGTERM)
	p.logged("stopping: waiting for running requests")
	if status, _ := p.get("/health/ready"); status != http.StatusServiceUnavailable {
		t.Error(status)
	}
	if status, _ := p.get("/health/live"); status != http.StatusOK {
		t.Error(status)
	}
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Error(err, len(rest))
	}
	if status := p.exitStatus(); status != 0 {
		t.Errorf("%d; the log:\n%s", status, p.text())
	}
	if strings.Contains(p.text(), "Once upon") {
		t.Error("the log holds the text of a prompt")
	}
}

func TestASecondSignalEndsTheServerAtOnce(t *testing.T) {
	p := serve(t)
	_, lines := p.follow(2000)
	p.signal(syscall.SIGTERM)
	p.logged("stopping: waiting for running requests")
	p.signal(syscall.SIGTERM)
	if status := p.exitStatus(); status != 3 {
		t.Errorf("%d; the log:\n%s", status, p.text())
	}
	rest, _ := io.ReadAll(lines)
	if strings.Contains(string(rest), "[DONE]") {
		t.Error("the stream ended as if it were complete")
	}
}

func TestTheConfigurationIsReadAgainOnSighup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	model := fmt.Sprintf(`{"path": %q, "preload": true}`, modelPath(t))
	write(`{"models": {"story": ` + model + `}}`)
	p := start(t, "--config", file)
	p.logged("a model was loaded")
	response, lines := p.follow(1000)
	write(`{"models": {"story": ` + model + `, "more": ` + model + `}, "aliases": {"gpt-4o": "story"}}`)
	p.signal(syscall.SIGHUP)
	p.logged("the configuration was reloaded")
	if _, text := p.get("/v1/models"); !strings.Contains(text, `"gpt-4o"`) || !strings.Contains(text, `"more"`) {
		t.Error(text)
	}
	write(`{"models": {}}`)
	p.signal(syscall.SIGHUP)
	p.logged("the configuration is invalid; the old one stays in use")
	if status, _ := p.get("/v1/models/more"); status != http.StatusOK {
		t.Error(status)
	}
	rest, err := io.ReadAll(lines)
	response.Body.Close()
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Error("what ran did not go on", err)
	}
}

func TestAServerWithoutItsModelIsNotReady(t *testing.T) {
	modelPath(t)
	p := start(t, "--model", "gone="+t.TempDir())
	p.logged("a model cannot be loaded")
	for path, expected := range map[string]int{"/health/live": 200, "/health/ready": 503, "/health/startup": 503} {
		if status, text := p.get(path); status != expected {
			t.Error(path, status, text)
		}
	}
	p.signal(syscall.SIGTERM)
	if status := p.exitStatus(); status != 0 {
		t.Error(status)
	}
}
