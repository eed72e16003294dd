// Layout of a matrix for the tensor cores.
//
// Columns (output features) are grouped into strips of 32, rows (input features, in stored order) into steps
// of 32. A tile is one strip by one step, 1,024 weights, and the tiles of a strip are contiguous in memory.
// Lane 4g+t of a warp has 32 weights of a tile: columns g, g+8, g+16, g+24 by rows 8t..8t+7. They are
// numbered as 16 pairs h = 8i + 4j + r: columns 16i + g + 8(r & 1), rows 8t + 4j + 2(r >> 1) + {0, 1}. This
// is the order of the A operand of mma.m16n8k16 with the columns of W as its rows: i is the half strip, j the
// mma, r the register. So a warp multiplies 32 columns by up to 8 tokens, and 8 consecutive activations of a
// token are one 16-byte load per lane.
//
// Codes of b bits are split into planes, with each lane's part contiguous: 2 bits [2 words], 3 = 2 + 1, 4 [4
// words], 5 = 4 + 1, 6 = 4 + 2, 8 [8 words], 16 (f16 itself, 4 planes of 4 words). The bits of the two codes
// of a pair lie in the two halves of a word, at a position where one AND with a mask yields code * 2^p: an
// f16 subnormal, or, with the bit pattern of 1024.0, an f16 of 1024 + code * 2^p (plane.cuh). E4M3 codes are
// 8 bits, rearranged so that shifts and masks alone convert them to f16: a half word holds the signs of the
// codes of two pairs, the second's first, then their seven other bits in the same order. E2M1 codes are 4
// bits, rearranged in the same way (e2m1_field in plane.cuh).
//
// A strip is one stream of bytes: segments of 128 rows (32 rows for f16 weights), each with the scales of its
// groups before its tiles, so that one copy transfers everything that a warp needs for them. All tiles of a
// segment have one width, the largest among its rows: narrower codes are shifted to the same distance from
// the middle of the wider range, which changes no weight. Scales are one record if all rows share them,
// otherwise one record per step. Runs are consecutive segments of one form; all strips of a part have the
// same runs. After the last row there are zero weights up to the end of the segment.
//
// K is divided into chains of whole blocks of 128 rows: 8 chains if a thread block can compute two strips and
// the blocks still fill the card, otherwise 16. Sums are computed along a chain in order, then over the
// chains: over 8 in order, over 16 as ((c0 + c8) + (c1 + c9)) + (c2 + c10) + ... + (c7 + c15). This is a
// property of the matrix, so that no sum depends on the number of tokens or on the kernel that computes it.
#pragma once

#include <cstdint>

