// A step that is issued before the tokens it takes are known: every sequence of the step in front goes on by
// the token that is drawn there. Where the engine then asks for just that, the results are there already.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/step/batch.h"

namespace quire {

// Makes `next` the step behind `batch`: one token for each of its sequences, on the pages that these have.
// Token ids are left at 0; the rows and edits of `next.draws` stay as they are. Its memory is used again.
void continue_batch(const Batch& batch, Batch& next);

// What an executor keeps of a step that it issued ahead. One thread at a time.
class FollowingStep {
 public:
  // `next`, in which draw i is that of sequence i and brings no edits.
  void hold(const Batch& next);
  void drop() noexcept { held_ = false; }
  bool is_held() const { return held_; }

  // Whether `batch` is the held step, or what is left of it without some of its sequences: the same tokens
  // (`drawn` by the step in front, as its sequences) in the same places of the same pages, drawn from alike.
  // rows() then tells for each sequence of `batch` which one of the held step it is.
  bool covers(const Batch& batch, gsl::span<const kernels::SampleOutcome> drawn);
  gsl::span<const int32_t> rows() const { return rows_; }
  bool is_whole() const { return rows_.size() == step_.kv_lengths.size(); }

 private:
  bool is_same(const Batch& batch, size_t sequence, size_t row, TokenId drawn) const;

  bool held_ = false;
  Batch step_;
  std::vector<int32_t> rows_;
};

}  // namespace quire
