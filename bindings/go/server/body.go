package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// read decodes the body into a struct, and refuses fields that the server would ignore although they ask for something.
func (c *call) read(into interface{}) error {
	text, err := c.body()
	if err != nil {
		return err
	}
	return decodeBody(text, into)
}

// decodeBody decodes the text of a body like read.
func decodeBody(text []byte, into interface{}) error {
	if err := checkFields(text, into); err != nil {
		return err
	}
	return decode(text, into)
}

// body returns the whole body.
func (c *call) body() ([]byte, error) {
	text, err := readAll(http.MaxBytesReader(c, io.NopCloser(&countedBody{from: c.r.Body, call: c}), c.config.Limits.MaxBodyBytes))
	if err != nil {
		return nil, bodyFailure(c, err)
	}
	c.allowRead(time.Time{}) // from now on the server only waits for the client to disconnect
	if err := c.awaitDecoding(len(text)); err != nil {
		return nil, err
	}
	if !utf8.Valid(text) {
		return nil, invalid("", "the body is not UTF-8; encode it so")
	}
	return text, nil
}

// readAll reads to the end. Its buffer doubles, so that a large body is copied once on average, and a body that does not
// come takes no memory.
func readAll(from io.Reader) ([]byte, error) {
	text := make([]byte, 0, 4<<10)
	for {
		if len(text) == cap(text) {
			text = append(make([]byte, 0, 2*cap(text)), text...)
		}
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if err == io.EOF {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

const (
	// Bytes from which a body counts as large. Decoding one takes a processor for longer than a step of the engine.
	largeBodyBytes = 1 << 20
	// Time until the end of a connection has been noticed.
	leavingTime = 2 * time.Millisecond
)

// awaitDecoding waits until a body may be decoded: large ones one at a time, so that they leave processors to other
// requests. It fails if the client has left by then, since decoding does not end with its client.
func (c *call) awaitDecoding(numBytes int) error {
	if numBytes < largeBodyBytes {
		return nil
	}
	select {
	case <-c.ctx.Done():
	case <-time.After(leavingTime):
	}
	leave, err := c.server.largeBodies.enter(c.ctx)
	c.decoded = leave
	return err
}

// decode decodes JSON into a struct; its error names the field at fault.
func decode(text []byte, into interface{}) error {
	err := json.Unmarshal(text, into)
	var wrong *json.UnmarshalTypeError
	var failure *Failure
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failure):
		return failure
	case errors.As(err, &wrong):
		kind, _, _ := strings.Cut(wrong.Value, " ") // the value itself follows the space
		field := pathOf(wrong.Field, into)
		if field == "" {
			return invalid("", "the body must be a JSON object, not a JSON %s", kind)
		}
		return invalid(field, "%s cannot be a JSON %s; it must be %s", field, kind, kindOf(wrong.Type))
	}
	return invalid("", "the body is not JSON: %v", err)
}

// pathOf returns the path of a field in the body. Some versions of Go put the names of embedded structs before it.
func pathOf(field string, into interface{}) string {
	t := reflect.TypeOf(into).Elem()
	if t.Kind() != reflect.Struct {
		return field
	}
	names := fieldTypes(t)
	parts := strings.Split(field, ".")
	for i, part := range parts {
		if _, is := names[part]; is {
			return strings.Join(parts[i:], ".")
		}
	}
	return parts[len(parts)-1]
}

// kindOf returns the JSON that a type decodes, with its article.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "an integer"
}

func bodyFailure(c *call, err error) error {
	var tooLarge *http.MaxBytesError
	var failure *Failure
	c.Header().Set("Connection", "close") // the rest of the body is not read
	switch {
	case errors.As(err, &failure):
		return failure
	case errors.As(err, &tooLarge):
		return &Failure{Status: http.StatusRequestEntityTooLarge, Kind: "invalid_request_error",
			Message: fmt.Sprintf("the body is larger than %d bytes, the max_body_bytes of the configuration; shorten it",
				tooLarge.Limit)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Failure{Status: http.StatusRequestTimeout, Kind: "invalid_request_error",
			Message: fmt.Sprintf("the body did not arrive within %d seconds, the body_seconds of the configuration; send it faster",
				c.config.Limits.BodySeconds)}
	}
	return invalid("", "the body is incomplete: the connection ended")
}

// countedBody counts the bytes read by all running requests. A limit per body would not limit the sum of many
// bodies.
type countedBody struct {
	from io.Reader
	call *call
}

func (b *countedBody) Read(into []byte) (int, error) {
	n, err := b.from.Read(into)
	b.call.bodyBytes += int64(n)
	if atomic.AddInt64(&b.call.server.bodyBytes, int64(n)) > b.call.config.Limits.MaxBodiesBytes {
		return n, unavailable(time.Second, "the bodies of the running requests take %d bytes, which is the limit; send the request again "+
			"later", b.call.config.Limits.MaxBodiesBytes)
	}
	return n, err
}

// end releases the resources of a request.
func (c *call) end() {
	c.endDecoding()
	if c.opened != nil {
		c.opened.Close()
	}
	atomic.AddInt64(&c.server.bodyBytes, -c.bodyBytes)
}

// endDecoding lets the next large body be decoded.
func (c *call) endDecoding() {
	if c.decoded != nil {
		c.decoded()
	}
}
