package quire

import (
	"context"

	"quire.dev/quire/internal/native"
)

// Shutdown ends every job with Closed and refuses what comes later. It waits for the step in progress, where a
// device hangs no longer than CloseTimeout. Events and figures can still be read.
func (c *Cache) Shutdown() error {
	_, err := with(c.handle, func(cache native.CacheHandle, e *native.ErrorHandle) int32 {
		return native.Quire_cache_close(cache, forever, 0, e)
	})
	return err
}

// Submit hands a request to the cache. Everything that can be refused is refused here.
func (c *Cache) Submit(request Request) (*Job, error) {
	return c.SubmitContext(context.Background(), request)
}

// SubmitContext hands a request to the cache; once the context is done the job is cancelled.
func (c *Cache) SubmitContext(ctx context.Context, request Request) (*Job, error) {
	return c.dispatcher.job(ctx, &request, c.newQueue, submitting(c.handle, native.Quire_job_submit))
}

func (c *Cache) newQueue() (native.QueueHandle, error) {
	return with(c.handle, native.Quire_cache_create_queue)
}

// SubmitMany hands over n copies of a request, all or none: completions of one prompt, which is computed once.
// Their seeds count up from that of the request.
func (c *Cache) SubmitMany(request Request, n int) ([]*Job, error) {
	var submitted []native.JobHandle
	if n > 0 {
		submitted = make([]native.JobHandle, n)
	}
	jobs := make([]*Job, len(submitted))
	err := c.dispatcher.submit(&request, c.newQueue, func(filled native.JobRequestHandle) error {
		_, err := with(c.handle, func(cache native.CacheHandle, e *native.ErrorHandle) int32 {
			return native.Quire_job_submit_many(cache, filled, submitted, e)
		})
		for i := range jobs {
			if err == nil {
				jobs[i] = newJob(submitted[i], c.dispatcher, &request)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

var forever = int64(native.QUIRE_WAIT_FOREVER)
