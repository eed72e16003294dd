package quire

import (
	"time"

	"quire.dev/quire/internal/native"
)

// EventKind says what an event tells. A later library may have more: skip what is not known.
type EventKind int32

// The kinds of the C interface (quire/event.h).
const (
	EventStarted  = EventKind(native.QUIRE_EVENT_STARTED)
	EventProgress = EventKind(native.QUIRE_EVENT_PROGRESS) // another part of the prompt is done; only where asked for
	EventText     = EventKind(native.QUIRE_EVENT_TEXT)     // tokens and their text
	EventFinished = EventKind(native.QUIRE_EVENT_FINISHED) // the last one, of a job that came to its end
	EventError    = EventKind(native.QUIRE_EVENT_ERROR)    // the last one, of a job that failed: Err says why
	EventRewind   = EventKind(native.QUIRE_EVENT_REWIND)   // of what events had so far, KeptTokens and KeptBytes stand
	EventLog      = EventKind(native.QUIRE_EVENT_LOG)      // a line of the log, in a queue that follows it
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
	Kind          EventKind
	Text          string       // whole characters, never a piece of a stop text
	Tokens        []int32      // the ids that came with it
	LogProbs      []float32    // of each token; only where asked for, as the next two
	TopTokens     []int32      // the Request.TopLogProbs likeliest tokens at the place of each token, one row after another
	TopLogProbs   []float32    // that belong to TopTokens
	ProgressDone  int64        // of EventProgress: tokens of the prompt that are done
	ProgressTotal int64        // of EventProgress: tokens of the prompt
	Finish        FinishReason // of the last event: why the job ended
	Err           error        // of EventError: the *Error that ended the job
	FirstToken    int64        // the place of Tokens[0] among the tokens of the job
	KeptTokens    int64        // of EventRewind: tokens that stand
	KeptBytes     int64        // of EventRewind: bytes of text that stand
	Usage         *Usage       // of the last event: what the job took
	LogLevel      LogLevel     // of EventLog, whose line is Text
	LostLines     int64        // of EventLog: lines after it that found no room
	JobID         int64        // Job.ID of its job
	Index         int          // of its job among those that SubmitMany made
	UserData      uint64       // Request.UserData of its job
}

// LogLevel says how much of the log is told; a level includes those before it.
type LogLevel int32

// The levels of the C interface (quire/options.h).
const (
	LogOff     = LogLevel(native.QUIRE_LOG_OFF)
	LogError   = LogLevel(native.QUIRE_LOG_ERROR)
	LogWarning = LogLevel(native.QUIRE_LOG_WARNING)
	LogInfo    = LogLevel(native.QUIRE_LOG_INFO)
	LogDebug   = LogLevel(native.QUIRE_LOG_DEBUG)
)

// Usage is what a job took, and what ended it.
type Usage struct {
	StopToken           int32  // -1 where none ended it
	StopText            string // empty where none ended it
	PromptTokens        int64
	CachedTokens        int64 // of those, found in the cache
	NewTokens           int64
	DraftTokens         int64 // that speculation proposed
	AcceptedDraftTokens int64 // of those, the ones that stood
	Preemptions         int64
	TimeQueued          time.Duration
	TimePrompt          time.Duration
	TimeGenerate        time.Duration
}

func readUsage(f *figures[native.EventHandle]) *Usage {
	return &Usage{
		StopToken:           get(f, native.Quire_event_stop_token),
		StopText:            get(f, native.Quire_event_stop_text),
		PromptTokens:        get(f, native.Quire_event_prompt_tokens),
		CachedTokens:        get(f, native.Quire_event_cached_tokens),
		NewTokens:           get(f, native.Quire_event_new_tokens),
		DraftTokens:         get(f, native.Quire_event_draft_tokens),
		AcceptedDraftTokens: get(f, native.Quire_event_accepted_draft_tokens),
		Preemptions:         get(f, native.Quire_event_preemptions),
		TimeQueued:          time.Duration(get(f, native.Quire_event_time_queued_ns)),
		TimePrompt:          time.Duration(get(f, native.Quire_event_time_prompt_ns)),
		TimeGenerate:        time.Duration(get(f, native.Quire_event_time_generate_ns)),
	}
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
		Index:    int(get(f, native.Quire_event_index)),
	}
	switch event.Kind {
	case EventProgress:
		event.ProgressDone = get(f, native.Quire_event_progress_done)
		event.ProgressTotal = get(f, native.Quire_event_progress_total)
	case EventText, EventFinished, EventError:
		event.readText(f)
	case EventRewind:
		event.KeptTokens = get(f, native.Quire_event_kept_tokens)
		event.KeptBytes = get(f, native.Quire_event_kept_bytes)
	case EventLog:
		event.Text = get(f, native.Quire_event_text)
		event.LogLevel = LogLevel(get(f, native.Quire_event_log_level))
		event.LostLines = get(f, native.Quire_event_lost_lines)
	}
	if event.isLast() {
		event.Usage = readUsage(f)
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
	e.FirstToken = get(f, native.Quire_event_first_token)
	e.LogProbs = getAll(f, native.Quire_event_log_probs)
	if len(e.LogProbs) > 0 {
		e.TopTokens = getAll(f, native.Quire_event_top_tokens)
		e.TopLogProbs = getAll(f, native.Quire_event_top_log_probs)
	}
}
