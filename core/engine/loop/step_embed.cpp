// Embedding jobs: the states of a prompt, pooled into one vector.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/engine/loop/step_loop.h"

namespace quire {

namespace {

// Rows that are fetched at a time.
constexpr int32_t kRowsAtOnce = 32;

void finish_embedding(const JobRecord& job, std::vector<float>& out) {
  double scale = 1.0 / job.num_pooled_tokens;
  if (job.request.normalise) {
    const double square = std::inner_product(job.pooled.begin(), job.pooled.end(), job.pooled.begin(), 0.0);
    scale = square > 0.0 ? 1.0 / std::sqrt(square) : 0.0;
  }
  std::transform(job.pooled.begin(), job.pooled.end(), out.begin(),
                 [&](double sum) { return static_cast<float>(sum * scale); });
  if (!std::all_of(out.begin(), out.end(), [](float value) { return std::isfinite(value); })) {
    throw Error(ErrorCode::numeric, "the states of the prompt are not finite");
  }
}

}  // namespace

// Rows are added one by one in order of their positions, so that the sum is the same to the last bit however
// the prompt was cut into chunks. Who lost its pages starts anew.
void StepLoop::pool_states(JobRecord& job, const ReservedSequence& reserved, int32_t first_row) {
  const bool reaches_end = job.ends_at(reserved.end());
  if (job.request.pooling == Pooling::last) {
    if (reaches_end) add_states(job, first_row + reserved.num_tokens - 1, 1);
  } else {
    if (reserved.start == 0) {
      std::fill(job.pooled.begin(), job.pooled.end(), 0.0);
      job.num_pooled_tokens = 0;
    }
    if (reserved.start != job.num_pooled_tokens) {
      throw Error(ErrorCode::internal, "{} states are pooled, the next is that of token {}",
                  job.num_pooled_tokens, reserved.start);
    }
    add_states(job, first_row, reserved.num_tokens);
  }
  if (reaches_end) finish_embedding(job, job.output.embedding);
}

void StepLoop::add_states(JobRecord& job, int32_t first_row, int32_t num_rows) {
  const size_t columns = job.pooled.size();
  for (int32_t done = 0; done < num_rows; done += kRowsAtOnce) {
    const int32_t count = std::min(kRowsAtOnce, num_rows - done);
    states_.resize(static_cast<size_t>(count) * columns);
    executor_.read_hidden(first_row + done, states_);
    for (size_t i = 0; i < states_.size(); ++i) job.pooled[i % columns] += states_[i];
  }
  job.num_pooled_tokens += num_rows;
}

}  // namespace quire
