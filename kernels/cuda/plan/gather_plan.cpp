#include "kernels/cuda/plan/gather_plan.h"

#include <algorithm>

namespace quire::kernels {
namespace {

constexpr uint64_t kLineBytes = 128;
constexpr uint64_t kWordBytes = sizeof(uint32_t);  // of a slice, in a word of 64 bits

uint64_t whole_lines(uint64_t bytes) {
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

// Returns true if the slices of all shards begin and end at multiples of `unit`, in every row.
bool divides(int32_t unit, const ColumnSplit& columns, int32_t element_bytes) {
  return std::all_of(columns.starts, columns.starts + columns.num_shards + 1,
                     [=](int32_t start) { return int64_t{start} * element_bytes % unit == 0; });
}

uint64_t largest_slice(const ColumnSplit& columns, int32_t rows, int32_t element_bytes) {
  int32_t most = 0;
  for (int32_t r = 0; r < columns.num_shards; ++r)
    most = std::max(most, columns.starts[r + 1] - columns.starts[r]);
  return static_cast<uint64_t>(most) * static_cast<uint64_t>(rows) * static_cast<uint64_t>(element_bytes);
}

int32_t blocks_for(uint64_t units, uint64_t units_of_thread, int32_t max_blocks) {
  const uint64_t of_block = kGatherThreads * units_of_thread;
  const uint64_t wanted = (units + of_block - 1) / of_block;
  return static_cast<int32_t>(std::clamp<uint64_t>(wanted, 1, static_cast<uint64_t>(max_blocks)));
}

GatherPlan plan_inline(const ColumnSplit& columns, int32_t rows, int32_t element_bytes, int32_t max_blocks) {
  GatherPlan plan;
  plan.is_inline = true;
  plan.unit_bytes = divides(8, columns, element_bytes) ? 8 : divides(4, columns, element_bytes) ? 4 : 2;
  plan.rows_per_round = rows;
  plan.rounds = 1;
  const uint64_t units = largest_slice(columns, rows, element_bytes) / static_cast<uint64_t>(plan.unit_bytes);
  plan.blocks = blocks_for(units, 1, max_blocks);
  return plan;
}

// Returns the number of rows of a round.
uint64_t rows_that_fit(const InboxLayout& layout, uint64_t row_bytes) {
  const uint64_t padding = uint64_t{32} * static_cast<uint64_t>(layout.num_shards);
  return layout.round_bytes < padding ? 0 : (layout.round_bytes - padding) / row_bytes;
}

}  // namespace

InboxLayout inbox_layout(int32_t num_shards, uint64_t gather_bytes) {
  InboxLayout layout;
  const auto shards = static_cast<uint64_t>(num_shards);
  layout.num_shards = num_shards;
  layout.source_words = whole_lines(std::min(gather_bytes, kInlineBytes)) / kWordBytes;
  layout.round_bytes = whole_lines(std::min(gather_bytes, kRoundBytes) + 32 * shards);
  layout.words_at = uint64_t{1 + kMaxGatherBlocks} * kFlagStride * sizeof(uint64_t);
  layout.bytes_at = layout.words_at + 2 * shards * layout.source_words * sizeof(uint64_t);
  layout.total_bytes = layout.bytes_at + 2 * layout.round_bytes;
  return layout;
}

GatherPlan plan_gather(const InboxLayout& layout, const ColumnSplit& columns, int32_t rows,
                       int32_t element_bytes, int32_t max_blocks) {
  const uint64_t slice = largest_slice(columns, rows, element_bytes);
  const uint64_t bytes_of_word = divides(4, columns, element_bytes) ? kWordBytes : 2;
  if (slice <= kInlineBytes && slice / bytes_of_word <= layout.source_words)
    return plan_inline(columns, rows, element_bytes, max_blocks);
  GatherPlan plan;
  plan.unit_bytes = divides(16, columns, element_bytes) ? 16 : divides(4, columns, element_bytes) ? 4 : 2;
  const uint64_t row_bytes = static_cast<uint64_t>(columns.total()) * static_cast<uint64_t>(element_bytes);
  const uint64_t fitting = std::min(rows_that_fit(layout, row_bytes), static_cast<uint64_t>(rows));
  if (fitting == 0) return plan;
  plan.rows_per_round = static_cast<int32_t>(fitting);
  plan.rounds = (rows + plan.rows_per_round - 1) / plan.rows_per_round;
  const uint64_t of_round = largest_slice(columns, plan.rows_per_round, element_bytes);
  plan.blocks = blocks_for(of_round / static_cast<uint64_t>(plan.unit_bytes), 4, max_blocks);
  return plan;
}

}  // namespace quire::kernels
