#include "core/engine/loop/batch_builder.h"

namespace quire {

namespace {

void clear(Batch& batch, int32_t page_table_stride) {
  batch.copies.clear();
  batch.token_ids.clear();
  batch.positions.clear();
  batch.sequence_of_token.clear();
  batch.sequence_starts.assign(1, 0);
  batch.kv_lengths.clear();
  batch.page_table.clear();
  batch.page_table_stride = page_table_stride;
  batch.logit_rows.clear();
  batch.wants_hidden = false;
}

void append(const PlannedSequence& planned, const ReservedSequence& reserved, Batch& batch) {
  const auto sequence_idx = batch.num_sequences();
  for (int32_t i = 0; i < reserved.num_tokens; ++i) {
    const int32_t position = reserved.start + i;
    if (i >= reserved.num_tokens - reserved.num_logit_rows) batch.logit_rows.push_back(batch.num_tokens());
    batch.token_ids.push_back(planned.tokens[static_cast<size_t>(position)]);
    batch.positions.push_back(position);
    batch.sequence_of_token.push_back(sequence_idx);
  }
  batch.sequence_starts.push_back(batch.num_tokens());
  batch.kv_lengths.push_back(reserved.end());
  const size_t row = batch.page_table.size();
  batch.page_table.resize(row + static_cast<size_t>(batch.page_table_stride), 0);
  for (size_t i = 0; i < reserved.pages.size(); ++i) batch.page_table[row + i] = reserved.pages[i].value;
}

}  // namespace

void build_batch(const StepPlan& plan, const Reservation& reservation, int32_t page_table_stride,
                 Batch& batch) {
  clear(batch, page_table_stride);
  batch.copies.assign(reservation.copies().begin(), reservation.copies().end());
  for (size_t i = 0; i < plan.sequences.size(); ++i)
    append(plan.sequences[i], reservation.sequences()[i], batch);
}

}  // namespace quire
