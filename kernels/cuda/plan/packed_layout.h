// Packed experts on a card: how the matrices of an expert, as the CPU backend holds them, lie in a staging
// buffer or a slot, and the tables by which kernels walk through them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/interface/packed_experts.h"

namespace quire::kernels {

// Blocks of a group within a span: their products have exact integer sums, then one scale.
struct PackedSegment {
  uint16_t group = 0;
  uint8_t bits = 0;
  uint8_t num_blocks = 0;  // 1 to kSpanBlocks
};

// A part of a matrix in device memory.
struct PackedMatrix {
  const uint32_t* codes = nullptr;
  const uint8_t* nibbles = nullptr;
  const float* scale_table = nullptr;
  const float* bias = nullptr;
  const PackedSegment* segments = nullptr;  // of a panel, in the order of its blocks
  const uint32_t* span_words = nullptr;     // [num_spans + 1] first word of each span's codes in a panel
  const int32_t* features = nullptr;        // PackedOrder
  int32_t num_spans = 0;
  int32_t num_blocks = 0;
  int32_t panel_words = 0;
  int32_t num_groups = 0;
  int32_t num_panels = 0;
  int32_t num_out = 0;
  int32_t order = 0;  // 0, or 1 for the second part of gate and up if it reads the inputs in another order
};

// The matrices of an expert: gate and up, or up alone, then down.
inline constexpr int32_t kPackedDown = kMaxPackedParts;
struct PackedRecord {
  PackedMatrix matrices[kMaxPackedParts + 1];
};

// Alignment of everything in a staging buffer or a slot.
inline constexpr size_t kPackedAlignment = 16;
// Bytes of a record at the beginning of its expert.
inline constexpr size_t kRecordBytes =
    (sizeof(PackedRecord) + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;

// Rows of one expert that are multiplied together.
inline constexpr int32_t kPackedTileRows = 64;
struct PackedTile {
  uint32_t record = 0;    // place of the expert's record, in units of kPackedAlignment
  int32_t first_row = 0;  // among the rows sorted by expert
  int32_t num_rows = 0;
};

// Copies that an expert needs, at most.
inline constexpr int32_t kMaxExpertPieces = 5 * (kMaxPackedParts + 1);

// Returns the bytes of an expert with its record; 0 if kernels cannot walk through it.
size_t staged_bytes(const PackedExpert& expert);

// Lays an expert out at an address of a pinned buffer, for a copy to an address of the card. Writes the
// record and the tables, and adds the other copies into the pinned buffer to `copies`. Returns staged_bytes.
struct StagingPlace {
  uint8_t* host = nullptr;
  const uint8_t* device = nullptr;
};
struct PieceList {
  CopyPiece* pieces = nullptr;
  int32_t count = 0;
};
size_t stage_expert(const PackedExpert& expert, const StagingPlace& place, PieceList& copies);

// Sizes of the buffers of a context.
struct PackedSizes {
  size_t staging_bytes = 0;  // of each staging buffer: on the card, and pinned
  size_t slot_bytes = 0;
  size_t num_slots = 0;
  size_t num_rows = 0;  // rows of experts in one call
  size_t num_tiles = 0;
  size_t batch_rows = 0;    // rows whose activations are held at a time, if padding adds none
  size_t code_bytes = 0;    // integer activations, for the inputs in two orders
  size_t scale_floats = 0;  // their scales, likewise
  size_t product_floats = 0;
  size_t output_floats = 0;
  size_t token_floats = 0;     // inputs, later sums, of the tokens
  size_t returned_floats = 0;  // outputs of start_slot_experts
};
PackedSizes packed_sizes(const PackedExpertLimits& limits);

}  // namespace quire::kernels
