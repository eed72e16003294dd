#include "capi/src/scoring.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "core/base/error.h"

namespace quire::capi {
namespace {

// Windows under way at a time: enough to keep a device busy while a finished one is taken, few enough to
// leave the queue of the cache to others.
constexpr size_t kMaxWindowsUnderWay = 4;

// A job that ends when the switch is turned on. Dropping it cancels it.
class ScoreJob {
 public:
  ScoreJob(const ScoreCall& call, gsl::span<const TokenId> tokens, bool want_raw_logits)
      : job_(submit(call, make_request(tokens, want_raw_logits))),
        listener_(call.cancel, [job = job_] { job->cancel(); }) {}

  // Waits for a good end.
  const Job& finish(const ScoreCall& call, TimePoint deadline) const {
    const Duration left = deadline - call.cache.runtime()->clock().now();
    if (!job_->wait(std::max(left, Duration{0}))) {
      throw Error(ErrorCode::timeout, "the score was not ready in time; give it a longer timeout");
    }
    const JobResult result = job_->result();
    if (result.reason == FinishReason::completed) return *job_;
    if (result.reason == FinishReason::failed) throw Error(result.error, result.message);
    throw Error(ErrorCode::cancelled, "the score was cancelled");
  }

 private:
  // A job could be over before a switch that is on already ends it.
  static std::shared_ptr<Job> submit(const ScoreCall& call, JobRequest request) {
    if (call.cancel != nullptr && call.cancel->triggered()) {
      throw Error(ErrorCode::cancelled, "the score was cancelled");
    }
    return call.cache.submit(std::move(request));
  }

  static JobRequest make_request(gsl::span<const TokenId> tokens, bool want_raw_logits) {
    JobRequest request;
    request.kind = JobKind::score;
    request.prompt.assign(tokens.begin(), tokens.end());
    request.want_raw_logits = want_raw_logits;
    request.publish_pages = false;
    return request;
  }

  std::shared_ptr<Job> job_;
  CancelSwitch::Listener listener_;
};

struct Window {
  size_t start;
  size_t num_tokens;
  std::unique_ptr<ScoreJob> job;
};

void take_scores(const ScoreCall& call, const Window& window, TimePoint deadline, gsl::span<float> out) {
  const std::vector<float> scores = window.job->finish(call, deadline).scores();
  if (scores.size() + 1 != window.num_tokens) {
    throw Error(ErrorCode::internal, "a window of {} tokens has {} scores", window.num_tokens, scores.size());
  }
  std::copy(scores.begin(), scores.end(), out.begin() + static_cast<ptrdiff_t>(window.start + 1));
}

}  // namespace

void score_windows(const ScoreCall& call, size_t window_tokens, gsl::span<float> out) {
  const TimePoint deadline = call.cache.runtime()->clock().now() + call.timeout;
  std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN());
  std::deque<Window> under_way;
  for (size_t start = 0; start < call.tokens.size(); start += window_tokens) {
    const size_t num_tokens = std::min(window_tokens, call.tokens.size() - start);
    const auto tokens = call.tokens.subspan(start, num_tokens);
    if (under_way.size() == kMaxWindowsUnderWay) {
      take_scores(call, under_way.front(), deadline, out);
      under_way.pop_front();
    }
    under_way.push_back({start, num_tokens, std::make_unique<ScoreJob>(call, tokens, false)});
  }
  for (const Window& window : under_way) take_scores(call, window, deadline, out);
}

std::vector<float> score_logits(const ScoreCall& call) {
  const TimePoint deadline = call.cache.runtime()->clock().now() + call.timeout;
  return ScoreJob(call, call.tokens, true).finish(call, deadline).raw_logits();
}

}  // namespace quire::capi
