package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"quire.dev/quire/server"
	"quire.dev/quire/server/otlp"
)

// collector records the spans that it receives, decoded as an OpenTelemetry collector decodes them.
type collector struct {
	*httptest.Server
	mutex  sync.Mutex
	status int
	spans  []collected
	seen   http.Header
	path   string
	names  map[string]string // attributes of the resource
}

type value struct {
	String string                   `json:"stringValue"`
	Int    string                   `json:"intValue"`
	Array  struct{ Values []value } `json:"arrayValue"`
}

type collected struct {
	TraceID, SpanID, ParentSpanID, TraceState, Name string
	Kind                                            int
	StartTimeUnixNano, EndTimeUnixNano              string
	Attributes                                      []struct {
		Key   string
		Value value
	}
	Events []struct{ Name, TimeUnixNano string }
	Status struct{ Code int }
}

func (c collected) attribute(name string) value {
	for _, of := range c.Attributes {
		if of.Key == name {
			return of.Value
		}
	}
	return value{}
}

func newCollector(t *testing.T) *collector {
	c := &collector{names: map[string]string{}, status: http.StatusOK}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var body struct {
			ResourceSpans []struct {
				Resource struct {
					Attributes []struct {
						Key   string
						Value value
					}
				}
				ScopeSpans []struct{ Spans []collected }
			}
		}
		if err := json.Unmarshal(text, &body); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.seen, c.path = r.Header, r.URL.Path
		for _, resource := range body.ResourceSpans {
			for _, of := range resource.Resource.Attributes {
				c.names[of.Key] = of.Value.String
			}
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
		w.WriteHeader(c.status)
	}))
	t.Cleanup(c.Close)
	return c
}

// traced starts a server that sends spans to the collector. The returned function returns all spans.
func traced(t *testing.T, variables map[string]string) (*fixture, func() []collected) {
	c := newCollector(t)
	if variables["OTEL_EXPORTER_OTLP_ENDPOINT"] == "" {
		variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = c.URL
	}
	options, wanted, err := otlp.FromEnvironment(func(name string) string { return variables[name] })
	if err != nil || !wanted {
		t.Fatal(wanted, err)
	}
	exporter := otlp.New(options)
	f := start(t, nil)
	f.server.Trace(exporter)
	return f, func() []collected {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		exporter.Close(ctx)
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if len(c.spans) > 0 && (c.path != "/v1/traces" || c.seen.Get("Content-Type") != "application/json") {
			t.Errorf("spans came to %s as %s", c.path, c.seen.Get("Content-Type"))
		}
		for name, wanted := range map[string]string{"service.name": variables["OTEL_SERVICE_NAME"]} {
			if wanted != "" && c.names[name] != wanted {
				t.Errorf("%s is %q", name, c.names[name])
			}
		}
		if wanted := variables["wanted header"]; wanted != "" && c.seen.Get("x-tenant") != wanted {
			t.Errorf("x-tenant is %q", c.seen.Get("x-tenant"))
		}
		return c.spans
	}
}

func (f *fixture) send(path, body, parent string) {
	f.t.Helper()
	request, _ := http.NewRequest("POST", f.URL+path, strings.NewReader(body))
	request.Header.Set("traceparent", parent)
	request.Header.Set("tracestate", "vendor=1")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		f.t.Fatal(err)
	}
	_, _ = io.ReadAll(response.Body)
	response.Body.Close()
}

const (
	traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID = "00f067aa0ba902b7"
	secret   = "the word that no span may hold"
)

func TestASpanContinuesTheClientsTraceAndCountsTokens(t *testing.T) {
	f, spans := traced(t, map[string]string{"OTEL_SERVICE_NAME": "books", "wanted header": "a b",
		"OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=a%20b, other=1"})
	before := time.Now()
	f.send("/v1/chat/completions", `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"say `+secret+`"}]}`,
		"00-"+traceID+"-"+parentID+"-01")
	found := spans()
	if len(found) != 1 {
		t.Fatalf("%d spans", len(found))
	}
	span := found[0]
	if span.TraceID != traceID || span.ParentSpanID != parentID || span.TraceState != "vendor=1" || len(span.SpanID) != 16 ||
		span.SpanID == parentID {
		t.Errorf("%+v", span)
	}
	if span.Name != "chat m" || span.Kind != 2 || span.Status.Code != 0 {
		t.Errorf("%+v", span)
	}
	if span.attribute("gen_ai.request.model").String != "m" || span.attribute("http.response.status_code").Int != "200" {
		t.Errorf("%+v", span.Attributes)
	}
	if span.attribute("gen_ai.usage.input_tokens").Int == "" || span.attribute("gen_ai.usage.cache_read.input_tokens").Int != "2" {
		t.Errorf("%+v", span.Attributes)
	}
	if reasons := span.attribute("gen_ai.response.finish_reasons").Array.Values; len(reasons) != 1 || reasons[0].String != "stop" {
		t.Errorf("%+v", reasons)
	}
	at := func(text string) time.Time {
		nanoseconds, err := json.Number(text).Int64()
		if err != nil {
			t.Error(err)
		}
		return time.Unix(0, nanoseconds)
	}
	if len(span.Events) != 1 || span.Events[0].Name != "first token" {
		t.Fatalf("%+v", span.Events)
	}
	first := at(span.Events[0].TimeUnixNano)
	if from, to := at(span.StartTimeUnixNano), at(span.EndTimeUnixNano); from.Before(before) || first.Before(from) || to.Before(first) {
		t.Errorf("from %v, first %v, to %v", from, first, to)
	}
	if text, _ := json.Marshal(found); strings.Contains(string(text), secret) {
		t.Error("a span holds text of a prompt or an answer")
	}
}

