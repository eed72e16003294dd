package quire

import (
	"context"
	"sync"

	"quire.dev/quire/internal/native"
)

// dispatcher waits for all jobs of a runtime. While there are jobs, one goroutine waits in the library on a
// private queue, and wakes the goroutines that wait for one of the jobs. It takes no event: events that are
// not read stay with their job, subject to its EventPolicy.
type dispatcher struct {
	mutex   sync.Mutex
	queue   *handle[native.QueueHandle] // nil while it has no users
	users   int                         // jobs, running submits, and aliases
	waiting map[int64]*waiter
}

func newDispatcher() *dispatcher { return &dispatcher{waiting: map[int64]*waiter{}} }

// acquire returns the queue for a submit, which releases it later or passes it on to its jobs. If there is no
// queue, create makes one. create is nil if the queue exists as long as the owner of the submit is in use.
func (d *dispatcher) acquire(create func() (native.QueueHandle, error)) (*handle[native.QueueHandle], error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.queue == nil && create == nil {
		return nil, closed("the job is closed or has ended")
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
		_ = d.queue.close() // ends the goroutine's wait
		d.queue = nil
	}
}

// submit makes a native call with a request. Its events go to the dispatcher, unless the request names a
// queue.
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

// job submits a request for one job, which is cancelled when the context is done.
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

// submitting returns a function that submits a request on the cache, alias or job of the handle.
func submitting[H ~uintptr](owner *handle[H],
	submit func(H, native.JobRequestHandle, *native.ErrorHandle) native.JobHandle) func(native.JobRequestHandle) (native.JobHandle, error) {
	return func(filled native.JobRequestHandle) (native.JobHandle, error) {
		return with(owner, func(value H, e *native.ErrorHandle) native.JobHandle { return submit(value, filled, e) })
	}
}

// add creates the waiter of a job that was just submitted.
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

// Number of jobs that one call can report.
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

// waiter lets any number of goroutines wait for events of one job.
type waiter struct {
	dispatcher *dispatcher
	id         int64

	mutex sync.Mutex
	news  chan struct{} // closed at the next event; nil if no goroutine waits
}

// next returns a channel that is closed at an event after this call. The caller must check the job once more
// before it waits.
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

// end removes the waiter from the dispatcher and wakes all goroutines.
func (w *waiter) end() {
	w.dispatcher.remove(w.id)
	w.wake()
}
