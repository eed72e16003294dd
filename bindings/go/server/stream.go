package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// sse writes events of a stream as they come, and a comment where nothing came for a while, so that no proxy takes
// the connection for dead. One goroutine writes.
type sse struct {
	w       http.ResponseWriter
	flusher http.Flusher
}

func newSSE(w http.ResponseWriter) *sse {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	flusher, _ := w.(http.Flusher)
	return &sse{w, flusher}
}

func (s *sse) send(event string, value interface{}) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.sendText(event, string(text))
}

func (s *sse) sendText(event, text string) error {
	if event != "" {
		if _, err := io.WriteString(s.w, "event: "+event+"\n"); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(s.w, "data: "+text+"\n\n"); err != nil {
		return err
	}
	s.flush()
	return nil
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
	err    error
}

// merge runs the streams of all choices and gives their pieces in the order in which they come. The channel closes
// after each stream has ended; a reader that stops early cancels ctx. Closing the streams is the caller's.
func merge(ctx context.Context, streams []Stream) <-chan indexed {
	out := make(chan indexed)
	var running sync.WaitGroup
	send := func(item indexed) bool {
		select {
		case out <- item:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for choice, stream := range streams {
		running.Add(1)
		go func(choice int, stream Stream) {
			defer running.Done()
			for {
				piece, err := stream.Next(ctx)
				if errors.Is(err, io.EOF) {
					send(indexed{choice: choice, end: true, result: stream.Result()})
					return
				}
				if err != nil {
					send(indexed{choice: choice, end: true, err: err})
					return
				}
				if !send(indexed{choice: choice, piece: piece}) {
					return
				}
			}
		}(choice, stream)
	}
	go func() {
		running.Wait()
		close(out)
	}()
	return out
}

// relay hands every piece to `each` until all streams ended, with heartbeats between. The error is of the first
// stream that failed, of `each`, or of ctx.
func relay(ctx context.Context, cancel context.CancelFunc, streams []Stream, beat time.Duration,
	heartbeat func() error, each func(indexed) error) error {
	pieces := merge(ctx, streams)
	defer func() {
		cancel()
		for range pieces { // until every stream is closed
		}
	}()
	timer := time.NewTicker(beat)
	defer timer.Stop()
	for {
		select {
		case item, more := <-pieces:
			if !more {
				return ctx.Err()
			}
			if item.err != nil {
				return item.err
			}
			if err := each(item); err != nil {
				return err
			}
			timer.Reset(beat)
		case <-timer.C:
			if err := heartbeat(); err != nil {
				return err
			}
		}
	}
}