func TestATraceBeginsIfTheClientSendsNone(t *testing.T) {
	parents := []string{"", "nonsense", "00-" + traceID + "-" + parentID, "ff-" + traceID + "-" + parentID + "-01",
		"00-" + strings.ToUpper(traceID) + "-" + parentID + "-01", "00-" + strings.Repeat("0", 32) + "-" + parentID + "-01",
		"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01", "00-" + traceID + "-" + parentID + "-01-more"}
	f, spans := traced(t, map[string]string{})
	for _, parent := range parents {
		f.send("/v1/completions", `{"model":"m","prompt":"say a"}`, parent)
	}
	found := spans()
	if len(found) != len(parents) {
		t.Fatalf("%d spans", len(found))
	}
	ids := map[string]bool{}
	for i, span := range found {
		ids[span.TraceID] = true
		if span.TraceID == traceID || span.ParentSpanID != "" || span.TraceState != "" {
			t.Errorf("%q: %+v", parents[i], span)
		}
	}
	if len(ids) != len(parents) {
		t.Errorf("%d traces of %d requests", len(ids), len(parents))
	}
}

func TestUnsampledRequestsAndOtherRoutesMakeNoSpan(t *testing.T) {
	f, spans := traced(t, map[string]string{})
	f.send("/v1/completions", `{"model":"m","prompt":"say a"}`, "00-"+traceID+"-"+parentID+"-00")
	f.send("/v1/tokenize", `{"model":"m","prompt":"say a"}`, "")
	f.do("GET", "/metrics", "")
	f.send("/v1/completions", `{"model":"m","prompt":"fail"}`, "cc-"+traceID+"-"+parentID+"-01-later")
	found := spans()
	if len(found) != 1 || found[0].TraceID != traceID || found[0].Status.Code != 2 {
		t.Fatalf("%+v", found)
	}
}

func TestAnUnreachableCollectorDelaysNoRequest(t *testing.T) {
	told := 0
	exporter := otlp.New(otlp.Options{URL: "http://127.0.0.1:1/v1/traces", Interval: time.Millisecond, Failed: func(error) { told++ }})
	for i := 0; i < 100000; i++ {
		exporter.Record(server.Span{Name: "x"})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	exporter.Close(ctx)
	if ctx.Err() != nil || told != 1 {
		t.Errorf("told %d times, %v", told, ctx.Err())
	}
}

func TestTheEnvironmentConfiguresTheCollector(t *testing.T) {
	for _, one := range []struct {
		variables map[string]string
		url       string // "" sends no spans
		refused   string
	}{
		{map[string]string{}, "", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, "http://c:4318/v1/traces", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://d/x"}, "https://d/x", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}, "", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, "", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "", "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4317", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, "", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "http://c/v1/traces", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "a"}, "", "OTEL_EXPORTER_OTLP_HEADERS"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_RESOURCE_ATTRIBUTES": "a=%zz"}, "", "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		options, wanted, err := otlp.FromEnvironment(func(name string) string { return one.variables[name] })
		if wanted != (one.url != "") || wanted && options.URL != one.url {
			t.Errorf("%v: %v %q", one.variables, wanted, options.URL)
		}
		protocol := one.variables["OTEL_EXPORTER_OTLP_PROTOCOL"] + one.variables["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"]
		if warned := strings.Contains(strings.Join(options.Warnings, " "), "OTLP_PROTOCOL is"); warned != (protocol != "") {
			t.Errorf("%v: %q", one.variables, options.Warnings)
		}
		if (err != nil) != (one.refused != "") || err != nil && !strings.Contains(err.Error(), one.refused) {
			t.Errorf("%v: %v", one.variables, err)
		}
	}
}
