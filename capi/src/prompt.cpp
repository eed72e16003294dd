#include "capi/src/prompt.h"

#include "capi/src/guard.h"

namespace quire::capi {

JobRequest read_request(quire_job_request* request, const CacheShare& cache) {
  RequestSettings settings = Pinned(request, "request")->read();
  JobRequest job = std::move(settings.job);
  if (settings.prompt_is_text) {
    job.prompt = cache.model->model->tokenizer().encode(
        settings.prompt_text,
        {.parse_special = settings.parse_special, .add_special_tokens = settings.add_special});
  }
  if (settings.queue.events != nullptr && settings.queue.runtime != cache.model->runtime) {
    throw Error(ErrorCode::invalid_argument, "queue: it belongs to another runtime than the cache");
  }
  job.queue = std::move(settings.queue.events);
  return job;
}

}  // namespace quire::capi
