#include "core/step/following_step.h"

#include <algorithm>
#include <numeric>

namespace quire {

namespace {

gsl::span<const int32_t> pages_of(const Batch& batch, size_t sequence) {
  const auto stride = static_cast<size_t>(batch.page_table_stride);
  return gsl::span<const int32_t>(batch.page_table).subspan(sequence * stride, stride);
}

bool is_plain_decoding(const Batch& batch) {
  const size_t sequences = batch.kv_lengths.size();
  return batch.token_ids.size() == sequences && batch.logit_rows.size() == sequences &&
         batch.draws.rows.size() == sequences && batch.draws.edits.empty() && batch.copies.empty() &&
         !batch.wants_hidden;
}

}  // namespace

void continue_batch(const Batch& batch, Batch& next) {
  const size_t sequences = batch.kv_lengths.size();
  next.copies.clear();
  next.token_ids.assign(sequences, 0);
  next.positions = batch.kv_lengths;
  next.kv_lengths = batch.kv_lengths;
  for (int32_t& length : next.kv_lengths) ++length;
  next.sequence_of_token.resize(sequences);
  std::iota(next.sequence_of_token.begin(), next.sequence_of_token.end(), 0);
  next.logit_rows = next.sequence_of_token;
  next.sequence_starts.resize(sequences + 1);
  std::iota(next.sequence_starts.begin(), next.sequence_starts.end(), 0);
  next.page_table = batch.page_table;
  next.page_table_stride = batch.page_table_stride;
  next.draws.vocab_size = batch.draws.vocab_size;
  next.wants_hidden = false;
}

void FollowingStep::hold(const Batch& next) {
  Expects(is_plain_decoding(next));
  step_ = next;
  held_ = true;
}

bool FollowingStep::covers(const Batch& batch, gsl::span<const kernels::SampleOutcome> drawn) {
  rows_.clear();
  if (!held_ || !is_plain_decoding(batch) || batch.page_table_stride != step_.page_table_stride ||
      batch.draws.vocab_size != step_.draws.vocab_size)
    return false;
  size_t row = 0;
  for (size_t sequence = 0; sequence < batch.kv_lengths.size(); ++sequence, ++row) {
    while (row < step_.kv_lengths.size() && !is_same(batch, sequence, row, drawn[row].token)) ++row;
    if (row == step_.kv_lengths.size()) return false;
    rows_.push_back(static_cast<int32_t>(row));
  }
  return true;
}

bool FollowingStep::is_same(const Batch& batch, size_t sequence, size_t row, TokenId drawn) const {
  kernels::SampleRow draw = batch.draws.rows[sequence];
  draw.logit_row = step_.draws.rows[row].logit_row;
  const auto pages = pages_of(batch, sequence), held_pages = pages_of(step_, row);
  return batch.token_ids[sequence] == drawn && batch.positions[sequence] == step_.positions[row] &&
         batch.kv_lengths[sequence] == step_.kv_lengths[row] && draw == step_.draws.rows[row] &&
         std::equal(pages.begin(), pages.end(), held_pages.begin());
}

}  // namespace quire
