// How a stored matrix becomes tiles: decided on the host, before anything is copied.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/plan/matrix.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

// Where the rows of one step come from, and where its tile goes.
struct StepSource {
  int32_t bits = 0;         // of the tile
  int32_t stored_bits = 0;  // exl2: no more than that; 0: rows that are not there
  int32_t packed_row = 0;   // exl2: first of `stored_bits` packed rows
  uint32_t byte = 0;        // of the strip
};

// Whose scales lie where.
struct ScaleSource {
  uint32_t byte = 0;  // of the strip
  int32_t group = 0;  // of the tiles
};

struct PartPlan {
  const WeightSource* source = nullptr;
  TileKind kind = TileKind::dense;  // of the tiles; dense also where groups do not fit steps of 32 rows
  std::vector<int32_t> row_order;   // stored row of the tiles -> input feature; empty: in order
  std::vector<int32_t> row_source;  // tile row -> row of q_weight (gptq sorted by group); empty: the same
  std::vector<int32_t> row_group;   // [K] group of a tile row (exl2, gptq)
  std::vector<int32_t> row_bits;    // [K] bits | row in group << 8 (exl2)
  std::vector<int32_t> row_packed;  // [K] (exl2)
  std::vector<int32_t> group_first_row;  // gptq tiles: first tile row of each of their groups
  std::vector<uint16_t> group_scale;     // exl2: f16
  float unit = 1.0f;                     // of its tiles' sums
  std::vector<StepSource> steps;         // of the tiles
  std::vector<ScaleSource> records;      // of a strip: all but dense
  std::vector<Run> runs;
  uint32_t strip_bytes = 0;
  int32_t num_strips = 0;
};

// Whether a matrix is for products of E4M3 by E4M3: all of its parts or none.
bool takes_float8(const MatrixSource& matrix);

// False where the source is malformed. `float8`: what takes_float8 says of the matrix.
bool plan_part(const WeightSource& source, PartPlan& plan, bool float8 = false);

// Parts that may share a launch: they have the same rows in the same order, and, but for exl2, the same forms
// of segments.
bool shares_launch(const PartPlan& a, const PartPlan& b);

// Whether the parts of a matrix are a gate and its up, of one width.
bool is_pair(const std::vector<PartPlan>& parts);
// The tiles of a matrix of float8 parts belong to the first.
void join_float8(std::vector<PartPlan>& parts);

}  // namespace quire::kernels
