#include "core/engine/requests/request_builder.h"

#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/engine/requests/answer_reader.h"
#include "core/engine/requests/prompt_builder.h"
#include "core/engine/requests/request_constraints.h"

namespace quire {
namespace {

void check_queue(const QueueChoice& queue, const Runtime& runtime) {
  if (queue.events == nullptr || queue.runtime.get() == &runtime) return;
  throw Error(ErrorCode::invalid_argument,
              "queue: it belongs to another runtime than the cache; create it with the cache's runtime")
      .at("queue");
}

}  // namespace

JobRequest build_request(RequestSpec spec, const LoadedModel& model, const Runtime& runtime) {
  JobRequest job = std::move(spec.job);
  const bool is_read = !spec.response.dialect.empty();
  if (!is_read) refuse_unread(spec.response);
  std::string words;
  job.prompt = encode_prompt(spec, model, is_read ? &words : nullptr);
  if (!spec.negative_prompt.empty()) job.negative_prompt = encode_negative_prompt(spec, *model.model);
  if (is_read) job.response = make_reader(spec, model, words);
  check_queue(spec.queue, runtime);
  job.queue = std::move(spec.queue.events);
  job.constraint = make_constraint(model, spec.constraint, spec.json_form, job.response.get());
  if (is_read) limit_reasoning(model, spec.response.reasoning_budget, job);
  if (spec.heal_prompt) heal_prompt(model, job);
  return job;
}

}  // namespace quire
