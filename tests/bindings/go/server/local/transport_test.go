package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"quire.dev/quire/server"
	"quire.dev/quire/server/local"
)

// A program of an HTTP client runs in the process of its model, without a socket.
func ExampleTransport() {
	path := os.Getenv("QUIRE_TEST_MODEL")
	config := &server.Config{Models: map[string]server.ModelConfig{"story": {Path: path}}}
	if err := config.Check(); err != nil {
		panic(err)
	}
	log := server.NewLogger(&strings.Builder{})
	engine, err := local.New(config, log)
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	client := &http.Client{Transport: server.Transport(server.New(engine, config, log))}
	response, err := client.Post("http://in.process/v1/completions", "application/json",
		strings.NewReader(`{"model":"story","prompt":"Once upon a time there was a","max_tokens":8,"temperature":0}`))
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	var answer struct{ Choices []struct{ Text string } }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		panic(err)
	}
	fmt.Printf("%q\n", answer.Choices[0].Text)
	// Output: " great deal of trouble in the country,"
}

func TestAStreamWithoutASocketEndsWithItsReader(t *testing.T) {
	f := start(t, nil)
	client := &http.Client{Transport: server.Transport(f.Config.Handler)}
	response, err := client.Post("http://in.process/v1/completions", "application/json", strings.NewReader(
		`{"model":"story","prompt":"a","stream":true,"max_tokens":2000,"logit_bias":{"1":-1000}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := response.Body.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	f.eventually("the job is over", func() bool { return f.figure(`quire_jobs_running{cache="story"}`) == 0 })
	if cancelled := f.figure(`quire_jobs_cancelled_total{cache="story"}`); cancelled != 1 {
		t.Errorf("%g jobs were cancelled", cancelled)
	}
}

func TestAStreamWhoseContextEndsIsNotWhole(t *testing.T) {
	f := start(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	request, _ := http.NewRequestWithContext(ctx, "POST", "http://in.process/v1/completions", strings.NewReader(
		`{"model":"story","prompt":"a","stream":true,"max_tokens":2000,"logit_bias":{"1":-1000}}`))
	response, err := server.Transport(f.Config.Handler).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := response.Body.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(response.Body); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