namespace quire::kernels {

constexpr int kStripColumns = 32;
constexpr int kStepRows = 32;
constexpr int kBlockSteps = 4;  // steps of a block of 128 rows
constexpr int kBlockRows = kBlockSteps * kStepRows;
constexpr int kMaxChainBits = 4;  // 16 chains
constexpr int kFewChainBits = 3;  // 8 chains
constexpr int kFewChains = 1 << kFewChainBits;
// Number of strips from which on blocks with two strips fill a card.
constexpr int kManyStrips = 512;
constexpr int kMaxRuns = 12;
constexpr int kMaxParts = 3;  // of one product; more parts take several products

// blocks has the tiles of block_tiles.h, trellis those of trellis_tiles.h. float8 has no tiles of this
// layout, only those of float8_shape.h, all of them in the first part.
enum class TileKind : int32_t { exl2, gptq, gptq8, fp8, mxfp4, dense, blocks, trellis, float8 };

// Returns the bytes of a record of scales; 0 for blocks, where the type decides, and for trellis:
// - exl2: [8] u16, where nibble q of number g is column g + 8q; then q_scale_max * prescale / 256 * 2^24 /
//   unit as f16, twice; then 12 unused bytes.
// - gptq (4 bits) and gptq8: f16 scales [8][4], then f16 [8][4], the offsets added to raw codes.
// - fp8: f32 scales [8][4], times kE4m3Unit.
// - mxfp4, for a block of 128 rows: for each step the upper bytes of f16 factors [8][4], which multiply its
//   weights; then the exponents, with a bias of 127, of the scales that multiply the sums, u8 [8][4].
constexpr uint32_t scale_bytes(TileKind kind) {
  switch (kind) {
    case TileKind::dense:
    case TileKind::blocks:
    case TileKind::trellis:
      return 0;
    case TileKind::exl2:
      return 32;
    case TileKind::mxfp4:
      return (kBlockSteps + 1) * kStripColumns;
    default:
      return 128;
  }
}
// Returns true if one record of a segment holds the scales of all of its steps, whatever their groups.
constexpr bool has_one_record(TileKind kind) {
  return kind == TileKind::mxfp4 || kind == TileKind::blocks || kind == TileKind::trellis;
}
// Weights of exl2 are scaled before they are multiplied: (code - middle) * scale / unit, rounded to f16. A
// code in the bits of an f16 is a subnormal, code * 2^-24, so records hold group scales times 2^24 / unit.
// The unit of a part is a power of two, chosen so that the largest of these is 64 to 128; a column's scale,
// up to 256 times as large, still fits f16. A weight below unit * 2^-14 is rounded to a multiple of unit *
// 2^-24, which is at most a 64th of the largest group scale; so is its error. The sums are multiplied by the
// unit at the end.
constexpr float kExl2CodeUnit = 16777216.0f;  // 2^24
constexpr float kMaxExl2Scale = 128.0f;
// Weights of mxfp4 in f16 are E2M1 / 2^14 times a factor. The factor is 2^15 for the group with the largest
// scale in a block, and at least 2^-16, or 0. A weight is exact if its scale is at least 2^-24 of the largest
// scale.
constexpr int kE2m1UnitExponent = 14;
constexpr int kMaxFactorExponent = 15;
constexpr int segment_steps(TileKind kind) {
  return kind == TileKind::dense ? 1 : kBlockSteps;
}

// Returns the number of copies in which the narrow kernel loads a segment with one record: a whole segment of
// 8 bits would leave no shared memory for a second thread block. The last piece is half of the tiles.
constexpr int segment_pieces(TileKind kind) {
  return kind == TileKind::fp8 ? 2 : 1;
}
constexpr uint32_t kLastPieceBytes = kBlockSteps / 2 * kStepRows * kStripColumns;

struct Run {
  int32_t first = 0;  // first segment
  int32_t end = 0;
  uint32_t first_byte = 0;     // offset in the strip
  uint32_t segment_bytes = 0;  // bytes of each segment
  int32_t bits = 0;            // of a code; blocks: the BlockType; trellis: trellis_form
  int32_t records = 0;         // records of scales in each segment: 1, kBlockSteps, or none
  bool operator==(const Run&) const = default;
};

// What a part of a trellis matrix has beside its tiles. Columns are those of its strips, whole transforms.
struct TrellisTerms {
  const float* input_scales = nullptr;   // [num_blocks, 128]
  const float* output_scales = nullptr;  // [columns]
  const int32_t* outputs = nullptr;      // [columns] column of the part's outputs, or -1
};

// Columns that came from one stored matrix.
struct Part {
  const uint8_t* strips = nullptr;
  uint32_t strip_bytes = 0;
  int32_t num_strips = 0;
  int32_t num_columns = 0;
  int32_t first_column = 0;  // column of the output
  int32_t num_runs = 0;
  Run runs[kMaxRuns];
  float unit = 1.0f;  // multiplies the sums
  TrellisTerms trellis;
};

// Matrix as kernels use it. If `paired`, strip j of the gate and strip j of the up matrix are multiplied by
// the same thread block.
struct Matrix {
  TileKind kind = TileKind::dense;
  int32_t num_parts = 0;
  int32_t num_rows = 0;     // K
  int32_t num_blocks = 0;   // blocks of 128 rows
  int32_t num_columns = 0;  // total of all parts
  int32_t num_strips = 0;   // total of all parts
  int32_t paired = 0;
  int32_t chain_bits = kMaxChainBits;  // K is divided into 2^chain_bits chains: see chain_bits_of
  uint32_t max_segment_bytes = 0;
  const float* bias = nullptr;  // [num_columns] or nullptr
  Part parts[kMaxParts];
};

// Returns the chain bits of a matrix with all its columns, or of a shard of it. The matrix of an expert is
// never split over blocks.
constexpr int32_t chain_bits_of(bool is_pair, bool is_expert, int32_t num_strips) {
  return is_pair || is_expert || num_strips >= kManyStrips ? kFewChainBits : kMaxChainBits;
}

// Matrix in device memory, for kernels that choose among several.
struct MatrixRecord {
  Matrix matrix;                       // num_parts is 0 if there is no matrix
  const int32_t* row_order = nullptr;  // stored row -> input feature; nullptr: in order
};

}  // namespace quire::kernels
