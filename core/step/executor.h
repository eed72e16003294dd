// The seam to whatever computes a forward pass: a model on a device, or the tiny exact model of the
// simulator.
#pragma once

#include <cstdint>

#include <gsl/gsl>

#include "core/base/error.h"
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
  int32_t vocab_size = 0;      // columns of the logits
  int32_t hidden_size = 0;     // columns of the states; 0 where they cannot be had
  bool makes_draws = false;    // Batch::draws may be used
  bool follows = false;        // forward_next may be used
  int32_t max_draw_edits = 0;  // of all draws of a step
};

// One thread at a time. All memory is taken at construction.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorLimits& limits() const = 0;
  // Enqueues the whole step and returns without waiting where the device allows it. Throws an Error with
  // ErrorCode::device_lost where the device is gone; any other Error leaves the executor usable.
  virtual void forward(const Batch& batch) = 0;
  // Enqueues the step that continues the last forward (see continue_batch and FollowingStep) before its draws
  // are waited for. logits() is still that of the last forward. A later forward of the same step, or of what
  // is left of it, finds it done; any other has it done for nothing. False where it cannot be had: not all
  // rows were drawn from, or the last forward was itself a part of a step that had been issued ahead.
  virtual bool forward_next(const Batch& /*next*/) { return false; }
  // Waits for the last forward and gives its logits.
  virtual Logits logits() = 0;
  // The states behind the last norm of rows first_row, first_row + 1, ... of the last batch, which wanted
  // them: [n, hidden_size] in `out`. Behind logits().
  virtual void read_hidden(int32_t /*first_row*/, gsl::span<float> /*out*/) {
    throw Error(ErrorCode::unsupported, "this executor gives no states");
  }
};

}  // namespace quire
