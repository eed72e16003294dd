// Memory layout of a matrix, computed before any memory is allocated. Used both to plan and to prepare.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/isa/isa_kernels.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

// Outputs that lie side by side in a panel of a trellis: `count` outputs from `output` on are columns from
// `lane` on.
struct OutputRun {
  int32_t output = 0;
  int32_t lane = 0;
  int32_t count = 0;
};

// Panels of a trellis that outputs read.
struct TrellisLayout {
  std::vector<int32_t> stored_panels;  // index of each panel among the stored ones, ascending
  std::vector<OutputRun> runs;         // panel after panel
  std::vector<int32_t> runs_of_panel;  // [panels + 1], first run of each panel
};

struct PartLayout {
  int32_t num_panels = 0;
  size_t panel_bytes = 0;
  size_t data_bytes = 0;
  size_t bias_bytes = 0;

  // Quantized parts only: stored row of each row of the blocks; -1: padding.
  std::vector<int32_t> stored_rows;
  std::vector<int32_t> group_blocks;  // [groups]
  std::vector<QuantRun> runs;
  int32_t order_idx = 0;
  int32_t num_groups = 0;
  size_t nibble_bytes = 0;
  size_t scale_table_bytes = 0;
  size_t scale_bytes = 0;
  size_t zero_bytes = 0;
  size_t panel_term_bytes = 0;  // blocks
  size_t term_bytes = 0;
  TrellisLayout trellis;
  size_t run_bytes = 0;

  uint64_t bytes() const {
    return uint64_t{data_bytes} + bias_bytes + nibble_bytes + scale_table_bytes + scale_bytes + zero_bytes +
           term_bytes + run_bytes;
  }
};

// Returns the stored column of output n.
inline int32_t stored_column(const WeightSource& source, int32_t n) {
  return source.column_order != nullptr ? source.column_order[n] : n;
}

struct WeightLayout {
  std::vector<PartLayout> parts;
  // Input feature of each row of the blocks, -1: none. Parts with equal orders share one.
  std::vector<std::vector<int32_t>> orders;

  uint64_t bytes() const;
};

// Terms of 16 columns for some blocks of 32 rows: the f16 scales, the negative f16 minima if there are any,
// and then for each block the bytes of its groups (scales or factors, and for bytes_min the factors of the
// minima).
struct TermRecord {
  int32_t blocks;       // of 32 rows
  int32_t halves;       // f16 numbers of a column
  int32_t block_bytes;  // bytes of a column in each block
  int32_t bytes() const { return kPanelColumns * (2 * halves + blocks * block_bytes); }
};
TermRecord term_record(const BlockForm& form);

// Returns the layout of valid sources, whose codes, scales and values are not read. Throws std::bad_alloc.
WeightLayout lay_out_weight(const WeightSource* parts, int32_t num_parts);

}  // namespace quire::kernels
