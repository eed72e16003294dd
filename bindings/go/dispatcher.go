package quire

import (
	"context"
	"sync"

	"quire.dev/quire/internal/native"
)

// dispatcher waits in one place for the jobs of a runtime: as long as there are jobs one goroutine sits in the
// library, in a private queue, and wakes those that wait for one of them. It takes no event: what nobody reads stays
// with its job and under its EventPolicy.
type dispatcher struct {
	mutex   sync.Mutex
	queue   *handle[native.QueueHandle] // nil while there is nothing that uses it
	users   int                         // jobs, submits under way, and aliases
	waiting map[int64]*waiter
}

func newDispatcher() *dispatcher { return &dispatcher{waiting: map[int64]*waiter{}} }

// acquire gives the queue to a submit, which releases it or hands it on to its jobs. Without a queue create makes
// one; it is nil where the queue is there as long as the owner of the submit is in use.
func (d *dispatcher) acquire(create func() (native.QueueHandle, error)) (*handle[native.QueueHandle], error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.queue == nil && create == nil {
		return nil, closed("it is closed, or over")
	}
	if d.queue == nil {
		created, err := create()
		if err != nil {
			return nil, err
		}
		d.queue = own(created, native.Quire_queue_free)
		go d.run(d.queue)
	}
	d.users++
	return d.queue, nil
}

func (d *dispatcher) release() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.users--; d.users == 0 {
		_ = d.queue.close() // which ends the wait in it
		d.queue = nil
	}
}

// submit makes a native call with a request, whose events come to the dispatcher unless it names a queue.
func (d *dispatcher) submit(request *Request, create func() (native.QueueHandle, error),
	call func(filled native.JobRequestHandle) error) error {
	filled, err := request.native()
	if err != nil {
		return err
	}
	defer filled.close()
	if request.Queue != nil {
		return call(filled.get())
	}
	queue, err := d.acquire(create)
	if err != nil {
		return err
	}
	defer d.release()
	if _, err := with(queue, func(queue native.QueueHandle, e *native.ErrorHandle) int32 {
		return native.Quire_job_request_set_queue(filled.get(), queue, e)
	}); err != nil {
		return err
	}
	return call(filled.get())
}

// job submits a request of one job, which ends once the context is done.
func (d *dispatcher) job(ctx context.Context, request *Request, create func() (native.QueueHandle, error),
	submit func(filled native.JobRequestHandle) (native.JobHandle, error)) (*Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var job *Job
	err := d.submit(request, create, func(filled native.JobRequestHandle) error {
		submitted, err := submit(filled)
		if err == nil {
			job = newJob(submitted, d, request)
			job.cancelWith(ctx)
		}
		return err
	})
	return job, err
}

// submitting is a call that makes a job of a request, on the cache, alias or job that owns the handle.
func submitting[H ~uintptr](owner *handle[H],
	submit func(H, native.JobRequestHandle, *native.ErrorHandle) native.JobHandle) func(native.JobRequestHandle) (native.JobHandle, error) {
	return func(filled native.JobRequestHandle) (native.JobHandle, error) {
		return with(owner, func(value H, e *native.ErrorHandle) native.JobHandle { return submit(value, filled, e) })
	}
}

// add makes the waiter of a job that was submitted just now.
func (d *dispatcher) add(id int64) *waiter {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.users++
	w := &waiter{dispatcher: d, id: id}
	d.waiting[id] = w
	return w
}

func (d *dispatcher) remove(id int64) {
	d.mutex.Lock()
	_, known := d.waiting[id]
	delete(d.waiting, id)
	d.mutex.Unlock()
	if known {
		d.release()
	}
}

// Jobs that are told at once.
const maxReady = 256

func (d *dispatcher) run(queue *handle[native.QueueHandle]) {
	ids := make([]int64, maxReady)
	for {
		n, err := with(queue, func(queue native.QueueHandle, e *native.ErrorHandle) int64 {
			return native.Quire_queue_ready(queue, forever, 0, ids, e)
		})
		if err != nil || n <= 0 {
			return
		}
		d.mutex.Lock()
		for _, id := range ids[:n] {
			if w := d.waiting[id]; w != nil {
				w.wake()
			}
		}
		d.mutex.Unlock()
	}
}

// waiter lets any number of goroutines wait for news of one job.
type waiter struct {
	dispatcher *dispatcher
	id         int64

	mutex sync.Mutex
	news  chan struct{} // closed with the next news; nil where nobody waits
}

// next is closed when there is news after this call. Whoever waits asks the job once more before it does.
func (w *waiter) next() <-chan struct{} {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.news == nil {
		w.news = make(chan struct{})
	}
	return w.news
}

func (w *waiter) wake() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.news != nil {
		close(w.news)
		w.news = nil
	}
}

// end is the last news.
func (w *waiter) end() {
	w.dispatcher.remove(w.id)
	w.wake()
}
