#include "tests/support/drawing_backend.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/support/slow_draw.h"

namespace quire::testing {

namespace {

using kernels::Status;

std::atomic<int64_t> rows_read{0};
std::atomic<int64_t> rows_drawn{0};
std::atomic<int64_t> steps_followed{0};

// Outcomes that the caller has not waited for.
struct LateOutcomes {
  kernels::SampleOutcome* to = nullptr;
  std::vector<kernels::SampleOutcome> outcomes;
};

// Draws of a context.
struct Draws {
  std::vector<int32_t> tokens;     // of the last call of sample
  std::vector<LateOutcomes> late;  // in order; at most two, as a card has
};

std::mutex draws_mutex;
std::map<const kernels::Context*, Draws> draws_of;  // guarded by draws_mutex

const kernels::KernelTable& cpu_table(kernels::Context* context) {
  return *reinterpret_cast<const kernels::ContextHeader*>(context)->table;
}

void deliver(const LateOutcomes& late) {
  std::copy(late.outcomes.begin(), late.outcomes.end(), late.to);
}

Status sample(kernels::Context* context, const kernels::SampleParams* params) {
  const gsl::span<const kernels::LogitEdit> edits(params->edits, static_cast<size_t>(params->num_edits));
  LateOutcomes made{params->outcomes, {}};
  for (int32_t i = 0; i < params->num_rows; ++i) {
    const kernels::SampleRow& draw = params->rows[i];
    const float* row = params->logits + static_cast<ptrdiff_t>(draw.logit_row) * params->stride;
    made.outcomes.push_back(slow_draw({row, static_cast<size_t>(params->vocab_size)}, draw, edits));
  }
  rows_drawn += params->num_rows;
  const std::lock_guard<std::mutex> lock(draws_mutex);
  Draws& draws = draws_of[context];
  draws.tokens.clear();
  for (const kernels::SampleOutcome& outcome : made.outcomes)
    draws.tokens.push_back(std::max(0, outcome.token));
  const auto is_replaced = [&](const LateOutcomes& late) { return late.to == made.to; };
  draws.late.erase(std::remove_if(draws.late.begin(), draws.late.end(), is_replaced), draws.late.end());
  if (draws.late.size() == 2) draws.late.erase(draws.late.begin());
  draws.late.push_back(std::move(made));
  return Status::ok;
}

// Steps have finished when they are issued. Their outcomes are kept back nevertheless, as on a card.
Status wait_for_draws(kernels::Context* context, const kernels::SampleOutcome* outcomes) {
  const std::lock_guard<std::mutex> lock(draws_mutex);
  std::vector<LateOutcomes>& late = draws_of[context].late;
  const auto waited =
      std::find_if(late.begin(), late.end(), [&](const LateOutcomes& of) { return of.to == outcomes; });
  if (waited == late.end()) return Status::ok;
  deliver(*waited);
  late.erase(waited);
  return Status::ok;
}

Status synchronize(kernels::Context* context) {
  const std::lock_guard<std::mutex> lock(draws_mutex);
  std::vector<LateOutcomes>& late = draws_of[context].late;
  std::for_each(late.begin(), late.end(), deliver);
  late.clear();
  return cpu_table(context).synchronize(context);
}

Status bind_batch(kernels::Context* context, const kernels::BatchView* host, kernels::BatchView* device) {
  if (host->drawn_rows == nullptr) return cpu_table(context).bind_batch(context, host, device);
  const std::lock_guard<std::mutex> lock(draws_mutex);
  const std::vector<int32_t>& drawn = draws_of[context].tokens;
  std::vector<int32_t> token_ids(host->token_ids, host->token_ids + host->num_tokens);
  for (size_t i = 0; i < token_ids.size(); ++i) {
    const int32_t row = host->drawn_rows[i];
    if (row >= static_cast<int32_t>(drawn.size())) return Status::invalid_argument;
    if (row >= 0) token_ids[i] = drawn[static_cast<size_t>(row)];
  }
  kernels::BatchView with_tokens = *host;
  with_tokens.token_ids = token_ids.data();
  ++steps_followed;
  return cpu_table(context).bind_batch(context, &with_tokens, device);
}

void release_context(kernels::Context* context) {
  if (context == nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(draws_mutex);
    draws_of.erase(context);
  }
  cpu_table(context).release_context(context);
}

Status read_rows(kernels::Context* context, const float* device_rows, int32_t rows, int32_t columns,
                 float* host) {
  rows_read += rows;
  return cpu_table(context).read_rows(context, device_rows, rows, columns, host);
}

const kernels::KernelTable* table(const kernels::Device* device) {
  static const kernels::KernelTable changed = [&] {
    kernels::KernelTable copy = *kernels::cpu_backend().table(device);
    copy.capabilities |= kernels::kCapabilityDeviceSampling | kernels::kCapabilityFollowingSteps;
    copy.sample = sample;
    copy.wait_for_draws = wait_for_draws;
    copy.synchronize = synchronize;
    copy.bind_batch = bind_batch;
    copy.release_context = release_context;
    copy.read_rows = read_rows;
    return copy;
  }();
  return &changed;
}

}  // namespace

const kernels::Backend& drawing_backend() {
  static const kernels::Backend backend = [] {
    kernels::Backend changed = kernels::cpu_backend();
    changed.table = table;
    return changed;
  }();
  return backend;
}

int64_t num_rows_read() {
  return rows_read;
}
int64_t num_rows_drawn() {
  return rows_drawn;
}
int64_t num_steps_followed() {
  return steps_followed;
}

}  // namespace quire::testing
