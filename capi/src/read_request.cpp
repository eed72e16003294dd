#include "capi/src/read_request.h"

#include <algorithm>
#include <array>
#include <utility>

#include "capi/src/guard.h"
#include "core/engine/requests/request_builder.h"

namespace quire::capi {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"a job of kind GENERATE", "a job of kind SCORE",
                                                    "a job of kind WARM", "a job of kind EMBED"};

void require_counting_for_kind(const RequestSettings& settings) {
  const auto kind = static_cast<uint32_t>(settings.job.kind);
  require_applicable(settings, uint32_t{1} << kind, kKinds[kind]);
}

void require_counting_for_score(const RequestSettings& settings) {
  require_applicable(settings, Counts::score, "a score");
  if (settings.shared_queue.events == nullptr) return;
  throw Error(ErrorCode::invalid_argument,
              "queue: has no effect for a score, which waits for its own jobs; unset it")
      .at("queue");
}

// Makes submit draw a seed if the caller has set none.
void draw_missing_seed(RequestSettings& settings) {
  if (settings.job.kind != JobKind::generate || is_made(settings, "seed")) return;
  if (!is_made(settings, "random_seed")) settings.job.random_seed = true;
}

}  // namespace

void require_applicable(const RequestSettings& settings, uint32_t applies_to, std::string_view what) {
  for (const Setting& made : settings.made) {
    if ((made.counts & applies_to) == 0) {
      throw Error(ErrorCode::invalid_argument, "{}: has no effect for {}; leave it unset", made.name, what)
          .at(made.parameter);
    }
  }
}

bool is_made(const RequestSettings& settings, std::string_view name) {
  return std::any_of(settings.made.begin(), settings.made.end(),
                     [name](const Setting& made) { return made.name == name; });
}

JobRequest read_request(quire_job_request* request, const CacheShare& cache, uint32_t applies_to) {
  RequestSettings settings = Pinned(request, "request")->read();
  if (applies_to == Counts::for_kind) require_counting_for_kind(settings);
  if (applies_to == Counts::score) require_counting_for_score(settings);
  draw_missing_seed(settings);
  RequestSpec& spec = settings;
  if (settings.shared_queue.events != nullptr)
    spec.queue = {settings.shared_queue.events, settings.shared_queue.runtime->runtime()};
  return build_request(std::move(spec), *cache.model, *cache.model->runtime->runtime());
}

}  // namespace quire::capi
