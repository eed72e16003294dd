#include "kernels/cuda/plan/packed_layout.h"

#include <algorithm>
#include <limits>
#include <new>

namespace quire::kernels {
namespace {

// Rows whose activations are held at a time: enough to fill a card.
constexpr size_t kBatchRows = 2048;

constexpr size_t aligned(size_t bytes) {
  return (bytes + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
}

// Calls visit(segment, first_word) for each segment of a panel, and span(first_word) at the beginning of each
// span. Returns the words of a panel.
template <typename Visit, typename Span>
uint32_t walk_panel(const PackedPart& part, Visit visit, Span span) {
  uint32_t word = 0;
  int32_t group = 0, block_of_span = 0;
  for (int32_t run = 0; run < part.num_runs; ++run) {
    const QuantRun& of = part.runs[run];
    for (int32_t i = 0; i < of.num_groups; ++i, ++group) {
      for (int32_t left = part.group_blocks[group]; left > 0;) {
        if (block_of_span == 0) span(word);
        const int32_t blocks = std::min(left, kSpanBlocks - block_of_span);
        visit(PackedSegment{static_cast<uint16_t>(group), static_cast<uint8_t>(of.bits),
                            static_cast<uint8_t>(blocks)});
        word += static_cast<uint32_t>(blocks * of.bits * kPackedColumns);
        left -= blocks;
        block_of_span = (block_of_span + blocks) % kSpanBlocks;
      }
    }
  }
  return word;
}

size_t num_segments(const PackedPart& part) {
  size_t count = 0;
  walk_panel(
      part, [&](const PackedSegment&) { ++count; }, [](uint32_t) {});
  return count;
}

bool can_walk(const PackedPart& part) {
  return part.num_groups <= std::numeric_limits<uint16_t>::max() && part.order.num_rows >= kPackedRows &&
         part.panel_bytes / sizeof(uint32_t) <= size_t{std::numeric_limits<int32_t>::max()};
}

size_t order_bytes(const PackedOrder& order) {
  return static_cast<size_t>(order.num_rows) * sizeof(int32_t);
}

// Returns whether part `i` reads its inputs in an order of its own.
bool has_own_order(const PackedWeight& weight, int32_t i) {
  return i == 0 || weight.parts[i].order.features != weight.parts[0].order.features;
}

size_t staged_bytes(const PackedWeight& weight) {
  size_t bytes = 0;
  for (int32_t i = 0; i < weight.num_parts; ++i) {
    const PackedPart& part = weight.parts[i];
    bytes += aligned(part.code_bytes()) + aligned(part.nibble_bytes()) + aligned(part.table_bytes()) +
             aligned(part.bias_bytes()) + aligned(num_segments(part) * sizeof(PackedSegment)) +
             aligned(static_cast<size_t>(part.order.num_spans() + 1) * sizeof(uint32_t));
    if (has_own_order(weight, i)) bytes += aligned(order_bytes(part.order));
  }
  return bytes;
}

// Places what an expert consists of one after the other.
class Stager {
 public:
  Stager(const StagingPlace& place, PieceList& copies) : place_(place), copies_(copies), at_(kRecordBytes) {}
  size_t end() const { return at_; }

  // Returns the device address of a copy of `bytes` from host memory; nullptr if there are none.
  template <typename T>
  const T* copy(const void* from, size_t bytes) {
    if (bytes == 0) return nullptr;
    copies_.pieces[copies_.count++] = {place_.host + at_, from, bytes};
    return take<T>(bytes);
  }
  void stage(const PackedPart& part, PackedMatrix& matrix) {
    matrix.codes = copy<uint32_t>(part.codes, part.code_bytes());
    matrix.nibbles = copy<uint8_t>(part.nibbles, part.nibble_bytes());
    matrix.scale_table = copy<float>(part.scale_table, part.table_bytes());
    matrix.bias = copy<float>(part.bias, part.bias_bytes());
    write_tables(part, matrix);
    matrix.num_spans = part.order.num_spans();
    matrix.num_blocks = part.order.num_blocks();
    matrix.panel_words = static_cast<int32_t>(part.panel_bytes / sizeof(uint32_t));
    matrix.num_groups = part.num_groups;
    matrix.num_panels = part.num_panels;
    matrix.num_out = part.num_out;
  }

 private:
  template <typename T>
  const T* take(size_t bytes) {
    const auto* const taken = reinterpret_cast<const T*>(place_.device + at_);
    at_ += aligned(bytes);
    return taken;
  }
  void write_tables(const PackedPart& part, PackedMatrix& matrix) {
    auto* segment = reinterpret_cast<PackedSegment*>(place_.host + at_);
    matrix.segments = take<PackedSegment>(num_segments(part) * sizeof(PackedSegment));
    auto* word = reinterpret_cast<uint32_t*>(place_.host + at_);
    matrix.span_words = take<uint32_t>(static_cast<size_t>(part.order.num_spans() + 1) * sizeof(uint32_t));
    const uint32_t end = walk_panel(
        part, [&](const PackedSegment& next) { *segment++ = next; },
        [&](uint32_t first) { *word++ = first; });
    *word = end;
  }

  const StagingPlace& place_;
  PieceList& copies_;
  size_t at_;
};

}  // namespace

size_t staged_bytes(const PackedExpert& expert) {
  for (const PackedWeight* weight : {&expert.gate_up, &expert.down}) {
    for (int32_t i = 0; i < weight->num_parts; ++i)
      if (!can_walk(weight->parts[i])) return 0;
  }
  return kRecordBytes + staged_bytes(expert.gate_up) + staged_bytes(expert.down);
}

size_t stage_expert(const PackedExpert& expert, const StagingPlace& place, PieceList& copies) {
  PackedRecord& record = *new (place.host) PackedRecord();
  Stager stager(place, copies);
  for (int32_t i = 0; i < expert.gate_up.num_parts; ++i) {
    const PackedPart& part = expert.gate_up.parts[i];
    PackedMatrix& matrix = record.matrices[i];
    stager.stage(part, matrix);
    const bool is_own = has_own_order(expert.gate_up, i);
    matrix.order = is_own ? i : 0;
    matrix.features = is_own ? stager.copy<int32_t>(part.order.features, order_bytes(part.order))
                             : record.matrices[0].features;
  }
  const PackedPart& down = expert.down.parts[0];
  stager.stage(down, record.matrices[kPackedDown]);
  record.matrices[kPackedDown].features = stager.copy<int32_t>(down.order.features, order_bytes(down.order));
  return stager.end();
}

PackedSizes packed_sizes(const PackedExpertLimits& limits) {
  PackedSizes sizes;
  if (limits.staging_bytes == 0) return sizes;
  const auto experts = static_cast<size_t>(limits.num_experts);
  sizes.staging_bytes = aligned(static_cast<size_t>(limits.staging_bytes));
  sizes.slot_bytes = aligned(static_cast<size_t>(limits.slot_bytes));
  sizes.num_slots = static_cast<size_t>(limits.num_slots);
  const auto tokens = static_cast<size_t>(limits.max_tokens);
  sizes.num_rows = tokens * static_cast<size_t>(limits.num_chosen);
  sizes.num_tiles = sizes.num_rows / kPackedTileRows + experts;
  sizes.batch_rows =
      std::min(kBatchRows, (sizes.num_rows - 1) / kPackedTileRows * kPackedTileRows + kPackedTileRows);
  const auto spans = [](int32_t columns) { return (static_cast<size_t>(columns) - 1) / kSpanRows + 1; };
  // A single tile always fits, however much padding its groups add.
  const size_t rows = std::max(sizes.batch_rows, size_t{kPackedTileRows} * kPackedRows);
  const size_t spans_of_rows = rows * std::max(spans(limits.num_in), spans(limits.activated));
  sizes.scale_floats = kMaxPackedParts * spans_of_rows;
  sizes.code_bytes = sizes.scale_floats * 2 * kSpanRows;
  sizes.product_floats = sizes.batch_rows * static_cast<size_t>(limits.products);
  sizes.output_floats = sizes.num_rows * static_cast<size_t>(limits.num_out);
  sizes.token_floats = tokens * static_cast<size_t>(std::max(limits.num_in, limits.num_out));
  if (sizes.num_slots > 0)
    sizes.returned_floats = std::min(tokens, size_t{kMaxSlotTokens}) *
                            static_cast<size_t>(limits.num_chosen) * static_cast<size_t>(limits.num_out);
  return sizes;
}

}  // namespace quire::kernels
