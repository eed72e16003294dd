package binary_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pullingServer starts a server without a model, with a script in place of the command quire.
func pullingServer(t *testing.T, script string) (*process, string) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"quire": "#!/bin/sh\n" + script,
		"config.json": fmt.Sprintf(`{"pull_command": %q}`, filepath.Join(folder, "quire"))} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return start(t, "--config", filepath.Join(folder, "config.json")), folder
}

func TestACommandBringsAModel(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("HF_HUB_CACHE", cache)
	commit := strings.Repeat("a", 40)
	model := filepath.Join(cache, "models--org--story")
	p, _ := pullingServer(t, fmt.Sprintf(`[ "$*" = "pull --json-lines -- org/story" ] || { echo "quire: odd: $*" >&2; exit 1; }
mkdir -p %[1]s/refs %[1]s/snapshots
printf %[2]s > %[1]s/refs/main
echo '{"completed":1,"total":2,"checking":false}'
cp -r %[3]s %[1]s/snapshots/%[2]s
echo '{"model":"org/story","path":"x"}'
`, model, commit, modelPath(t)))
	if status, text := p.post("/api/pull", `{"model":"org/story"}`); status != http.StatusOK ||
		!strings.Contains(text, `"completed":1`) || !strings.HasSuffix(text, "{\"status\":\"success\"}\n") {
		t.Fatal(status, text)
	}
	answered := func(when string) {
		status, text := p.post("/api/generate", `{"model":"org/story","prompt":"Once","stream":false,"options":{"num_predict":2}}`)
		if status != http.StatusOK || !strings.Contains(text, `"done":true`) {
			t.Error(when, status, text)
		}
	}
	answered("after the pull")
	p.signal(syscall.SIGHUP)
	p.logged("the configuration was reloaded")
	answered("after a reload")
	status, text := p.post("/api/pull", `{"model":"org/other","stream":false}`)
	if status != http.StatusBadGateway || !strings.Contains(text, "odd: pull --json-lines -- org/other") {
		t.Error(status, text)
	}
}

func TestAPullEndsWithItsClient(t *testing.T) {
	p, folder := pullingServer(t, `trap 'touch "$(dirname "$0")/interrupted"; exit 130' INT
echo '{"completed":1,"total":2,"checking":false}'
i=0
while [ $i -lt 600 ]; do sleep 0.1; i=$((i + 1)); done
`)
	client := http.Client{Timeout: time.Second}
	if response, err := client.Post(p.url+"/api/pull", "application/json", strings.NewReader(`{"model":"org/story"}`)); err == nil {
		defer response.Body.Close()
		buffer := make([]byte, 1<<16)
		for err == nil {
			_, err = response.Body.Read(buffer)
		}
	}
	p.eventually("the command is interrupted", func() bool {
		_, err := os.Stat(filepath.Join(folder, "interrupted"))
		return err == nil
	})
}

func TestACommandThatIsNotThereIsNamed(t *testing.T) {
	p, folder := pullingServer(t, "exit 0\n")
	if err := os.Remove(filepath.Join(folder, "quire")); err != nil {
		t.Fatal(err)
	}
	if status, text := p.post("/api/pull", `{"model":"org/story","stream":false}`); status != http.StatusBadGateway ||
		!strings.Contains(text, "pull_command cannot be run") {
		t.Error(status, text)
	}
}
