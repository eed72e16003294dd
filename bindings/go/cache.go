package quire

import (
	"context"
	"time"

	"quire.dev/quire/internal/native"
)

// Cache is the key/value cache of a model with the scheduler that batches its jobs.
type Cache struct {
	handle     *handle[native.CacheHandle]
	dispatcher *dispatcher
}

// NewCache takes the memory and starts the scheduler.
func (m *Model) NewCache(options CacheOptions) (*Cache, error) {
	owned, err := options.native()
	if err != nil {
		return nil, err
	}
	defer owned.close()
	created, err := with(m.handle, func(model native.ModelHandle, e *native.ErrorHandle) native.CacheHandle {
		return native.Quire_cache_create(model, owned.get(), e)
	})
	if err != nil {
		return nil, err
	}
	return &Cache{own(created, native.Quire_cache_free), m.dispatcher}, nil
}

// CacheBytes is how much memory NewCache would take on the device of the model.
func (m *Model) CacheBytes(options CacheOptions) (int64, error) {
	owned, err := options.native()
	if err != nil {
		return 0, err
	}
	defer owned.close()
	return with(m.handle, func(model native.ModelHandle, e *native.ErrorHandle) int64 {
		return native.Quire_cache_required_bytes(model, owned.get(), e)
	})
}

// Close frees the cache; its jobs run on.
func (c *Cache) Close() error { return c.handle.close() }

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
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var job *Job
	err := c.dispatcher.submit(&request, c.newQueue, func(filled native.JobRequestHandle) error {
		submitted, err := with(c.handle, func(cache native.CacheHandle, e *native.ErrorHandle) native.JobHandle {
			return native.Quire_job_submit(cache, filled, e)
		})
		if err == nil {
			job = newJob(submitted, c.dispatcher, &request)
			job.cancelWith(ctx)
		}
		return err
	})
	return job, err
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

// Query tells how many tokens of the request's prompt a job would find in the cache. It waits for one step at
// most, up to the timeout; a negative one does not pass.
func (c *Cache) Query(request Request, timeout time.Duration) (int64, error) {
	filled, err := request.native()
	if err != nil {
		return 0, err
	}
	defer filled.close()
	return with(c.handle, func(cache native.CacheHandle, e *native.ErrorHandle) int64 {
		return native.Quire_cache_query(cache, filled.get(), int64(timeout), 0, e)
	})
}

// Pin keeps what the cache has of the request's prompt for as long as timeToLive, or until Unpin where that is 0;
// Unpin takes the number that this returns. It waits as Query does.
func (c *Cache) Pin(request Request, timeToLive, timeout time.Duration) (int64, error) {
	filled, err := request.native()
	if err != nil {
		return 0, err
	}
	defer filled.close()
	return with(c.handle, func(cache native.CacheHandle, e *native.ErrorHandle) int64 {
		return native.Quire_cache_pin(cache, filled.get(), int64(timeToLive), int64(timeout), 0, e)
	})
}

var forever = int64(native.QUIRE_WAIT_FOREVER)

// Score tells how likely each token is after those before it, as natural logarithms. The tokens are cut into
// windows of windowTokens, 0 is one of all; the first value of each is NaN. The context ends the wait.
func (c *Cache) Score(ctx context.Context, tokens []int32, windowTokens int64) ([]float32, error) {
	request := Request{Tokens: tokens}
	filled, err := request.native()
	if err != nil {
		return nil, err
	}
	defer filled.close()
	return cancellable(ctx, func(cancel native.CancelHandle) ([]float32, error) {
		return measuredWith(c.handle, func(cache native.CacheHandle, out []float32, e *native.ErrorHandle) int64 {
			return native.Quire_cache_score(cache, filled.get(), windowTokens, forever, cancel, out, e)
		})
	})
}

// Logits are the raw logits of one window, VocabSize for what follows each token. The context ends the wait.
func (c *Cache) Logits(ctx context.Context, tokens []int32) ([]float32, error) {
	request := Request{Tokens: tokens}
	filled, err := request.native()
	if err != nil {
		return nil, err
	}
	defer filled.close()
	return cancellable(ctx, func(cancel native.CancelHandle) ([]float32, error) {
		return measuredWith(c.handle, func(cache native.CacheHandle, out []float32, e *native.ErrorHandle) int64 {
			return native.Quire_cache_logits(cache, filled.get(), forever, cancel, out, e)
		})
	})
}
