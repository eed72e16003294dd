package quire

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"quire.dev/quire/internal/native"
)

// Job is one generation. Events are shared by those that call Next; each is given once.
type Job struct {
	handle *handle[native.JobHandle]
	over   uint32 // 1 once the last event was taken
}

func newJob(submitted native.JobHandle) *Job {
	return &Job{handle: own(submitted, native.Quire_job_free)}
}

// How long a native wait lasts before the context is asked again; a waiting call holds an OS thread.
const waitSlice = 50 * time.Millisecond

// Next takes the next event with text, tokens or progress, or the last event; io.EOF follows that one. A job that
// failed ends with its *Error. The context ends the wait and not the job.
func (j *Job) Next(ctx context.Context) (Event, error) {
	for finished := false; ; {
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
			// Nothing behind the end: the last event went to a queue or to another goroutine.
			if finished {
				atomic.StoreUint32(&j.over, 1)
			} else if finished, err = j.wait(0); err != nil {
				return Event{}, err
			}
			continue
		}
		event, err := readEvent(polled)
		if event.isLast() {
			atomic.StoreUint32(&j.over, 1)
		}
		switch {
		case err != nil || event.Err != nil:
			return Event{}, firstOf(err, event.Err)
		case event.Kind == EventText || event.Kind == EventPrefill || event.isLast():
			return event, nil
		}
	}
}

func firstOf(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func (j *Job) wait(timeout time.Duration) (bool, error) {
	answer, err := with(j.handle, func(job native.JobHandle, e *native.ErrorHandle) int32 {
		return native.Quire_job_wait(job, int64(timeout), e)
	})
	return answer == 1, err
}

// Wait waits for the job to end, taking no event. The context ends the wait and not the job.
func (j *Job) Wait(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if over, err := j.wait(waitSlice); over || err != nil {
			return err
		}
	}
}

// Cancel ends the job soon; its last event has the reason FinishCancelled.
func (j *Job) Cancel() error { return j.do(native.Quire_job_cancel) }

// Close frees the job, and cancels it where it is not over. It never waits.
func (j *Job) Close() error { return j.handle.close() }

// Pause sets the job aside until Resume; it keeps its room in the cache as long as others need none.
func (j *Job) Pause() error { return j.do(native.Quire_job_pause) }

// Resume lets a paused job go on.
func (j *Job) Resume() error { return j.do(native.Quire_job_resume) }

// SetPriority changes Request.Priority.
func (j *Job) SetPriority(priority int) error {
	return j.do(numbered(native.Quire_job_set_priority, narrow(priority)))
}

// Rewind takes generated tokens back, all but the first newTokens, and lets the job go on from there; events are
// not taken back.
func (j *Job) Rewind(newTokens int) error {
	return j.do(numbered(native.Quire_job_rewind, narrow(newTokens)))
}

func (j *Job) do(action func(native.JobHandle, *native.ErrorHandle) int32) error {
	_, err := with(j.handle, action)
	return err
}

// Fork makes a second job that goes on from the tokens of this one. Of the request count Seed, UserData, Queue
// and MaxNewTokens.
func (j *Job) Fork(request Request) (*Job, error) {
	filled, err := request.native()
	if err != nil {
		return nil, err
	}
	defer filled.close()
	forked, err := with(j.handle, func(job native.JobHandle, e *native.ErrorHandle) native.JobHandle {
		return native.Quire_job_fork(job, filled.get(), e)
	})
	if err != nil {
		return nil, err
	}
	return newJob(forked), nil
}

// ID is a number that no other job of the cache has or will have: Event.JobID.
func (j *Job) ID() (int64, error) { return with(j.handle, native.Quire_job_id) }

// Explain is one line for a person: why the job waits, what it does, or how it ended.
func (j *Job) Explain() (string, error) {
	text, err := measuredWith(j.handle, native.Quire_job_explain)
	return string(text), err
}

// Scores are, of a finished KindScore job, the natural logarithms of the probability of each token of the prompt;
// NaN for the first.
func (j *Job) Scores() ([]float32, error) { return measuredWith(j.handle, native.Quire_job_scores) }

// RawLogits are, of a finished KindScore job with Request.RawLogits, those for what follows each token.
func (j *Job) RawLogits() ([]float32, error) {
	return measuredWith(j.handle, native.Quire_job_raw_logits)
}

// Embedding is the vector of a finished KindEmbed job.
func (j *Job) Embedding() ([]float32, error) {
	return measuredWith(j.handle, native.Quire_job_embedding)
}
