// Memory layout of a matrix, computed before any memory is allocated. Used both to plan and to prepare.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/isa/isa_kernels.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

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

  uint64_t bytes() const {
    return uint64_t{data_bytes} + bias_bytes + nibble_bytes + scale_table_bytes + scale_bytes + zero_bytes;
  }
};

struct WeightLayout {
  std::vector<PartLayout> parts;
  // Input feature of each row of the blocks, -1: none. Parts with equal orders share one.
  std::vector<std::vector<int32_t>> orders;

  uint64_t bytes() const;
};

// Returns the layout of valid sources, whose codes, scales and values are not read. Throws std::bad_alloc.
WeightLayout lay_out_weight(const WeightSource* parts, int32_t num_parts);

}  // namespace quire::kernels
