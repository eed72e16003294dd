package quire

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"quire.dev/quire/internal/native"
)

// Request says what a job generates. The zero value of a field takes the default.
type Request struct {
	Prompt       string
	Tokens       []int32 // the prompt as ids; where set, Prompt is not read
	ParseSpecial bool    // reads the text of special tokens in Prompt as those tokens
	MaxNewTokens int
	Temperature  *float64 // nil samples from the model's own distribution; 0 takes the likeliest token
	TopK         int
	TopP         float64
	MinP         float64
	Seed         uint64
	StopTexts    []string
}

// FinishReason says why a job ended; 0 while it has not.
type FinishReason int32

// The reasons of the C interface (quire/event.h).
const (
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
	Text   string       // whole characters, never a piece of a stop text
	Tokens []int32      // the ids that came with it
	Finish FinishReason // of the last event: why the job ended
}

// Job is one generation.
type Job struct {
	handle *handle[native.JobHandle]
	over   uint32 // 1 once the last event was taken
}

// Submit hands a request to the cache. Everything that can be refused is refused here.
func (c *Cache) Submit(request Request) (*Job, error) {
	created, err := call(native.Quire_job_request_create)
	if err != nil {
		return nil, err
	}
	owned := own(created, native.Quire_job_request_free)
	defer owned.close()
	if err := request.fill(owned.get()); err != nil {
		return nil, err
	}
	submitted, err := with(c.handle, func(cache native.CacheHandle, e *native.ErrorHandle) native.JobHandle {
		return native.Quire_job_submit(cache, owned.get(), e)
	})
	if err != nil {
		return nil, err
	}
	return &Job{handle: own(submitted, native.Quire_job_free)}, nil
}

// fill sets what the request has on its native counterpart.
func (r *Request) fill(request native.JobRequestHandle) error {
	type setter = func(e *native.ErrorHandle) int32
	var setters []setter
	set := func(wanted bool, function setter) {
		if wanted {
			setters = append(setters, function)
		}
	}
	set(r.Tokens == nil, func(e *native.ErrorHandle) int32 {
		return native.Quire_job_request_set_prompt_text(request, r.Prompt, e)
	})
	set(r.Tokens != nil, func(e *native.ErrorHandle) int32 {
		return native.Quire_job_request_set_prompt_tokens(request, r.Tokens, e)
	})
	set(r.ParseSpecial, func(e *native.ErrorHandle) int32 {
		return native.Quire_job_request_set_parse_special(request, 1, e)
	})
	set(r.MaxNewTokens != 0, func(e *native.ErrorHandle) int32 {
		return native.Quire_job_request_set_max_new_tokens(request, int32(r.MaxNewTokens), e)
	})
	set(r.Temperature != nil, func(e *native.ErrorHandle) int32 {
		return native.Quire_job_request_set_temperature(request, *r.Temperature, e)
	})
	set(r.TopK != 0, func(e *native.ErrorHandle) int32 {
		return native.Quire_job_request_set_top_k(request, int32(r.TopK), e)
	})
	set(r.TopP != 0, func(e *native.ErrorHandle) int32 {
		return native.Quire_job_request_set_top_p(request, r.TopP, e)
	})
	set(r.MinP != 0, func(e *native.ErrorHandle) int32 {
		return native.Quire_job_request_set_min_p(request, r.MinP, e)
	})
	set(true, func(e *native.ErrorHandle) int32 {
		return native.Quire_job_request_set_seed(request, r.Seed, e)
	})
	for i := range r.StopTexts {
		text := r.StopTexts[i]
		set(true, func(e *native.ErrorHandle) int32 {
			return native.Quire_job_request_add_stop_text(request, text, e)
		})
	}
	return firstError(setters...)
}

// How long a native wait lasts before the context is asked again; a waiting call holds an OS thread.
const waitSlice = 50 * time.Millisecond

// Next takes the next event with text or tokens, or the last event; io.EOF follows that one. A job that failed
// ends with its *Error. The context ends the wait and not the job.
func (j *Job) Next(ctx context.Context) (Event, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Event{}, err
		}
		if atomic.LoadUint32(&j.over) != 0 {
			return Event{}, io.EOF
		}
		polled, err := with(j.handle, func(job native.JobHandle, e *native.ErrorHandle) native.EventHandle {
			return native.Quire_job_poll(job, int64(waitSlice), e)
		})
		if err != nil {
			return Event{}, err
		}
		if polled == 0 {
			continue
		}
		event, kind, err := readEvent(polled)
		switch {
		case kind == native.QUIRE_EVENT_FINISHED || kind == native.QUIRE_EVENT_ERROR:
			atomic.StoreUint32(&j.over, 1)
			return event, err
		case kind == native.QUIRE_EVENT_TEXT || err != nil:
			return event, err
		}
	}
}

// readEvent copies an event and frees it. The error is why reading failed, or why the job did.
func readEvent(handle native.EventHandle) (event Event, kind int32, err error) {
	defer native.Quire_event_free(handle, nil)
	if kind, err = call(func(e *native.ErrorHandle) int32 { return native.Quire_event_type(handle, e) }); err != nil {
		return Event{}, kind, err
	}
	if kind == native.QUIRE_EVENT_ERROR {
		code := Code(native.Quire_event_error_code(handle, nil))
		return Event{}, kind, &Error{code, native.Quire_event_error_message(handle, nil)}
	}
	event.Text = native.Quire_event_text(handle, nil)
	event.Finish = FinishReason(native.Quire_event_finish_reason(handle, nil))
	event.Tokens, err = measured(func(out []int32, e *native.ErrorHandle) int64 {
		return native.Quire_event_tokens(handle, out, e)
	})
	return event, kind, err
}

// Cancel ends the job soon; its last event has the reason FinishCancelled.
func (j *Job) Cancel() error {
	_, err := with(j.handle, native.Quire_job_cancel)
	return err
}

// Close frees the job, and cancels it where it is not over.
func (j *Job) Close() error { return j.handle.close() }
