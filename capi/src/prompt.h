// From a quire_job_request to the engine's request.
#pragma once

#include "capi/src/cache_object.h"
#include "capi/src/request_object.h"

namespace quire::capi {

// A copy with the prompt as token ids and with its queue, checked to be of the runtime of the cache.
// Refuses settings that do not count for that, one of Counts.
JobRequest read_request(quire_job_request* request, const CacheShare& cache, uint32_t counts_for);

// The prompt of a request for a model. Text is tokenized here, on the caller's thread. `words`, where it is
// not null, gets the text of the prompt, special tokens included, and of messages what their template wrote
// alone: a point stands for content.
TokenIds encode_prompt(const RequestSettings& settings, const ModelShare& model,
                       std::string* words = nullptr);
// Its messages, with the template of the request or the model's own. Throws ErrorCode::invalid_argument where
// it has none.
chat::RenderedChat render_conversation(const RequestSettings& settings, const ModelShare& model);

// Throws ErrorCode::invalid_argument naming the first setting that does not count for `what`.
void require_counting(const RequestSettings& settings, uint32_t counts_for, std::string_view what);

}  // namespace quire::capi
