// Fault injection on the fake device: which faults occur, when, and which job they are attributed to.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <utility>

#include <gsl/gsl>

#include "core/step/batch.h"
#include "tests/simulation/oracle.h"

namespace quire::testing {

// Armed faults occur once, in a later step; a cursed token causes a fault whenever it is computed.
class FaultInjector {
 public:
  // `owner_of` returns the job of a sequence in a batch.
  FaultInjector(SpecialTokens special, uint64_t seed, std::function<uint64_t(const Batch&, int32_t)> owner_of)
      : special_(special), random_(seed), owner_of_(std::move(owner_of)) {}

  // Hooks of the executor.
  void before_step(const Batch& batch);
  void before_shard(const Batch& batch);
  void before_wait();
  void change_logits(const Batch& batch, gsl::span<float> logits);

  // Makes a whole step fail, `in_steps` steps from now, in forward or when its logits are fetched.
  void arm_step(int32_t in_steps) { step_fault_in_ = in_steps; }
  // Makes a row of the next step not finite.
  void arm_row() { row_armed_ = true; }
  void arm_device() { device_armed_ = true; }
  // Makes the next step fail after some of its shards have written.
  void arm_shard() { shard_armed_ = true; }
  void disarm();

  // Effects since the last clear.
  struct Record {
    bool device_lost = false;
    bool step_failed = false;
    // Jobs that may end because of it: the job of a step that failed alone, and the job of the row.
    std::optional<uint64_t> culprit;
    ErrorCode code = ErrorCode::ok;
    std::optional<uint64_t> non_finite_owner;
    bool non_finite_is_first = false;  // the row is the first of its sequence, before all draft tokens
  };
  const Record& record() const { return record_; }
  void clear_record() { record_ = {}; }
  uint64_t num_struck() const { return num_struck_; }
  uint64_t num_shards_struck() const { return num_shards_struck_; }

 private:
  [[noreturn]] void fail_step(ErrorCode code);
  bool has_faulty_token(const Batch& batch) const;
  void record_culprit(const Batch& batch, ErrorCode code);

  SpecialTokens special_;
  std::mt19937_64 random_;
  std::function<uint64_t(const Batch&, int32_t)> owner_of_;
  int32_t step_fault_in_ = 0;
  bool row_armed_ = false;
  bool device_armed_ = false;
  bool shard_armed_ = false;
  std::optional<ErrorCode> fails_logits_;
  Record record_;
  uint64_t num_struck_ = 0;
  uint64_t num_shards_struck_ = 0;
};

}  // namespace quire::testing
