// Tiles of blocks (docs/adr/0067): the codes of all types as they are, and their scales and minima in half
// precision.
//
// A segment of 128 rows has one record, then its tiles. A weight in f16 is
//
//   field * scale + offset, with field = value * 2^-24: the value in the bits of an f16, a subnormal
//
// times the unit of its part, rounded once. So the products of a chain add up without a step between groups,
// as those of exl2. `scale` is that of the group times 2^24 / unit; `offset` is -zero * scale * 2^-24, or
// -min / unit.
//
// A record has up to two f16 [8][4] for all of its rows (heads), then for each step of 32 rows:
// - half: f16 scales [8][4]; half_min: and f16 offsets [8][4].
// - bytes: factors of the first head [groups][8][4], as u8 with a bias of 128.
// - bytes_min: u8 factors of the first head [8][4], and of the second one [8][4]; nibbles_min: of both
// [2][8][4].
// - e4m3: scales [2][8][4]; e8m0: upper bytes of f16 scales [8][4].
// Number [g][q] is that of column g + 8q of the strip.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/plan/matrix.h"
#include "kernels/interface/block_forms.h"

namespace quire::kernels {

// Form of a type's tiles.
struct BlockTile {
  int32_t bits = 0;
  BlockTerms terms = BlockTerms::half;
  int32_t has_table = 0;    // codes are indices of `values`
  int32_t groups = 1;       // of a step
  uint32_t head_bytes = 0;  // of a record
  uint32_t step_bytes = 0;  // of the numbers of a step in a record
  uint32_t record_bytes = 0;
  uint32_t zero = 0;        // two f16 of -zero * 2^-24
  uint32_t values[4] = {};  // u8 [16]
};

constexpr uint32_t kBlockHeadBytes = kStripColumns * 2;
constexpr float kBlockFieldUnit = 16777216.0f;  // 2^24
// A minimum's factor m is multiplied as m / 256, so that the second head, which is 256 times as large, is no
// subnormal.
constexpr float kBlockMinUnit = 256.0f;
constexpr int32_t kBlockByteBias = 128;
// Factor of E4M3 scales: bits of E4M3 are those of an f16 of 2^-8 times the value, and the largest value,
// 448, becomes 57,344.
constexpr float kBlockE4m3Factor = 32768.0f;

constexpr BlockTile block_tile(BlockType type) {
  const BlockForm& form = kBlockForms[static_cast<size_t>(type)];
  BlockTile tile;
  tile.bits = form.bits;
  tile.terms = form.terms;
  tile.has_table = form.values != nullptr ? 1 : 0;
  tile.groups = kStepRows / form.group;
  const int32_t heads = has_factors(form.terms) ? (has_min(form.terms) ? 2 : 1) : 0;
  int32_t bytes = 0;  // of a column in a step
  if (form.terms == BlockTerms::half) bytes = 2;
  if (form.terms == BlockTerms::half_min) bytes = 4;
  if (form.terms == BlockTerms::bytes_min) bytes = 2;
  tile.head_bytes = static_cast<uint32_t>(heads) * kBlockHeadBytes;
  tile.step_bytes = static_cast<uint32_t>((bytes != 0 ? bytes : tile.groups) * kStripColumns);
  tile.record_bytes = tile.head_bytes + kBlockSteps * tile.step_bytes;
  const auto zero = static_cast<uint32_t>(form.zero);
  if (zero != 0) tile.zero = (0x8000U | zero) * 0x10001U;
  for (size_t i = 0; i < 16 && form.values != nullptr; ++i)
    tile.values[i / 4] |= static_cast<uint32_t>(form.values[i]) << (8 * (i % 4));
  return tile;
}

constexpr std::array<BlockTile, kNumBlockTypes> make_block_tiles() {
  std::array<BlockTile, kNumBlockTypes> tiles = {};
  for (size_t i = 1; i < tiles.size(); ++i) tiles[i] = block_tile(static_cast<BlockType>(i));
  return tiles;
}

constexpr uint32_t block_segment_bytes(BlockType type) {
  const BlockTile tile = block_tile(type);
  return tile.record_bytes + static_cast<uint32_t>(kBlockSteps * tile.bits) * 128;
}

// Largest scale of a group, BlockForm::factor included, and largest second head or f16 minimum, of a part.
// Only finite ones count.
struct BlockMaxima {
  float scale = 0.0f;
  float min = 0.0f;
};

// Returns the unit of a part: a power of two with which no scale and no offset exceeds f16. The largest scale
// becomes 2^14 to 2^15, so that weights lose as few bits as possible to subnormals: an error is at most
// 2^-25, and the largest weight of four bits is about 2^-5.
float block_unit(BlockType type, const BlockMaxima& maxima);

}  // namespace quire::kernels
