package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// Events of a background response, which clients stream from any place, again and while they are written.

// eventLog holds the events of one response. Its bytes count in the store of its owner.
type eventLog struct {
	mutex   sync.Mutex
	events  []loggedEvent // the one with the sequence number n is at the index n
	bytes   int64
	ended   bool
	failure error         // reason why the events end early; nil if they are complete, or cut off by a cancellation
	changed chan struct{} // closed at the next change
}

type loggedEvent struct {
	kind string
	text []byte
}

// Bytes that the log takes for each event besides its text.
const eventOverhead = 48

func newEventLog() *eventLog { return &eventLog{changed: make(chan struct{})} }

// add appends an event, unless the log has ended.
func (l *eventLog) add(kind string, value interface{}) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.ended {
		l.events = append(l.events, loggedEvent{kind, text})
		l.bytes += int64(len(text)) + eventOverhead
		l.wake()
	}
	return nil
}

// end ends the log. Only the first end counts.
func (l *eventLog) end(failure error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if !l.ended {
		l.ended, l.failure = true, failure
		l.wake()
	}
}

// wake lets the followers read. The caller holds the mutex.
func (l *eventLog) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *eventLog) size() int64 {
	if l == nil {
		return 0
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.bytes
}

// from returns the events from a sequence number on, whether no more come and why, and a channel that is closed at the
// next change.
func (l *eventLog) from(next int) (events []loggedEvent, ended bool, failure error, changed <-chan struct{}) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if next < len(l.events) {
		events = l.events[next:len(l.events):len(l.events)]
	}
	return events, l.ended, l.failure, l.changed
}

// follow sends the events from a sequence number on, and each further one as it is written.
func (l *eventLog) follow(ctx context.Context, w http.ResponseWriter, next int, beat time.Duration) error {
	out := newSSE(w)
	out.flush()
	timer := time.NewTimer(beat)
	defer timer.Stop()
	for {
		events, ended, failure, changed := l.from(next)
		for _, event := range events {
			if err := out.sendText(event.kind, string(event.text)); err != nil {
				return err
			}
		}
		next += len(events)
		if ended {
			return failure
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			if err := out.heartbeat(); err != nil {
				return err
			}
			timer.Reset(beat)
		}
	}
}
