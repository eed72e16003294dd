// Package otlp sends the spans of a server to a collector, with OTLP over HTTP in JSON
// (https://opentelemetry.io/docs/specs/otlp).
package otlp

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"quire.dev/quire/server"
)

// Options holds the settings of an exporter.
type Options struct {
	URL      string            // complete URL, such as http://collector:4318/v1/traces
	Headers  map[string]string // headers of each request
	Resource map[string]string // resource attributes such as service.name
	Interval time.Duration     // time between two batches; 0 means five seconds
	// Warnings about variables that are not followed.
	Warnings []string
	// Called at the first failure of a series of failed batches; may be nil.
	Failed func(error)
}

const (
	maxQueued = 2048 // spans; further ones are dropped
	maxBatch  = 512
	sendTime  = 10 * time.Second
)

// Exporter sends spans in batches from a goroutine of its own. Safe for concurrent use.
type Exporter struct {
	options Options
	client  http.Client
	spans   chan server.Span
	closing chan struct{}
	done    chan struct{}
	once    sync.Once
	failing bool // used only by the goroutine
}

// New starts an exporter.
func New(options Options) *Exporter {
	if options.Interval == 0 {
		options.Interval = 5 * time.Second
	}
	e := &Exporter{options: options, client: http.Client{Timeout: sendTime}, spans: make(chan server.Span, maxQueued),
		closing: make(chan struct{}), done: make(chan struct{})}
	go e.run()
	return e
}

// FromEnvironment reads the variables of OpenTelemetry's specification: OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, _HEADERS, _PROTOCOL, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_TRACES_EXPORTER and OTEL_SDK_DISABLED. It returns false if no spans shall be sent. Another protocol is a
// warning, because these variables are often set for all programs of a machine.
func FromEnvironment(get func(string) string) (Options, bool, error) {
	either := func(name string) string {
		if value := get("OTEL_EXPORTER_OTLP_TRACES_" + name); value != "" {
			return value
		}
		return get("OTEL_EXPORTER_OTLP_" + name)
	}
	options := Options{Resource: map[string]string{"service.name": "quire-server"}}
	options.URL = get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if base := get("OTEL_EXPORTER_OTLP_ENDPOINT"); options.URL == "" && base != "" {
		options.URL = strings.TrimRight(base, "/") + "/v1/traces"
	}
	if options.URL == "" || strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") || get("OTEL_TRACES_EXPORTER") == "none" {
		return options, false, nil
	}
	switch protocol := either("PROTOCOL"); protocol {
	case "", "http/json":
	case "grpc":
		options.Warnings = append(options.Warnings, "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, which is not supported: no spans are "+
			"sent; use http/json and the collector's port for HTTP, usually 4318")
		return options, false, nil
	default:
		options.Warnings = append(options.Warnings, fmt.Sprintf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, which is not supported: "+
			"spans are sent as http/json, which collectors of http/protobuf accept too", protocol))
	}
	if target, err := url.Parse(options.URL); err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return options, false, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %q is not a URL of a collector, such as http://localhost:4318", options.URL)
	}
	var err error
	if options.Headers, err = pairs("OTEL_EXPORTER_OTLP_HEADERS", either("HEADERS")); err != nil {
		return options, false, err
	}
	resource, err := pairs("OTEL_RESOURCE_ATTRIBUTES", get("OTEL_RESOURCE_ATTRIBUTES"))
	for name, value := range resource {
		options.Resource[name] = value
	}
	if name := get("OTEL_SERVICE_NAME"); name != "" {
		options.Resource["service.name"] = name
	}
	return options, err == nil, err
}

// pairs parses a=b,c=d with percent-encoded values.
func pairs(variable, text string) (map[string]string, error) {
	found := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, is := strings.Cut(pair, "=")
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if !is || err != nil || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("%s: %q is not NAME=VALUE", variable, pair)
		}
		found[strings.TrimSpace(name)] = plain
	}
	return found, nil
}

