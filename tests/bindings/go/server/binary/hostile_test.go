package binary_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Hostile clients: each gets its status or has its connection closed, memory stays bounded, and others are
// served.

// limited starts a server with the embedded model and limits low enough for tests to reach.
func limited(t *testing.T, limits string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	text := fmt.Sprintf(`{"models": {"story": {"path": %q, "preload": true, "max_jobs": 16}}, "limits": %s}`,
		modelPath(t), limits)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--config", file)
	p.logged("a model was loaded")
	return p
}

func (p *process) dial() net.Conn {
	p.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	return conn
}

// served checks that the server still answers other clients.
func (p *process) served() {
	p.t.Helper()
	response, err := http.Post(p.url+"/v1/completions", "application/json",
		strings.NewReader(`{"model":"story","prompt":"Once upon a time","max_tokens":4}`))
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		p.t.Fatalf("%d %s", response.StatusCode, text)
	}
}

// residentBytes returns the resident memory of the server.
func (p *process) residentBytes() int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.command.Process.Pid))
	if err != nil {
		p.t.Skip("the system does not tell the memory of a process")
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

func (p *process) descriptors() int {
	p.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.command.Process.Pid))
	if err != nil {
		p.t.Skip("the system does not tell the descriptors of a process")
	}
	return len(entries)
}

// figure returns one sample of /metrics.
func (p *process) figure(sample string) float64 {
	p.t.Helper()
	_, text := p.get("/metrics")
	for _, line := range strings.Split(text, "\n") {
		if value := strings.TrimPrefix(line, sample+" "); value != line {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return number
		}
	}
	p.t.Fatalf("/metrics has no %s", sample)
	return 0
}

func (p *process) nothingRuns() {
	p.t.Helper()
	p.eventually("no job runs", func() bool {
		return p.figure(`quire_jobs_running{cache="story"}`) == 0 && p.figure(`quire_jobs_queued{cache="story"}`) == 0
	})
	if held := p.figure(`quire_pages_referenced{cache="story"}`); held != 0 {
		p.t.Errorf("%g pages are held", held)
	}
}

// status sends raw bytes and returns the status of the answer, or 0 if the connection is closed without one.
func (p *process) status(request []byte) int {
	p.t.Helper()
	conn := p.dial()
	defer conn.Close()
	go func() { _, _ = conn.Write(request) }()
	answer, _ := io.ReadAll(io.LimitReader(conn, 64))
	fields := strings.Fields(string(answer))
	if len(fields) < 2 {
		return 0
	}
	status, _ := strconv.Atoi(fields[1])
	return status
}

func TestIdleConnectionsAreClosedAndOthersServed(t *testing.T) {
	p := limited(t, `{"body_seconds": 1, "max_connections": 1000}`)
	before := p.descriptors()
	var slow []net.Conn
	for i := 0; i < 300; i++ {
		conn := p.dial()
		text := "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
		if i%2 == 1 { // complete headers, and a body that never comes
			text += "1\r\nContent-Length: 1000\r\n\r\n{\"model\""
		}
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
	}
	p.served()
	for i, conn := range slow {
		answer, _ := io.ReadAll(conn) // until the server closes the connection
		if i%2 == 1 && !strings.HasPrefix(string(answer), "HTTP/1.1 408") {
			t.Fatalf("%q", answer)
		}
	}
	p.eventually("their descriptors are closed", func() bool { return p.descriptors() <= before+8 })
	p.served()
}

func TestTooLargeRequestsAreRefusedInBoundedMemory(t *testing.T) {
	p := limited(t, `{"max_body_bytes": 1000000}`)
	p.served()
	before := p.residentBytes()
	var headers bytes.Buffer
	headers.WriteString("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n")
	for i := 0; i < 1000000; i++ {
		fmt.Fprintf(&headers, "X-%d: a\r\n", i)
	}
	if status := p.status(append(headers.Bytes(), "\r\n"...)); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Error("headers:", status)
	}
	long := "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n"
	if status := p.status(append([]byte(long), bytes.Repeat([]byte(" "), 2000000)...)); status != 413 {
		t.Error("a long body:", status)
	}
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 100000, strings.Repeat(" ", 100000))
	chunked := "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunk, 20)
	if status := p.status([]byte(chunked)); status != 413 {
		t.Error("a body without end:", status)
	}
	both := "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	if status := p.status([]byte(both)); status != 400 && status != 0 {
		t.Error("two lengths:", status)
	}
	if grown := p.residentBytes() - before; grown > 128<<20 {
		t.Errorf("%d bytes more are resident", grown)
	}
	p.served()
}

