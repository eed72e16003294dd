package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// abandoned is a body whose client leaves once it has been read.
type abandoned struct {
	io.Reader
	leave func()
}

func (b abandoned) Read(into []byte) (int, error) {
	n, err := b.Reader.Read(into)
	if err == io.EOF {
		b.leave()
	}
	return n, err
}

func TestALargeBodyIsNotDecodedForAClientThatHasLeft(t *testing.T) {
	f := start(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	text := chat(strings.Repeat("a ", 1<<20), "") + "}" // malformed, which decoding would report
	request := httptest.NewRequest("POST", "http://localhost/v1/chat/completions", abandoned{strings.NewReader(text), cancel})
	f.server.ServeHTTP(httptest.NewRecorder(), request.WithContext(ctx))
	line := f.logLine("/v1/chat/completions", 1)
	expect(t, line["status"], 499)
	expect(t, line["refused"], "client_gone")
	response, _ := f.do("POST", "/v1/chat/completions", text)
	expect(t, response.StatusCode, 400)
}

func TestARunningRequestWithALargeBodyHoldsNoOther(t *testing.T) {
	f := start(t, nil)
	large := `,"user":"` + strings.Repeat("a", 2<<20) + `"`
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "POST", f.URL+"/v1/chat/completions",
		strings.NewReader(chat("count", `,"stream":true`+large)))
	running, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Body.Close()
	expect(t, at(f.post("/v1/chat/completions", chat("hello", large)), "choices", 0, "message", "content"), "hello")
	response, _ := f.do("POST", "/v1/chat/completions", chat("hello", `,"unknown":1`+large))
	expect(t, response.StatusCode, 400)
	expect(t, at(f.post("/v1/chat/completions", chat("hello", large)), "choices", 0, "message", "content"), "hello")
}
