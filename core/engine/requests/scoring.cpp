#include "core/engine/requests/scoring.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "core/base/error.h"

namespace quire {
namespace {

// Maximum number of windows submitted at a time: enough to keep the device busy while scores are copied, and
// few enough to leave room in the queue for other jobs.
constexpr size_t kMaxWindowsUnderWay = 4;

// Job of one window. Its destructor cancels the job.
class ScoreJob {
 public:
  ScoreJob(const ScoreCall& call, gsl::span<const TokenId> tokens, bool want_raw_logits)
      : job_(submit(call, make_request(call.request, tokens, want_raw_logits))) {}

  // Waits for the end of the job. Throws unless it completed.
  const Job& finish(const ScoreCall& call, TimePoint deadline) const {
    const Duration left = deadline - call.engine.runtime()->clock().now();
    const WaitEnd end = job_->wait_for_end(Wait{std::max(left, Duration{0}), call.wait.cancel});
    if (end == WaitEnd::cancelled) throw Error(ErrorCode::cancelled, "the score was cancelled");
    if (end != WaitEnd::ready) {
      throw Error(ErrorCode::timeout, "the score was not ready in time; give it a longer timeout");
    }
    const JobResult result = job_->result();
    if (result.reason == FinishReason::completed) return *job_;
    if (result.reason == FinishReason::failed) throw Error(result.error, result.message).at(result.parameter);
    throw Error(ErrorCode::cancelled, "the score was cancelled");
  }

 private:
  // Checks the switch first: a short job could complete before the switch cancels it.
  static std::shared_ptr<Job> submit(const ScoreCall& call, JobRequest request) {
    if (call.wait.cancelled()) {
      throw Error(ErrorCode::cancelled, "the score was cancelled");
    }
    return call.engine.submit(std::move(request));
  }

  static JobRequest make_request(JobRequest request, gsl::span<const TokenId> tokens, bool want_raw_logits) {
    request.kind = JobKind::score;
    request.prompt.assign(tokens.begin(), tokens.end());
    request.want_raw_logits = want_raw_logits;
    request.publish_pages = false;
    return request;
  }

  std::shared_ptr<Job> job_;
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
  const gsl::span<const TokenId> tokens = call.request.prompt;
  const TimePoint deadline = call.engine.runtime()->clock().now() + call.wait.timeout;
  std::fill(out.begin(), out.end(), std::numeric_limits<float>::quiet_NaN());
  std::deque<Window> under_way;
  for (size_t start = 0; start < tokens.size(); start += window_tokens) {
    const size_t num_tokens = std::min(window_tokens, tokens.size() - start);
    const auto of_window = tokens.subspan(start, num_tokens);
    if (under_way.size() == kMaxWindowsUnderWay) {
      take_scores(call, under_way.front(), deadline, out);
      under_way.pop_front();
    }
    under_way.push_back({start, num_tokens, std::make_unique<ScoreJob>(call, of_window, false)});
  }
  for (const Window& window : under_way) take_scores(call, window, deadline, out);
}

void score_logits(const ScoreCall& call, const Job::ReadValues& read) {
  const TimePoint deadline = call.engine.runtime()->clock().now() + call.wait.timeout;
  const ScoreJob job(call, call.request.prompt, true);
  job.finish(call, deadline).read_raw_logits(read);
}

}  // namespace quire
