#include "tests/simulation/faults.h"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "tests/support/allocation_faults.h"

namespace quire::testing {

void FaultInjector::disarm() {
  step_fault_in_ = 0;
  row_armed_ = device_armed_ = shard_armed_ = false;
  fails_logits_.reset();
}

// Any exception of a component is handled like one of these two codes.
void FaultInjector::fail_step(ErrorCode code) {
  const AllocationFaultsOff off;
  record_.step_failed = true;
  if (code == ErrorCode::device_lost) {
    record_.device_lost = true;
    ++num_struck_;
    throw Error(code, "injected: the device is gone");
  }
  const bool second = random_() % 2 == 0;
  if (code == ErrorCode::out_of_memory) {
    if (second) throw std::bad_alloc();
    throw Error(code, "injected: no memory on the device");
  }
  if (second) throw 42;
  throw std::runtime_error("injected: a component is broken");
}

// A failed step with one job is attributed to that job; with several jobs, to none until they are run alone.
void FaultInjector::record_culprit(const Batch& batch, ErrorCode code) {
  uint64_t culprit = 0;
  for (int32_t sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const uint64_t owner = owner_of_(batch, sequence);
    if (owner != 0 && culprit != 0 && owner != culprit) return;
    culprit = std::max(culprit, owner);
  }
  record_.culprit = culprit;
  record_.code = code;
}

// Returns whether a sequence with the cursed token is still needed. Sequences of a step issued ahead that the
// engine no longer needs have no effect.
bool FaultInjector::has_faulty_token(const Batch& batch) const {
  for (size_t t = 0; t < batch.token_ids.size(); ++t) {
    if (batch.token_ids[t] == special_.faulty_token && owner_of_(batch, batch.sequence_of_token[t]) != 0)
      return true;
  }
  return false;
}

void FaultInjector::before_step(const Batch& batch) {
  std::optional<ErrorCode> code;
  {
    const AllocationFaultsOff off;
    // A lost device stays lost, even if the step ended for another reason before the loss was reported.
    const bool lost_unseen = fails_logits_ == ErrorCode::device_lost;
    fails_logits_.reset();
    if (has_faulty_token(batch)) code = special_.faulty_token_code;
    if (step_fault_in_ > 0 && --step_fault_in_ == 0) {
      code = random_() % 2 == 0 ? ErrorCode::out_of_memory : ErrorCode::internal;
      ++num_struck_;
    }
    if (std::exchange(device_armed_, false) || lost_unseen) code = ErrorCode::device_lost;
    if (code) record_culprit(batch, *code);
  }
  if (!code) return;
  if (random_() % 3 != 0) fail_step(*code);
  fails_logits_ = code;
}

// If the step will fail anyway, the shard fault is skipped.
void FaultInjector::before_shard(const Batch& batch) {
  if (fails_logits_ || !std::exchange(shard_armed_, false)) return;
  ErrorCode code = random_() % 2 == 0 ? ErrorCode::out_of_memory : ErrorCode::internal;
  if (random_() % 50 == 0) code = ErrorCode::device_lost;
  {
    const AllocationFaultsOff off;
    record_culprit(batch, code);
    ++num_shards_struck_;
  }
  fail_step(code);
}

void FaultInjector::before_wait() {
  if (fails_logits_) fail_step(*std::exchange(fails_logits_, std::nullopt));
}

void FaultInjector::change_logits(const Batch& batch, gsl::span<float> logits) {
  const AllocationFaultsOff off;
  if (fails_logits_ || !std::exchange(row_armed_, false)) return;
  constexpr std::array kSpoilt{std::numeric_limits<float>::quiet_NaN(),
                               std::numeric_limits<float>::infinity()};
  const auto num_rows = static_cast<size_t>(batch.num_logit_rows());
  const size_t row = random_() % num_rows;
  const size_t width = logits.size() / num_rows;
  logits[row * width + random_() % width] = kSpoilt[random_() % kSpoilt.size()];
  const auto token = static_cast<size_t>(batch.logit_rows[row]);
  const int32_t sequence = batch.sequence_of_token[token];
  record_.non_finite_owner = owner_of_(batch, sequence);
  record_.non_finite_is_first =
      row == 0 || batch.sequence_of_token[static_cast<size_t>(batch.logit_rows[row - 1])] != sequence;
  ++num_struck_;
}

}  // namespace quire::testing
