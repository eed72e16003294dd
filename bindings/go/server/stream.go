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

// sse writes events of a stream as they come, each in one piece, and a comment where nothing came for a while, so that no
// proxy takes the connection for dead. One goroutine at a time.
type sse struct {
	w       http.ResponseWriter
	flusher http.Flusher
	event   bytes.Buffer
}

func newSSE(w http.ResponseWriter) *sse {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	flusher, _ := w.(http.Flusher)
	return &sse{w: w, flusher: flusher}
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

// end writes the event that was begun.
func (s *sse) end() error {
	s.event.WriteString("\n\n")
	_, err := s.w.Write(s.event.Bytes())
	s.flush()
	return err
}

// chunk is an event that comes for each piece of text, of which all but the text is encoded once: encoding the whole of it
// takes longer than sending it.
type chunk struct{ before, after []byte }

// inText stands for the text while a chunk is encoded; nobody can have it in a name.
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

// indexed is a piece of one of several answers to a request, or that answer's end.
type indexed struct {
	choice int
	piece  Piece
	end    bool
	result Result
}

// relay hands every piece of all streams to `each`, one at a time, in the order in which they come, with heartbeats
// where nothing came for `beat`. The error is of the first stream that failed, of `each`, or of the call's context; it ends the
// other streams. Closing them is the caller's.
func (c *call) relay(streams []Stream, beat time.Duration, heartbeat func() error, each func(indexed) error) error {
	ctx := c.ctx
	r := &relayed{cancel: c.cancel, each: each, beat: beat, heartbeat: heartbeat, last: time.Now()}
	defer func() { c.traced.firstToken = r.first }()
	r.timer = time.AfterFunc(beat, r.tick)
	defer r.stop()
	if len(streams) == 1 { // no goroutine stands between a token and its write
		r.take(ctx, 0, streams[0])
		return r.failure()
	}
	var running sync.WaitGroup
	for choice, stream := range streams {
		running.Add(1)
		go func(choice int, stream Stream) {
			defer running.Done()
			defer r.survive()
			r.take(ctx, choice, stream)
		}(choice, stream)
	}
	running.Wait()
	return r.failure()
}

// relayed is what the streams of one request share.
type relayed struct {
	cancel    context.CancelFunc
	each      func(indexed) error
	heartbeat func() error
	beat      time.Duration

	mutex sync.Mutex
	timer *time.Timer
	last  time.Time // when something was written
	first time.Time // when the first piece came; zero: none did
	over  bool
	err   error
}

// take hands over the pieces of one stream until it ends.
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
		case !r.write(func() error { return r.hand(indexed{choice: choice, piece: piece}) }):
			return
		}
	}
}

// hand is a writer.
func (r *relayed) hand(piece indexed) error {
	if r.first.IsZero() {
		r.first = time.Now()
	}
	return r.each(piece)
}

// write has one writer at a time, and none after the first that failed.
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

// tick writes a heartbeat where nothing else was written.
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

// survive makes the panic of a goroutine the failure of its request alone.
func (r *relayed) survive() {
	if problem := recover(); problem != nil {
		r.write(func() error { return fmt.Errorf("a stream failed inside the server: %v", problem) })
	}
}

func (r *relayed) failure() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.err
}

// stop waits for a heartbeat that is being written.
func (r *relayed) stop() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.over = true
	r.timer.Stop()
}
