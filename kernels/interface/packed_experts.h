// Matrices as the CPU backend holds them (kernels/cpu/weight.h), for a backend that copies them to its device
// and multiplies them there with the same bits. Only EXL2 has this form.
//
// A panel is 16 columns. Its codes are blocks of 32 rows, block after block in the order of the groups. A
// block of `bits` bits is `bits` vectors of 16 words, one word for each column (kernels/cpu/code_layout.h). A
// group is whole blocks; rows that fill its last block have code 0 and read no input.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/interface/specs.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

inline constexpr int32_t kPackedColumns = 16;  // of a panel
inline constexpr int32_t kPackedRows = 32;     // of a block
inline constexpr int32_t kSpanBlocks = 4;      // blocks of activations that share a scale
inline constexpr int32_t kSpanRows = kSpanBlocks * kPackedRows;
inline constexpr int32_t kMaxPackedParts = 2;  // gate and up

// Consecutive groups of one width.
struct QuantRun {
  int32_t bits = 0;
  int32_t num_groups = 0;
};

// Input features that the rows of the blocks read.
struct PackedOrder {
  const int32_t* features = nullptr;  // [num_rows], -1: none
  int32_t num_rows = 0;               // of whole blocks

  int32_t num_blocks() const { return num_rows / kPackedRows; }
  int32_t num_spans() const { return (num_blocks() - 1) / kSpanBlocks + 1; }
};

struct PackedPart {
  int32_t num_out = 0;
  int32_t num_panels = 0;
  PackedOrder order;
  const QuantRun* runs = nullptr;
  int32_t num_runs = 0;
  int32_t num_groups = 0;                 // of all runs
  const int32_t* group_blocks = nullptr;  // [num_groups]
  const void* codes = nullptr;            // panel after panel
  size_t panel_bytes = 0;
  const uint8_t* nibbles = nullptr;  // [num_panels, num_groups, 8] index of a column's scale, low half first
  const float* scale_table = nullptr;  // [num_groups, 16] scale of each index
  const float* bias = nullptr;         // [num_panels, 16], or nullptr

  size_t code_bytes() const { return static_cast<size_t>(num_panels) * panel_bytes; }
  size_t nibble_bytes() const {
    return static_cast<size_t>(num_panels) * static_cast<size_t>(num_groups) * (kPackedColumns / 2);
  }
  size_t table_bytes() const { return static_cast<size_t>(num_groups) * kPackedColumns * sizeof(float); }
  size_t bias_bytes() const {
    return bias == nullptr ? 0 : static_cast<size_t>(num_panels) * kPackedColumns * sizeof(float);
  }
};

// Borrowed from the weight.
struct PackedWeight {
  int32_t num_in = 0;
  int32_t num_out = 0;
  ActivationDtype activations = ActivationDtype::full;
  PackedPart parts[kMaxPackedParts];
  int32_t num_parts = 0;
};

// True if describe_weight of the CPU describes a matrix with these parts.
inline bool is_packed_form(const WeightSource* parts, size_t num_parts) {
  for (size_t i = 0; i < num_parts; ++i)
    if (parts[i].format != WeightFormat::exl2) return false;
  return num_parts > 0 && num_parts <= static_cast<size_t>(kMaxPackedParts);
}

// Matrices of one expert: gate and up, or up alone, and down.
struct PackedExpert {
  PackedWeight gate_up;
  PackedWeight down;
};

// A copy within host memory.
struct CopyPiece {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
};

// Sizes of the memory in which a card multiplies packed experts; each is the largest of any layer.
struct PackedExpertLimits {
  uint64_t staging_bytes = 0;  // of each of two buffers: staging_bytes of the experts; 0: there are none
  uint64_t slot_bytes = 0;     // of a slot: slot_bytes of the largest expert
  int32_t num_slots = 0;       // experts that stay on the card between steps
  int32_t num_experts = 0;
  int32_t num_chosen = 0;
  int32_t max_tokens = 0;  // of one call
  int32_t num_in = 0;      // inputs of gate and up
  int32_t products = 0;    // outputs of gate and up
  int32_t activated = 0;   // inputs of down
  int32_t num_out = 0;     // outputs of down
};

// Largest number of tokens of start_slot_experts, which bounds the memory for their outputs.
inline constexpr int32_t kMaxSlotTokens = 64;

// Returns a bound of the bytes that an expert takes on a device: its matrices, whose weight_bytes are
// `bytes`, and the tables by which kernels find their groups.
constexpr uint64_t staged_limit(uint64_t bytes) {
  return bytes + bytes / 8 + 4096;
}
// Returns the bytes of a slot for an expert whose weight_bytes are `bytes` and whose narrowest matrix has
// `num_out` outputs. Its tables take a twenty-fifth of the codes of one panel.
constexpr uint64_t slot_bytes(uint64_t bytes, int32_t num_out) {
  const int32_t panels = (num_out - 1) / kPackedColumns + 1;
  return (bytes + bytes / (16 * static_cast<uint64_t>(panels)) + 4096 + 255) / 256 * 256;
}
// Returns the bytes of a staging buffer for experts of which the largest takes `bytes`: several fit, so that
// their products fill a card.
constexpr uint64_t staging_bytes(uint64_t bytes, int32_t num_experts) {
  constexpr uint64_t kSeveral = uint64_t{16} << 20;
  const uint64_t one = staged_limit(bytes), all = one * static_cast<uint64_t>(num_experts);
  return one > kSeveral ? one : all < kSeveral ? all : kSeveral;
}

// Slot of an expert in the memory of a card, and whether the expert is there.
struct ExpertPlace {
  int32_t slot = -1;  // -1: none
  bool is_filled = false;

  bool is_there() const { return slot >= 0 && is_filled; }
};

// sums[t] = sum over i of weights[t, i] * (row t * num_chosen + i of the outputs of down), in order of i.
// Everything lies in host memory. Row r reads input row r / num_chosen times input_scale[r].
struct PackedExpertsParams {
  void* owner = nullptr;  // first argument of the functions
  Status (*describe)(void* owner, int32_t expert, PackedExpert* described) = nullptr;
  // Copies the pieces, with all threads of the host. They do not overlap.
  Status (*copy)(void* owner, const CopyPiece* pieces, int32_t count) = nullptr;
  const int32_t* expert_of_row = nullptr;  // [tokens * num_chosen]
  const float* input = nullptr;            // [tokens, inputs of gate and up]
  const float* input_scale = nullptr;      // [tokens * num_chosen] or nullptr
  const float* weights = nullptr;          // [tokens * num_chosen], or nullptr: ones, as with input_scale
  const ExpertPlace* places = nullptr;     // [num_experts], or nullptr: no expert has a slot
  int32_t num_experts = 0;
  int32_t num_chosen = 0;
  int32_t tokens = 0;
  MlpSpec mlp;  // not sparse
  const float** sums =
      nullptr;  // out: [tokens, outputs of down], valid until the next operation of the context
};

}  // namespace quire::kernels
