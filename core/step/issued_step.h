// Forward pass that was issued ahead, before its input tokens are known: the previous pass draws them. If the
// engine then requests exactly this pass, it is already running.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/step/executor.h"

namespace quire {

// For one thread at a time. Reuses its memory.
class IssuedStep {
 public:
  explicit IssuedStep(int32_t page_tokens) : page_tokens_(page_tokens) {}

  // Returns the batch in which the step to issue is built.
  Batch& batch() { return batch_; }
  void issued(Ticket ticket) {
    ticket_ = ticket;
    is_settled_ = false;
  }
  void drop() noexcept { ticket_ = Ticket{}; }
  bool is_held() const { return ticket_.value != 0; }
  Ticket ticket() const { return ticket_; }

  // Fills in the tokens that were unknown with those drawn by the previous pass.
  void settle(gsl::span<const kernels::SampleOutcome> drawn);
  // Returns whether `batch` is the held step, or what remains of it without some of its sequences: the same
  // tokens at the same positions of the same pages and state slots. rows() then returns, for each sequence of
  // `batch`, the index of its first logit row in the held step.
  bool covers(const Batch& batch);
  gsl::span<const int32_t> rows() const { return rows_; }

 private:
  bool is_same(const Batch& batch, size_t sequence, size_t held) const;

  int32_t page_tokens_;
  Batch batch_;
  Ticket ticket_;
  bool is_settled_ = false;
  std::vector<int32_t> rows_;
};

}  // namespace quire
