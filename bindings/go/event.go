package quire

import "quire.dev/quire/internal/native"

// EventKind says what an event tells. A later library may have more: skip what is not known.
type EventKind int32

// The kinds of the C interface (quire/event.h).
const (
	EventStarted  = EventKind(native.QUIRE_EVENT_STARTED)
	EventPrefill  = EventKind(native.QUIRE_EVENT_PREFILL)  // another part of the prompt is done; only where asked for
	EventText     = EventKind(native.QUIRE_EVENT_TEXT)     // tokens and their text
	EventFinished = EventKind(native.QUIRE_EVENT_FINISHED) // the last one, of a job that came to its end
	EventError    = EventKind(native.QUIRE_EVENT_ERROR)    // the last one, of a job that failed: Err says why
)

// FinishReason says why a job ended; FinishNone while it has not.
type FinishReason int32

// The reasons of the C interface (quire/event.h).
const (
	FinishNone      = FinishReason(native.QUIRE_FINISH_NONE)
	StopToken       = FinishReason(native.QUIRE_FINISH_STOP_TOKEN)
	StopString      = FinishReason(native.QUIRE_FINISH_STOP_STRING)
	Length          = FinishReason(native.QUIRE_FINISH_LENGTH)
	MaxSeqLen       = FinishReason(native.QUIRE_FINISH_MAX_SEQ_LEN)
	Completed       = FinishReason(native.QUIRE_FINISH_COMPLETED)
	FinishCancelled = FinishReason(native.QUIRE_FINISH_CANCELLED)
	FinishError     = FinishReason(native.QUIRE_FINISH_ERROR)
)

// Event is one piece of a job's result.
type Event struct {
	Kind         EventKind
	Text         string       // whole characters, never a piece of a stop text
	Tokens       []int32      // the ids that came with it
	LogProbs     []float32    // of each token; only where asked for, as the next two
	TopTokens    []int32      // the Request.TopLogProbs likeliest tokens at the place of each token, one row after another
	TopLogProbs  []float32    // that belong to TopTokens
	PrefillDone  int64        // of EventPrefill: tokens of the prompt that are done
	PrefillTotal int64        // of EventPrefill: tokens of the prompt
	Finish       FinishReason // of the last event: why the job ended
	Err          error        // of EventError: the *Error that ended the job
	JobID        int64        // Job.ID of its job
	UserData     uint64       // Request.UserData of its job
}

// isLast tells whether nothing comes after the event.
func (e *Event) isLast() bool { return e.Kind == EventFinished || e.Kind == EventError }

// readEvent copies an event and frees it. The error is why reading failed, not why the job did. Each figure is a
// native call, so that only those are asked for that the event can have.
func readEvent(taken native.EventHandle) (Event, error) {
	defer native.Quire_event_free(taken, nil)
	f := &figures[native.EventHandle]{source: taken}
	event := Event{
		Kind:     EventKind(get(f, native.Quire_event_type)),
		JobID:    get(f, native.Quire_event_job_id),
		UserData: get(f, native.Quire_event_user_data),
	}
	switch event.Kind {
	case EventPrefill:
		event.PrefillDone = get(f, native.Quire_event_prefill_done)
		event.PrefillTotal = get(f, native.Quire_event_prefill_total)
	case EventText, EventFinished, EventError:
		event.readText(f)
	}
	if event.isLast() {
		event.Finish = FinishReason(get(f, native.Quire_event_finish_reason))
	}
	if event.Kind == EventError {
		event.Err = &Error{Code(get(f, native.Quire_event_error_code)), get(f, native.Quire_event_error_message)}
	}
	return event, f.err
}

func (e *Event) readText(f *figures[native.EventHandle]) {
	e.Text = get(f, native.Quire_event_text)
	e.Tokens = getAll(f, native.Quire_event_tokens)
	e.LogProbs = getAll(f, native.Quire_event_log_probs)
	if len(e.LogProbs) > 0 {
		e.TopTokens = getAll(f, native.Quire_event_top_tokens)
		e.TopLogProbs = getAll(f, native.Quire_event_top_log_probs)
	}
}
