// The seam to whatever computes a forward pass: a model on a device, or the tiny exact model of the
// simulator.
#pragma once

#include <cstdint>

#include "core/step/batch.h"

namespace quire {

// What an executor was sized for; no batch may exceed it.
struct ExecutorLimits {
  int32_t max_tokens = 0;              // T of one step
  int32_t max_sequences = 0;           // S
  int32_t max_logit_rows = 0;          // L
  int32_t max_pages_per_sequence = 0;  // page_table_stride
  int32_t num_pages = 0;
  int32_t page_tokens = 0;
  int32_t vocab_size = 0;  // columns of the logits
};

// One thread at a time. All memory is taken at construction.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorLimits& limits() const = 0;
  // Enqueues the whole step and returns without waiting where the device allows it. Throws an Error with
  // ErrorCode::device_lost where the device is gone; any other Error leaves the executor usable.
  virtual void forward(const Batch& batch) = 0;
  // Waits for the last forward and gives its logits.
  virtual Logits logits() = 0;
};

}  // namespace quire
