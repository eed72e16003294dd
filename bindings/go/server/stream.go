package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// sse writes the events of a stream, each in a single write. After a silent interval it writes a comment, so
// that proxies keep the connection. For one goroutine at a time.
type sse struct {
	w       http.ResponseWriter
	flusher http.Flusher
	event   bytes.Buffer
}

func newSSE(w http.ResponseWriter) *sse {
	return &sse{w: w, flusher: beginStream(w, "text/event-stream; charset=utf-8")}
}

// beginStream sends the headers of an answer that no proxy may keep or buffer.
func beginStream(w http.ResponseWriter, contentType string) http.Flusher {
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	flusher, _ := w.(http.Flusher)
	return flusher
}

func (s *sse) send(event string, value interface{}) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.sendText(event, string(text))
}

func (s *sse) sendText(event, text string) error {
	s.event.Reset()
	if event != "" {
		s.event.WriteString("event: ")
		s.event.WriteString(event)
		s.event.WriteByte('\n')
	}
	s.event.WriteString("data: ")
	s.event.WriteString(text)
	return s.end()
}

// end writes the started event.
func (s *sse) end() error {
	s.event.WriteString("\n\n")
	_, err := s.w.Write(s.event.Bytes())
	s.flush()
	return err
}

// chunk is an event for pieces of text. Everything but the text is encoded once, since encoding the whole
// event takes longer than sending it.
type chunk struct{ before, after []byte }

// inText is a random word. Where it is in an encoded event, a chunk is cut to take its text.
var inText = newID("text_")

// encode encodes the chunk from an event whose text is inText.
func (c *chunk) encode(value interface{}) error {
	whole, err := json.Marshal(value)
	if err == nil {
		c.before, c.after, _ = bytes.Cut(whole, []byte(`"`+inText+`"`))
	}
	return err
}

func (s *sse) sendChunk(c *chunk, text string) error {
	quoted, err := json.Marshal(text)
	if err != nil {
		return err
	}
	s.event.Reset()
	s.event.WriteString("data: ")
	s.event.Write(c.before)
	s.event.Write(quoted)
	s.event.Write(c.after)
	return s.end()
}

func (s *sse) heartbeat() error {
	_, err := io.WriteString(s.w, ": still working\n\n")
	s.flush()
	return err
}

func (s *sse) flush() {
	if s.flusher != nil {
		s.flusher.Flush()
	}
}

// indexed is a piece of one of several answers to a request, or the end of that answer.
type indexed struct {
	choice int
	piece  Piece
	end    bool
	result Result
}

// relay passes every piece of all streams to `each`, one at a time in the order of arrival, and calls
// heartbeat after each silent interval of `beat`. It returns the first error of a stream, of `each`, or of
// the call's context; that error ends the other streams. The caller closes the streams.
func (c *call) relay(streams []Stream, beat time.Duration, heartbeat func() error, each func(indexed) error) error {
	ctx := c.ctx
	r := &relayed{cancel: c.cancel, each: each, beat: beat, heartbeat: heartbeat, last: time.Now()}
	defer func() { c.traced.firstToken = r.first }()
	r.timer = time.AfterFunc(beat, r.tick)
	defer r.stop()
	if len(streams) == 1 { // no goroutine switch between a token and its write
		r.take(ctx, 0, streams[0])
		return r.failure()
	}
	var running sync.WaitGroup
	for choice, stream := range streams {
		running.Add(1)
		go func(choice int, stream Stream) {
			defer running.Done()
			defer r.recoverPanic()
			r.take(ctx, choice, stream)
		}(choice, stream)
	}
	running.Wait()
	return r.failure()
}

// relayed is the state that the streams of one request share.
type relayed struct {
	cancel    context.CancelFunc
	each      func(indexed) error
	heartbeat func() error
	beat      time.Duration

	mutex sync.Mutex
	timer *time.Timer
	last  time.Time // time of the last write
	first time.Time // time of the first piece; zero if there was none
	over  bool
	err   error
}

// take passes on the pieces of one stream until it ends.
func (r *relayed) take(ctx context.Context, choice int, stream Stream) {
	for {
		piece, err := stream.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			r.write(func() error { return r.each(indexed{choice: choice, end: true, result: stream.Result()}) })
			return
		case err != nil:
			r.write(func() error { return err })
			return
		case !r.write(func() error { return r.passOn(indexed{choice: choice, piece: piece}) }):
			return
		}
	}
}

// passOn passes on a piece; the caller holds the lock.
func (r *relayed) passOn(piece indexed) error {
	if r.first.IsZero() {
		r.first = time.Now()
	}
	return r.each(piece)
}

// write runs one writer at a time, and none after the first failure.
func (r *relayed) write(writer func() error) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.err != nil || r.over {
		return false
	}
	if r.err = writer(); r.err != nil {
		r.cancel()
	}
	r.last = time.Now()
	return r.err == nil
}

// tick writes a heartbeat if nothing else was written.
func (r *relayed) tick() {
	r.mutex.Lock()
	silent := time.Since(r.last)
	r.mutex.Unlock()
	if silent >= r.beat {
		if !r.write(r.heartbeat) {
			return
		}
		silent = 0
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !r.over {
		r.timer.Reset(r.beat - silent)
	}
}

// recoverPanic turns the panic of a goroutine into a failure of its request.
func (r *relayed) recoverPanic() {
	if problem := recover(); problem != nil {
		r.write(func() error { return fmt.Errorf("a stream failed inside the server: %v", problem) })
	}
}

func (r *relayed) failure() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.err
}

// stop waits for a running heartbeat.
func (r *relayed) stop() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.over = true
	r.timer.Stop()
}
