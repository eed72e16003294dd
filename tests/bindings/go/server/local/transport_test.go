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

// An HTTP client can use a model in its own process, without a socket.
func ExampleOpen() {
	models, err := local.Open(&server.Config{Models: map[string]server.ModelConfig{
		"story": {Path: os.Getenv("QUIRE_TEST_MODEL")}}}, nil)
	if err != nil {
		panic(err)
	}
	defer models.Close()
	client := models.Client()
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

func TestAnAnswerWithoutASocketHasAStatus(t *testing.T) {
	f := start(t, nil)
	client := &http.Client{Transport: server.Transport(f.Config.Handler)}
	for path, status := range map[string]string{"/v1/models": "200 OK", "/v1/models/nobody": "404 Not Found"} {
		response, err := client.Get("http://in.process" + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.Status != status {
			t.Errorf("%s: %q", path, response.Status)
		}
	}
}

func TestAConfigurationWithoutModelsIsRefused(t *testing.T) {
	if models, err := local.Open(&server.Config{}, nil); err == nil {
		models.Close()
		t.Error("it was opened")
	} else if !strings.Contains(err.Error(), "models") {
		t.Error(err)
	}
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
