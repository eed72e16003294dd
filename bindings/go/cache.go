package quire

import "quire.dev/quire/internal/native"

func (c *Cache) newQueue() (native.QueueHandle, error) {
	return with(c.handle, native.Quire_cache_create_queue)
}

// SubmitMany submits n copies of a request, all or none, as completions of one prompt, which is computed
// once. Their seeds count up from the seed of the request.
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
