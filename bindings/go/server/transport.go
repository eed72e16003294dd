package server

import (
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Transport answers requests with a handler of this process, without a socket. Set it as the Transport of the
// http.Client of an official OpenAI or Anthropic library. Responses are streamed; closing a body ends its
// request.
func Transport(handler http.Handler) http.RoundTripper { return transport{handler} }

type transport struct{ handler http.Handler }

// RoundTrip runs the handler on a goroutine and returns once the handler has sent its header.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	recorder := &recorder{header: http.Header{}, writer: writer, begun: make(chan struct{})}
	served := request.Clone(request.Context())
	if served.Body == nil {
		served.Body = http.NoBody
	}
	go func() {
		defer served.Body.Close()
		// If the context of the request has ended, the body ends with an error, so that the reader does not see a
		// complete answer.
		defer func() { _ = writer.CloseWithError(request.Context().Err()) }()
		defer recorder.WriteHeader(http.StatusOK)
		t.handler.ServeHTTP(recorder, served)
	}()
	select {
	case <-recorder.begun:
	case <-request.Context().Done():
		reader.CloseWithError(request.Context().Err())
		return nil, request.Context().Err()
	}
	status := fmt.Sprintf("%d %s", recorder.status, http.StatusText(recorder.status))
	return &http.Response{Status: status, StatusCode: recorder.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: recorder.sent, Body: reader, ContentLength: -1, Request: request}, nil
}

// recorder is the ResponseWriter of one request. Its body is a pipe; writes fail once the reader has closed
// it.
type recorder struct {
	header http.Header
	sent   http.Header // copy of the header at the first byte
	status int
	once   sync.Once
	begun  chan struct{}
	writer *io.PipeWriter
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	r.once.Do(func() {
		r.status = status
		r.sent = r.header.Clone()
		close(r.begun)
	})
}

func (r *recorder) Write(text []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.writer.Write(text)
}

// Flush does nothing: a pipe has no buffer. It exists so that streams are written piece by piece.
func (r *recorder) Flush() {}
