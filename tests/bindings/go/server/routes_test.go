package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"quire.dev/quire/server"
)

// routed starts a server whose route sends matching requests to a model that cannot be opened, so that they
// fail.
func routed(t *testing.T, route server.Route) *fixture {
	route.To = "other"
	f := start(t, func(c *server.Config) { c.Routes = []server.Route{route} })
	f.engine.Broken["other"] = true
	return f
}

func (f *fixture) goesElsewhere(text string) bool {
	response, _ := f.do("POST", "/v1/chat/completions", chat(text, ""))
	return response.StatusCode != http.StatusOK
}

func TestARouteTakesItsShareOfMatchingRequests(t *testing.T) {
	f := routed(t, server.Route{Model: "m", Share: 0.25})
	taken := 0
	for i := 0; i < 40; i++ {
		if f.goesElsewhere("x") {
			taken++
		}
		if most := (i + 4) / 4; taken > most {
			t.Fatalf("%d of %d", taken, i+1)
		}
	}
	expect(t, taken, 10)
}

func TestARouteOfShortPromptsLeavesLongOnes(t *testing.T) {
	f := routed(t, server.Route{MaxPromptBytes: 1000})
	expect(t, f.goesElsewhere("x"), true)
	expect(t, f.goesElsewhere(strings.Repeat("x", 2000)), false)
}

func TestALoadRouteTakesRequestsUnderLoad(t *testing.T) {
	f := routed(t, server.Route{MinRequests: 2})
	expect(t, f.goesElsewhere("x"), false)
	held, leave := context.WithCancel(context.Background())
	defer leave()
	hold, _ := http.NewRequestWithContext(held, "POST", f.URL+"/v1/chat/completions",
		strings.NewReader(chat("wait", "")))
	hold.Header.Set("x-request-timeout", "20")
	done := make(chan struct{})
	go func() {
		if response, err := http.DefaultClient.Do(hold); err == nil {
			response.Body.Close()
		}
		close(done)
	}()
	eventually(t, func() bool { return f.engine.Open_.Load() == 1 })
	expect(t, f.goesElsewhere("x"), true)
	leave()
	<-done
	eventually(t, func() bool { return f.engine.Open_.Load() == 0 })
	expect(t, f.goesElsewhere("x"), false)
}

func TestANewConfigurationHasItsOwnRoutes(t *testing.T) {
	f := routed(t, server.Route{Model: "m"})
	expect(t, f.goesElsewhere("x"), true)
	config := &server.Config{Models: map[string]server.ModelConfig{"m": {Path: "x"}}}
	if err := config.Check(); err != nil {
		t.Fatal(err)
	}
	f.server.Configure(config)
	expect(t, f.goesElsewhere("x"), false)
}
