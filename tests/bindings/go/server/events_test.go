package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"quire.dev/quire/server"
)

// kinds returns the types of events, each once in a row, and checks their sequence numbers from `first` on.
func (f *fixture) kinds(events []string, first int) []string {
	f.t.Helper()
	var kinds []string
	for i, text := range events {
		event := f.object(text)
		expect(f.t, event["sequence_number"], first+i)
		kind := strings.TrimPrefix(event["type"].(string), "response.")
		if len(kinds) == 0 || kinds[len(kinds)-1] != kind {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// streamed returns the events of a stored response.
func (f *fixture) streamed(path string) []string {
	f.t.Helper()
	response, text := f.do("GET", path, "")
	expect(f.t, response.StatusCode, 200)
	expect(f.t, response.Header.Get("Content-Type"), "text/event-stream; charset=utf-8")
	var events []string
	for _, line := range strings.Split(text, "\n") {
		if data := strings.TrimPrefix(line, "data: "); data != line {
			events = append(events, data)
		}
	}
	return events
}

func (f *fixture) streamInBackground(input string) (path string, events []string) {
	f.t.Helper()
	events = f.stream("/v1/responses", `{"model":"m","background":true,"stream":true,"input":"`+input+`"}`)
	return "/v1/responses/" + at(f.object(events[0]), "response", "id").(string), events
}

func TestABackgroundResponseIsStreamedAndStreamedAgain(t *testing.T) {
	f := start(t, nil)
	path, events := f.streamInBackground("say yes")
	expect(t, f.kinds(events, 0), []string{"created", "queued", "in_progress", "output_item.added", "content_part.added",
		"output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed"})
	expect(t, at(f.object(events[0]), "response", "status"), "queued")
	expect(t, at(f.object(events[len(events)-1]), "response", "output", 0, "content", 0, "text"), "say yes")
	expect(t, f.get(path)["status"], "completed")
	expect(t, f.streamed(path+"?stream=true"), events)
	expect(t, f.streamed(path+"?stream=true&starting_after=4"), events[5:])
	expect(t, len(f.streamed(path+"?stream=true&starting_after=999")), 0)
	for _, after := range []string{"-1", "x", "99999999999999999999", "1.5"} {
		param, _, _ := f.refusal("GET", path+"?stream=true&starting_after="+after, "", 400)
		expect(t, param, "starting_after")
	}
	f.refusal("GET", "/v1/responses/resp_0?stream=true", "", 404)
}

func TestAStreamOfABackgroundResponseOutlivesItsClient(t *testing.T) {
	f := start(t, nil)
	request, _ := http.NewRequest("POST", f.URL+"/v1/responses",
		strings.NewReader(`{"model":"m","background":true,"stream":true,"input":"wait"}`))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 300)
	if _, err := response.Body.Read(first); err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	_, text, _ := strings.Cut(string(first), `"id":"`)
	path := "/v1/responses/" + text[:strings.IndexByte(text, '"')]
	eventually(t, func() bool { return f.get(path)["status"] == "in_progress" })
	follower := make(chan []string)
	go func() { follower <- f.streamed(path + "?stream=true&starting_after=1") }()
	expect(t, f.post(path+"/cancel", "")["status"], "cancelled")
	kinds := f.kinds(<-follower, 2) // the stream ends with the work
	expect(t, kinds[0], "in_progress")
}

func TestTheFailureOfAStreamedBackgroundResponseIsItsLastEvent(t *testing.T) {
	f := start(t, nil)
	path, events := f.streamInBackground("fail")
	last := f.object(events[len(events)-1])
	expect(t, []interface{}{last["type"], at(last, "response", "error", "code")}, []string{"response.failed", "server_error"})
	if strings.Contains(strings.Join(events, ""), "secret") {
		t.Error("an internal failure is revealed")
	}
	expect(t, f.get(path)["status"], "failed")
}

func TestEventsOfResponsesAreBoundedInBytes(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Limits.MaxStoredBytes = 100000 })
	path, events := f.streamInBackground("count") // for ever
	last := f.object(events[len(events)-1])
	if message := fmt.Sprint(at(last, "error", "message")); !strings.Contains(message, "no stored response") {
		t.Error(last)
	}
	bytes := 0
	for _, event := range events {
		bytes += len(event)
	}
	if bytes < 50000 || bytes > 110000 {
		t.Errorf("%d bytes of events were kept", bytes)
	}
	f.refusal("GET", path, "", 404)
	eventually(t, func() bool { return f.engine.Open_.Load() == 0 }) // its work has ended
}
