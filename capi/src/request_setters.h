// Common parts of the setters of a request.
#pragma once

#include <utility>

#include "capi/src/arguments.h"
#include "capi/src/request_object.h"

namespace quire::capi {

// Implements a setter: `apply` checks and then sets, and the setting is recorded.
template <typename Change>
int32_t set(quire_job_request* request, Setting setting, quire_error** error, Change&& apply) noexcept {
  return set_option(request, "request", error, [&](RequestSettings& settings) {
    settings.made.reserve(settings.made.size() + 1);
    replace_parameter(setting.parameter, [&] { apply(settings); });
    settings.made.push_back(setting);
  });
}

// Sets one member of the engine's request to a checked value.
template <typename T, typename Value>
int32_t set_field(quire_job_request* request, Setting setting, quire_error** error, T JobRequest::*field,
                  Value&& value) {
  return set(request, setting, error, [&](RequestSettings& settings) { settings.job.*field = value(); });
}

template <typename T, typename Value>
int32_t set_sampling(quire_job_request* request, Setting setting, quire_error** error,
                     T SamplingSettings::*field, Value&& value) {
  return set(request, setting, error,
             [&](RequestSettings& settings) { settings.job.sampling.*field = value(); });
}

inline TokenIds tokens_argument(const int32_t* tokens, size_t num_tokens, size_t max_tokens) {
  const auto span = array_argument(tokens, num_tokens, "tokens");
  if (span.size() > max_tokens) {
    throw Error(ErrorCode::invalid_argument, "tokens: {} ids; {} is the limit", span.size(), max_tokens)
        .at("tokens");
  }
  return {span.begin(), span.end()};
}

}  // namespace quire::capi
