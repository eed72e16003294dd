// Plans the conversion of a stored matrix to tiles, on the host, before anything is copied.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/plan/matrix.h"
#include "kernels/cuda/plan/trellis_tiles.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

// Source of the rows of one step, and the location of its tile.
struct StepSource {
  int32_t bits = 0;         // bit width of the tile
  int32_t stored_bits = 0;  // exl2: at most `bits`; 0: the rows do not exist
  int32_t packed_row = 0;   // exl2: first of `stored_bits` packed rows
  uint32_t byte = 0;        // offset in the strip
};

// Location of a record of scales, and its group.
struct ScaleSource {
  uint32_t byte = 0;  // offset in the strip
  int32_t group = 0;  // group of the tiles
};

struct PartPlan {
  const WeightSource* source = nullptr;
  TileKind kind = TileKind::dense;  // kind of the tiles; dense also if groups do not fit steps of 32 rows
  std::vector<int32_t> row_order;   // stored row of the tiles -> input feature; empty: in order
  std::vector<int32_t> row_source;  // tile row -> row of q_weight (gptq sorted by group); empty: the same
  std::vector<int32_t> row_group;   // [K] group of a tile row (exl2, gptq)
  std::vector<int32_t> row_bits;    // [K] bits | row in group << 8 (exl2)
  std::vector<int32_t> row_packed;  // [K] (exl2)
  std::vector<int32_t> group_first_row;  // gptq tiles: first tile row of each of their groups
  std::vector<uint16_t> group_scale;     // exl2: f16
  float unit = 1.0f;                     // multiplies the sums of the tiles
  std::vector<StepSource> steps;         // steps of the tiles; blocks and trellis: none
  std::vector<ScaleSource> records;      // records of a strip, for all kinds but dense, blocks and trellis
  TrellisColumns trellis;
  std::vector<Run> runs;
  uint32_t strip_bytes = 0;
  int32_t num_strips = 0;
};

// Returns true if a matrix is multiplied as E4M3 by E4M3: all of its parts or none.
bool uses_float8(const MatrixSource& matrix);

// Returns false if the source is malformed. `float8` is uses_float8 of the matrix.
bool plan_part(const WeightSource& source, PartPlan& plan, bool float8 = false);

// Returns true if parts may share a launch: they have the same rows in the same order and, except for exl2,
// blocks and trellis, the same forms of segments.
bool shares_launch(const PartPlan& a, const PartPlan& b);

// Returns true if the parts of a matrix are gate and up, of the same width and, as a trellis, with the same
// order of columns. Those of a shard are only if those of the whole matrix are.
bool is_pair(const MatrixSource& matrix, const std::vector<PartPlan>& parts);
// Returns the chain bits of a matrix of which `matrix` has all columns or those of a shard. `of_launch` is
// the matrix that is multiplied by one launch.
int32_t chain_bits_of(const MatrixSource& matrix, const Matrix& of_launch);
// Moves the tiles of a matrix with float8 parts to the first part.
void join_float8(std::vector<PartPlan>& parts, bool is_pair);

}  // namespace quire::kernels
