// Converts a quire_job_request to the engine's request.
#pragma once

#include <string_view>

#include "capi/src/cache_object.h"
#include "capi/src/request_object.h"

namespace quire::capi {

// Builds the engine's request for a cache. `counts_for` is one of Counts: every setting of the request must
// apply to it. Throws the errors of build_request, and ErrorCode::invalid_argument naming a setting that does
// not apply.
JobRequest read_request(quire_job_request* request, const CacheShare& cache, uint32_t applies_to);

// Returns whether the setting was made.
bool is_made(const RequestSettings& settings, std::string_view name);

// Throws ErrorCode::invalid_argument naming the first setting that does not apply to `what`.
void require_applicable(const RequestSettings& settings, uint32_t applies_to, std::string_view what);

}  // namespace quire::capi
