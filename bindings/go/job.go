package quire

import (
	"context"
	"io"
	"sync/atomic"

	"quire.dev/quire/internal/native"
)

// Job is one submitted piece of work. Goroutines that call Next share its events; each is delivered once.
// Waiting for an event blocks a goroutine but no thread.
type Job struct {
	handle     *handle[native.JobHandle]
	dispatcher *dispatcher
	waiter     *waiter // nil if its events go to a Queue of the program
	over       uint32  // 1 once the final event was taken
}

// newJob takes ownership of a native job. If the Job is never closed, the garbage collector frees it and its
// waiter.
func newJob(submitted native.JobHandle, d *dispatcher, request *Request) *Job {
	if request.Queue != nil {
		return &Job{handle: own(submitted, native.Quire_job_free), dispatcher: d}
	}
	w := d.add(native.Quire_job_id(submitted, nil))
	owned := own(submitted, func(job native.JobHandle, e *native.ErrorHandle) int32 {
		freed := native.Quire_job_free(job, e)
		w.end()
		return freed
	})
	return &Job{handle: owned, dispatcher: d, waiter: w}
}

var waitEnd = int64(native.QUIRE_WAIT_END)

// Next takes the next event with text, tokens, progress or a rewind, or the final event; after that it
// returns io.EOF. A job that failed ends with its *Error. When the context is done, the wait ends but not the
// job.
func (j *Job) Next(ctx context.Context) (Event, error) {
	for {
		event, err := j.take(ctx)
		switch {
		case err != nil || event.Err != nil:
			return Event{}, firstOf(err, event.Err)
		case event.Kind != EventStarted:
			return event, nil
		}
	}
}

// take takes the next event of any kind.
func (j *Job) take(ctx context.Context) (Event, error) {
	taken := make([]native.EventHandle, 1)
	for {
		if err := ctx.Err(); err != nil {
			return Event{}, err
		}
		news := j.news()
		n, err := j.await(ctx, func(job native.JobHandle, timeout int64, cancel native.CancelHandle, e *native.ErrorHandle) int64 {
			return native.Quire_job_drain(job, timeout, cancel, taken, e)
		})
		switch {
		case err != nil:
			return Event{}, err
		case n > 0:
			event, err := takeEvent(taken[0])
			if event.isLast() {
				j.finish()
			}
			return event, err
		case n == waitEnd || atomic.LoadUint32(&j.over) != 0:
			j.finish() // the final event may have gone to a queue or to another goroutine
			return Event{}, io.EOF
		}
		if err := sleep(ctx, news); err != nil {
			return Event{}, err
		}
	}
}

// finish removes the job from the dispatcher.
func (j *Job) finish() {
	if atomic.SwapUint32(&j.over, 1) == 0 && j.waiter != nil {
		j.waiter.end()
	}
}

func (j *Job) news() <-chan struct{} {
	if j.waiter == nil {
		return nil
	}
	return j.waiter.next()
}

// await polls the job without waiting if the dispatcher reports its events; otherwise it waits in the
// library.
func (j *Job) await(ctx context.Context, ask func(job native.JobHandle, timeout int64, cancel native.CancelHandle,
	e *native.ErrorHandle) int64) (int64, error) {
	if j.waiter != nil {
		return with(j.handle, func(job native.JobHandle, e *native.ErrorHandle) int64 { return ask(job, 0, 0, e) })
	}
	return cancellable(ctx, func(cancel native.CancelHandle) (int64, error) {
		return with(j.handle, func(job native.JobHandle, e *native.ErrorHandle) int64 {
			return ask(job, forever, cancel, e)
		})
	})
}

// sleep waits for an event. Without a dispatcher the library has already waited.
func sleep(ctx context.Context, news <-chan struct{}) error {
	if news == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-news:
		return nil
	}
}

func firstOf(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// Wait waits for the job to end, without taking events. When the context is done, the wait ends but not the
// job.
func (j *Job) Wait(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		news := j.news()
		over, err := j.await(ctx, func(job native.JobHandle, timeout int64, cancel native.CancelHandle, e *native.ErrorHandle) int64 {
			return int64(native.Quire_job_wait(job, timeout, cancel, e))
		})
		if over == 1 || err != nil {
			return err
		}
		if err := sleep(ctx, news); err != nil {
			return err
		}
	}
}

// cancelWith cancels the job when the context is done, unless the job has ended before.
func (j *Job) cancelWith(ctx context.Context) {
	if ctx.Done() == nil {
		return
	}
	go func() {
		if j.Wait(ctx) != nil {
			_ = j.Cancel()
		}
	}()
}
