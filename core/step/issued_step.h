// A forward pass that was issued before the tokens it takes are known: they are what the pass before draws.
// Where the engine then asks for just that, it is there already.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/step/executor.h"

namespace quire {

// One thread at a time. Its memory is used again.
class IssuedStep {
 public:
  explicit IssuedStep(int32_t page_tokens) : page_tokens_(page_tokens) {}

  // The batch to issue is built here.
  Batch& batch() { return batch_; }
  void issued(Ticket ticket) {
    ticket_ = ticket;
    is_settled_ = false;
  }
  void drop() noexcept { ticket_ = Ticket{}; }
  bool is_held() const { return ticket_.value != 0; }
  Ticket ticket() const { return ticket_; }

  // What the pass before has drawn: the tokens that were open are known from here on.
  void settle(gsl::span<const kernels::SampleOutcome> drawn);
  // Whether `batch` is the held step, or what is left of it without some of its sequences: the same tokens in
  // the same places of the same pages. rows() then tells for each sequence of `batch` where the first of its
  // rows of logits is in the held step.
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