// Record queues a span, or drops it if the queue is full.
func (e *Exporter) Record(span server.Span) {
	select {
	case e.spans <- span:
	default:
	}
}

// Close sends the remaining spans, until ctx ends.
func (e *Exporter) Close(ctx context.Context) {
	e.once.Do(func() { close(e.closing) })
	select {
	case <-e.done:
	case <-ctx.Done():
	}
}

func (e *Exporter) run() {
	defer close(e.done)
	ticker := time.NewTicker(e.options.Interval)
	defer ticker.Stop()
	var batch []server.Span
	for {
		select {
		case span := <-e.spans:
			if batch = append(batch, span); len(batch) == maxBatch {
				batch = e.send(batch)
			}
		case <-ticker.C:
			batch = e.send(batch)
		case <-e.closing:
			for len(e.spans) > 0 {
				batch = append(batch, <-e.spans)
			}
			e.send(batch)
			return
		}
	}
}

// send always empties the batch: spans that the collector does not accept are lost.
func (e *Exporter) send(batch []server.Span) []server.Span {
	if len(batch) == 0 {
		return batch
	}
	err := e.post(batch)
	if err != nil && !e.failing && e.options.Failed != nil {
		e.options.Failed(err)
	}
	e.failing = err != nil
	return batch[:0]
}

func (e *Exporter) post(batch []server.Span) error {
	body, err := json.Marshal(request(e.options.Resource, batch))
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodPost, e.options.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range e.options.Headers {
		r.Header.Set(name, value)
	}
	response, err := e.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %s", response.Status)
	}
	return nil
}

type object = map[string]interface{}

// request builds an ExportTraceServiceRequest, with ids in hexadecimal and 64-bit numbers as text.
func request(resource map[string]string, batch []server.Span) object {
	spans := make([]object, len(batch))
	for i, span := range batch {
		spans[i] = spanObject(span)
	}
	attributes := []object{}
	for name, value := range resource {
		attributes = append(attributes, attribute(server.Attribute{Name: name, Value: value}))
	}
	return object{"resourceSpans": []object{{"resource": object{"attributes": attributes},
		"scopeSpans": []object{{"scope": object{"name": "quire.dev/quire/server"}, "spans": spans}}}}}
}

// Enumeration values of the protocol.
const (
	kindServer  = 2
	statusError = 2
)

func spanObject(span server.Span) object {
	attributes := make([]object, len(span.Attributes))
	for i, of := range span.Attributes {
		attributes[i] = attribute(of)
	}
	events := make([]object, len(span.Events))
	for i, event := range span.Events {
		events[i] = object{"name": event.Name, "timeUnixNano": nanoseconds(event.Time)}
	}
	out := object{"traceId": hex.EncodeToString(span.TraceID[:]), "spanId": hex.EncodeToString(span.SpanID[:]), "name": span.Name,
		"kind": kindServer, "startTimeUnixNano": nanoseconds(span.Start), "endTimeUnixNano": nanoseconds(span.End),
		"attributes": attributes, "events": events}
	if span.ParentID != [8]byte{} {
		out["parentSpanId"] = hex.EncodeToString(span.ParentID[:])
	}
	if span.State != "" {
		out["traceState"] = span.State
	}
	if span.Failed {
		out["status"] = object{"code": statusError}
	}
	return out
}

func nanoseconds(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }

func attribute(of server.Attribute) object {
	var value object
	switch v := of.Value.(type) {
	case int64:
		value = object{"intValue": strconv.FormatInt(v, 10)}
	case []string:
		values := make([]object, len(v))
		for i, text := range v {
			values[i] = object{"stringValue": text}
		}
		value = object{"arrayValue": object{"values": values}}
	default:
		value = object{"stringValue": fmt.Sprint(v)}
	}
	return object{"key": of.Name, "value": value}
}