func TestInvalidBodiesAreRefused(t *testing.T) {
	p := limited(t, `{}`)
	p.served()
	before := p.residentBytes()
	schema := func(text string) string {
		return `{"model":"story","max_tokens":8,"messages":[{"role":"user","content":"a"}],
			"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":` + text + `}}}`
	}
	deep := func(open, inner, close string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(close, n)
	}
	var wide strings.Builder
	for i := 0; i < 200000; i++ {
		fmt.Fprintf(&wide, `"a%d",`, i)
	}
	for name, body := range map[string]string{
		"deep lists":              deep("[", "", "]", 1000000),
		"deep messages":           `{"model":"story","messages":` + deep("[", "", "]", 5000) + `}`,
		"deep content":            `{"model":"story","messages":[{"role":"user","content":` + deep(`{"a":`, "1", "}", 5000) + `}]}`,
		"no UTF-8":                "{\"model\":\"story\",\"messages\":[{\"role\":\"user\",\"content\":\"\xc0\x80\xff\"}]}",
		"half a body":             `{"model":"story","messages":[{"role":"us`,
		"two values":              `{"model":"story","messages":[]} {}`,
		"many messages":           `{"model":"story","messages":[` + strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"a"},`, 100000), ",") + `]}`,
		"a number of many digits": `{"model":"story","max_tokens":` + strings.Repeat("9", 100000) + `,"messages":[{"role":"user","content":"a"}]}`,
		"a deep schema":           schema(deep(`{"type":"array","items":`, "{}", "}", 4000)),
		"a schema of itself":      schema(`{"$ref":"#"}`),
		"a pattern that explodes": schema(`{"type":"string","pattern":"((((a{1,999}){1,999}){1,999}){1,999})"}`),
		"a schema of choices":     schema(deep(`{"anyOf":[{"type":"string"},`, `{"type":"null"}`, "]}", 2000)),
		"a wide enum":             schema(`{"enum":[` + strings.TrimSuffix(wide.String(), ",") + `]}`),
		"a schema of repeats":     schema(`{"type":"array","minItems":999999999,"items":{"type":"array","minItems":999999999}}`),
		"unknown references":      schema(`{"$ref":"http://nowhere/x"}`),
	} {
		response, err := http.Post(p.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		// A schema that we can satisfy may succeed.
		if response.StatusCode != http.StatusBadRequest && !((strings.Contains(name, "schema") || strings.Contains(name, "pattern")) && response.StatusCode == 200) {
			t.Errorf("%s: %d %.300s", name, response.StatusCode, text)
		}
		if len(text) > 20000 {
			t.Errorf("%s: %d bytes of answer", name, len(text))
		}
	}
	p.served()
	if grown := p.residentBytes() - before; grown > 512<<20 {
		t.Errorf("%d bytes more are resident", grown)
	}
}

// mutated changes a few bytes of a text, or removes or doubles a part of it.
func mutated(random *rand.Rand, text string) string {
	bytes := []byte(text)
	for i := random.Intn(4); i >= 0; i-- {
		at, end := random.Intn(len(bytes)), random.Intn(len(bytes))
		if at > end {
			at, end = end, at
		}
		switch random.Intn(4) {
		case 0:
			bytes[at] = byte(random.Intn(256))
		case 1:
			bytes[at] = `{}[]":,0-9e.tfn\`[random.Intn(16)]
		case 2:
			bytes = append(bytes[:at:at], bytes[end:]...)
		case 3:
			bytes = append(bytes[:end:end], bytes[at:]...)
		}
		if len(bytes) == 0 {
			return "{"
		}
	}
	return string(bytes)
}

func TestFuzzedBodiesNeverFailInsideTheServer(t *testing.T) {
	p := limited(t, `{"max_choices": 2}`)
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	bodies := map[string][]string{
		"/v1/chat/completions": {`{"model":"story","messages":[{"role":"user","content":"hello"},{"role":"assistant",
			"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool",
			"tool_call_id":"a","content":[{"type":"text","text":"b"}]}],"tools":[{"type":"function","function":{"name":"f",
			"parameters":{"type":"object"}}}],"max_tokens":2,"temperature":0.5,"top_p":0.9,"stop":["x"],"seed":1,
			"logprobs":true,"top_logprobs":2,"response_format":{"type":"json_object"},"logit_bias":{"5":1}}`},
		"/v1/completions":           {`{"model":"story","prompt":["a",[1,2]],"max_tokens":2,"n":1,"echo":true,"logprobs":1}`},
		"/v1/embeddings":            {`{"model":"story","input":["a","b"],"encoding_format":"base64","dimensions":8}`},
		"/v1/responses":             {`{"model":"story","input":[{"role":"user","content":[{"type":"input_text","text":"a"}]}],"max_output_tokens":2}`},
		"/v1/messages":              {`{"model":"story","max_tokens":2,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"a"}]}`},
		"/v1/messages/count_tokens": {`{"model":"story","messages":[{"role":"user","content":"a"}]}`},
		"/v1/tokenize":              {`{"model":"story","prompt":"a b"}`},
		"/v1/detokenize":            {`{"model":"story","tokens":[1,2,3]}`},
		"/v1/score":                 {`{"model":"story","input":["a b",[1,2]]}`},
	}
	seen := map[int]int{}
	for round := 0; round < 150; round++ {
		for path, texts := range bodies {
			body := texts[random.Intn(len(texts))]
			if round >= 2 { // the first as they are, so that some are answered whatever the seed
				body = mutated(random, body)
			}
			request, _ := http.NewRequest("POST", p.url+path, strings.NewReader(body))
			request.Header.Set("x-request-timeout", "20")
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatalf("seed %d: %s %q: %v", seed, path, body, err)
			}
			text, _ := io.ReadAll(response.Body)
			response.Body.Close()
			seen[response.StatusCode]++
			if response.StatusCode >= 500 || !json.Valid(text) {
				t.Errorf("seed %d: %s %q: %d %.300s", seed, path, body, response.StatusCode, text)
			}
		}
	}
	if seen[200] < 10 || seen[400] < 10 {
		t.Errorf("%v: that tries too little", seen)
	}
	p.nothingRuns()
}

func TestAClientThatStopsReadingEndsItsRequest(t *testing.T) {
	p := limited(t, `{"write_seconds": 1}`)
	body := `{"model":"story","messages":[{"role":"user","content":"a"}],"stream":true,"n":16,"logprobs":true,
		"top_logprobs":20,"max_tokens":1500,"logit_bias":{"1":-1000}}`
	conn := p.dial()
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	p.eventually("its jobs run", func() bool { return p.figure(`quire_jobs_running{cache="story"}`) == 16 })
	p.eventually("its jobs are cancelled", func() bool { return p.figure(`quire_jobs_cancelled_total{cache="story"}`) == 16 })
	p.nothingRuns()
	p.served()
}
