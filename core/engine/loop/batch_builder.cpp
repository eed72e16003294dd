#include "core/engine/loop/batch_builder.h"

namespace quire {

namespace {

void clear(Batch& batch, int32_t page_table_stride) {
  batch.copies.clear();
  batch.token_ids.clear();
  batch.drawn_rows.clear();
  batch.positions.clear();
  batch.sequence_of_token.clear();
  batch.sequence_starts.assign(1, 0);
  batch.kv_lengths.clear();
  batch.page_table.clear();
  batch.page_table_stride = page_table_stride;
  batch.logit_rows.clear();
  batch.wants_hidden = false;
}

// The last token of a lane may be one that the pass before draws.
void append_tokens(const PlannedLane& lane, Batch& batch) {
  const auto sequence_idx = batch.num_sequences();
  for (int32_t position = lane.start; position < lane.end(); ++position) {
    const bool is_drawn = lane.drawn_row >= 0 && position + 1 == lane.end();
    if (lane.end() - position <= lane.num_rows) batch.logit_rows.push_back(batch.num_tokens());
    batch.token_ids.push_back(is_drawn ? 0 : lane.lane->tokens[static_cast<size_t>(position)]);
    batch.positions.push_back(position);
    batch.sequence_of_token.push_back(sequence_idx);
    if (!is_drawn) continue;
    batch.drawn_rows.resize(batch.token_ids.size(), -1);
    batch.drawn_rows.back() = lane.drawn_row;
  }
}

void append(PlannedLane& lane, Batch& batch) {
  lane.first_token = batch.num_tokens();
  lane.first_row = batch.num_logit_rows();
  append_tokens(lane, batch);
  batch.sequence_starts.push_back(batch.num_tokens());
  batch.kv_lengths.push_back(lane.end());
  const size_t row = batch.page_table.size();
  batch.page_table.resize(row + static_cast<size_t>(batch.page_table_stride), 0);
  for (size_t i = 0; i < lane.pages.size(); ++i) batch.page_table[row + i] = lane.pages[i].value;
}

}  // namespace

void build_batch(StepPlan& plan, gsl::span<const PageCopy> copies, int32_t page_table_stride, Batch& batch) {
  clear(batch, page_table_stride);
  batch.copies.assign(copies.begin(), copies.end());
  for (PlannedLane& lane : plan.lanes) append(lane, batch);
  if (!batch.drawn_rows.empty()) batch.drawn_rows.resize(batch.token_ids.size(), -1);
}

}  // namespace quire
