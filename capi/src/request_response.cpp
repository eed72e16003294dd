// Setters of a request for parsing its answer.
#include <limits>
#include <string>

#include <quire/request.h>
#include <quire/response.h>

#include "capi/src/request_setters.h"
#include "core/response/dialect_table.h"

using namespace quire::capi;

int32_t quire_job_request_set_response_dialect(quire_job_request* request, const char* text, size_t text_len,
                                               quire_error** error) {
  return set(request, {"response_dialect", Counts::generate}, error, [&](RequestSettings& settings) {
    std::string name(text_argument(text, text_len));
    if (!name.empty() && name != quire::kAutoDialect) quire::find_dialect(name);
    settings.response.dialect = std::move(name);
  });
}

int32_t quire_job_request_set_reasoning(quire_job_request* request, int32_t reasoning, quire_error** error) {
  return set(request, {"reasoning", Counts::generate}, error, [&](RequestSettings& settings) {
    range_argument(reasoning, QUIRE_REASONING_CLOSED, QUIRE_REASONING_OFF, "reasoning");
    settings.response.reasoning = static_cast<quire::ReasoningStart>(reasoning);
  });
}

int32_t quire_job_request_set_reasoning_budget(quire_job_request* request, int32_t reasoning_budget,
                                               quire_error** error) {
  return set(request, {"reasoning_budget", Counts::generate}, error, [&](RequestSettings& settings) {
    settings.response.reasoning_budget =
        range_argument(reasoning_budget, -1, std::numeric_limits<int32_t>::max(), "reasoning_budget");
  });
}
