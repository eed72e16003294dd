#include "core/engine/loop/batch_builder.h"

#include <algorithm>

namespace quire {

namespace {

// Appends the tokens of a lane. The last one may be a token that the previous pass samples.
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
  if (lane.state_slot < 0) return;
  batch.state_slots.push_back(lane.state_slot);
  batch.state_banks.push_back(lane.state_bank);
}

// Appends the table of pages, then a table of slots for each window group: from the first page that the
// lane's first token sees to the last page written. Entries that no token sees are 0, so that equal steps
// have equal tables. The tables are as wide as the longest lane needs, usually far less than the maximum.
void append_page_tables(const StepPlan& plan, const PageTableShape& shape, Batch& batch) {
  const int32_t most_tokens = *std::max_element(batch.kv_lengths.begin(), batch.kv_lengths.end());
  batch.page_table_stride = pages_for(most_tokens, shape.page_tokens);
  batch.num_page_tables = 1 + static_cast<int32_t>(shape.windows.size());
  const auto stride = static_cast<size_t>(batch.page_table_stride);
  batch.page_table.assign(static_cast<size_t>(batch.num_page_tables) * plan.lanes.size() * stride, 0);
  auto row = batch.page_table.begin();
  for (const PlannedLane& lane : plan.lanes) {
    const auto num_pages = static_cast<size_t>(pages_for(lane.end(), shape.page_tokens));
    const auto pages = lane.pages.first(num_pages);
    std::transform(pages.begin(), pages.end(), row, [](PageId page) { return page.value; });
    row += batch.page_table_stride;
  }
  for (const SlotPool& window : shape.windows) {
    for (const PlannedLane& lane : plan.lanes) {
      const int32_t end = pages_for(lane.end(), shape.page_tokens);
      for (int32_t i = first_seen_page(lane.start, window.window(), shape.page_tokens); i < end; ++i)
        row[i] = window.slot(lane.pages[static_cast<size_t>(i)]);
      row += batch.page_table_stride;
    }
  }
}

}  // namespace

void build_batch(StepPlan& plan, gsl::span<const PageCopy> copies, const PageTableShape& shape,
                 Batch& batch) {
  batch.clear();
  batch.copies.assign(copies.begin(), copies.end());
  for (PlannedLane& lane : plan.lanes) append(lane, batch);
  append_page_tables(plan, shape, batch);
  if (!batch.drawn_rows.empty()) batch.drawn_rows.resize(batch.token_ids.size(), -1);
}

}  // namespace quire
