// Functions that one instruction set provides: single-threaded pieces of work as plain function pointers. The
// caller is responsible for checks, scratch memory and threads, so that code compiled with extra instructions
// is only reached through this struct.
//
// All instruction sets run the same code over vectors of 16 lanes (vector_*.h), with the same order of
// floating-point operations and fused multiply-adds in the same places: their results are equal bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/state/state_work.h"
#include "kernels/interface/block_codes.h"
#include "kernels/interface/op_params.h"
#include "kernels/interface/packed_experts.h"
#include "kernels/interface/trellis.h"

namespace quire::kernels {

inline constexpr int32_t kPanelColumns = kPackedColumns;
inline constexpr int32_t kBlockRows = kPackedRows;  // rows of a quantized block
// Blocks of 32 rows whose terms are a record, for terms with factors.
inline constexpr int32_t kFactorBlocks = 8;
inline constexpr int32_t kAttentionRows = 16;  // query rows of a tile
inline constexpr int32_t kSegmentKeys = 512;   // keys of a softmax segment, aligned to absolute positions
inline constexpr int32_t kMaxHeadDim = 512;

// Destination of a panel's columns: y = product * prescale + bias, stored or added.
struct PanelOutput {
  float* target = nullptr;      // first row, first column of the panel
  size_t stride = 0;            // floats from row to row
  const float* bias = nullptr;  // [16] or nullptr
  float prescale = 1.0f;
  int32_t columns = kPanelColumns;  // 1..16; the kernels set it from the last_columns of their panels
  bool accumulate = false;
};

// Activations of up to `max_tile_rows` rows as integers of 16 or of 8 bits: x = code * scale.
struct QuantTile {
  const int8_t* codes = nullptr;       // [blocks, rows, block bytes], in the order of the set's dots_*.h
  const float* scales = nullptr;       // [spans, rows]
  const int32_t* sums = nullptr;       // [blocks, rows] sum of the block's codes
  const int32_t* half_sums = nullptr;  // [blocks, rows] sum of its first 16 codes
  int32_t rows = 0;                    // a power of two, at most max_tile_rows
};

// Destination of one row in a tile of `tile_rows`.
struct QuantRowTarget {
  int8_t* codes = nullptr;
  float* scales = nullptr;
  int32_t* sums = nullptr;
  int32_t* half_sums = nullptr;
  int32_t row = 0;
  int32_t tile_rows = 0;
};

// One row of activations: blocks of 32 of `input`, gathered by `order` (-1 yields 0; nullptr: in order, zeros
// from num_in on).
struct QuantRowSource {
  const float* input = nullptr;
  const int32_t* order = nullptr;
  int32_t num_in = 0;
  int32_t num_blocks = 0;
};

inline constexpr int32_t kLineWords = 16;  // words of a cache line

// Terms of panels of blocks (interface/block_codes.h). Records of terms of 16 columns follow each other:
// first the f16 scales and minima, then for each block of 32 rows the bytes of its groups (weight_layout.h).
struct BlockPanels {
  const uint8_t* terms = nullptr;  // of the first panel
  size_t panel_bytes = 0;          // from the terms of one panel to those of the next
  BlockTerms kind = BlockTerms::half;
  int32_t bits = 0;
  bool is_split = false;  // the groups have 16 rows
  int32_t num_blocks = 0;
};

// Up to max_quant_panels adjacent panels of a quantized matrix. See weight.h for the layout.
struct QuantPanels {
  const QuantRun* runs = nullptr;
  int32_t num_runs = 0;
  int32_t num_groups = 0;                 // number of groups in all runs
  const int32_t* group_blocks = nullptr;  // [groups] blocks of 32 rows in each group
  const uint32_t* codes = nullptr;        // codes of the first panel
  size_t panel_words = 0;                 // words from the codes of one panel to those of the next
  // exl2, [panels, groups, 8]: scale index. Column 2i in the low half of byte i.
  const uint8_t* nibbles = nullptr;
  const float* scale_table = nullptr;  // exl2: [groups, 16] scale of each index
  // coded
  const uint8_t* zeros = nullptr;   // [panels, groups, 16]; nullptr: all zeros are zero_offset
  int32_t zero_offset = 0;          // added to a zero
  const uint8_t* values = nullptr;  // [16] values of the codes; nullptr: the codes themselves
  const void* scales = nullptr;     // [panels, groups, 16] f16, bf16, f32 or f8_e8m0
  DType scale_dtype = DType::f16;
  BlockPanels blocks;
  int32_t num_panels = 1;
  int32_t last_columns = kPanelColumns;  // columns of the last panel
  // Prefetch to the second-level cache by a full tile: starting at next_codes, next_lines lines per block
  // that the tile works on. The addresses need not be valid.
  const uint32_t* next_codes = nullptr;
  int32_t next_lines = 0;
};

// Adjacent panels of a dense matrix, [K][16] each.
struct DensePanels {
  DType dtype = DType::f16;
  const void* data = nullptr;
  size_t panel_bytes = 0;
  int32_t num_in = 0;
  int32_t num_panels = 1;
  int32_t last_columns = kPanelColumns;  // columns of the last panel
  // f8_e4m3: [panels, ceil(num_in / scale_rows), 16]
  const float* scales = nullptr;
  int32_t scale_rows = 0;  // rows that share a scale
};

// 128 columns of a matrix of EXL3: those of one Hadamard transform.
struct TrellisPanel {
  TrellisCodebook codebook = TrellisCodebook::three_inst;
  int32_t half_bits = 0;
  int32_t num_in = 0;
  // Bits of the tiles, in the order in which they are read: for each 128 rows 4 pairs of tiles side by side,
  // 8 pairs below each other, and for each pair the words of 16 bits of its 16 streams: [half_bits][16].
  // Streams 0..7 are those of the left tile: stream i has the weights of columns i and i + 8.
  const uint16_t* words = nullptr;
  const uint16_t* input_scales = nullptr;  // f16, [num_in padded to a multiple of 128]
  const float* output_scales = nullptr;    // [128], with the factor 1/128
};

// Largest number of rows that a trellis panel is multiplied with.
inline constexpr int32_t kTrellisRows = 32;

using TrellisProduct = void (*)(const TrellisPanel& panel, const float* input, size_t input_stride,
                                int32_t rows, float* output);

struct NormRow {
  NormKind kind = NormKind::rms;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float epsilon = 0.0f;
  int32_t columns = 0;
  bool accumulate = false;
};

// Normalises and rotates one token's q and k, then writes k and v to the cache.
struct AppendToken {
  const AppendKvParams* params = nullptr;
  int32_t token = 0;
  float query_factor = 1.0f;  // factor of the token's position
};

// Up to 16 query rows (token, head) that share a sequence and a KV head.
struct AttentionTile {
  const AttentionParams* params = nullptr;
  int32_t sequence = 0;
  int32_t kv_head = 0;
  int32_t first_row = 0;  // index among the sequence's rows, numbered token * (heads per KV head) + head
  int32_t rows = 0;
  float* query = nullptr;    // scratch [16, padded head_dim]
  float* keys = nullptr;     // scratch [padded head_dim, 16]
  float* values = nullptr;   // scratch [16, padded head_dim]
  float* weights = nullptr;  // scratch [16, 16]
};

// Online softmax state of the keys so far: sum over keys of exp(score - maximum) * (1, value).
struct AttentionState {
  float* sums = nullptr;         // [16, padded head_dim]
  float* maximum = nullptr;      // [16]
  float* denominator = nullptr;  // [16]
};

// Products of quantized panels with activations as integers of one size.
struct QuantKernels {
  int32_t max_tile_rows;  // largest rows of a QuantTile: a power of two
  void (*quantize_row)(const QuantRowSource& source, const QuantRowTarget& target);
  void (*quant_panels)(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output);
  void (*block_panels)(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output);
};

struct IsaKernels {
  const char* name;  // "scalar", "avx2", "avx512"
  int32_t max_quant_panels;
  QuantKernels full;  // 16-bit activations
  QuantKernels i8;    // 8-bit activations
  void (*dense_panels)(const DensePanels& panels, const float* input, size_t input_stride, int32_t rows,
                       const PanelOutput& output);
  // Computes [rows, 128] outputs of up to kTrellisRows rows.
  TrellisProduct trellis_panel;
  void (*embed_row)(DType dtype, const void* row, int32_t columns, float scale, float* out);
  void (*norm_row)(const NormRow& norm, const float* input, float* output);
  void (*activate)(const MlpSpec& spec, const float* gate, const float* up, float* output);
  void (*scale_logits)(float* logits, int64_t count, float scale, float softcap);
  void (*append_token)(const AppendToken& token);
  void (*attention_begin)(const AttentionTile& tile);  // fills tile.query
  // Adds the keys of one segment that the tile's rows attend to.
  void (*attention_segment)(const AttentionTile& tile, int32_t segment, const AttentionState& state);
  // Merges the state of `segment` into that of the segments before it.
  void (*attention_merge)(const AttentionTile& tile, int32_t segment, const AttentionState& part,
                          const AttentionState& total);
  void (*attention_finish)(const AttentionTile& tile, const AttentionState& total);
  StateKernels state;
  // For machine_limits.cpp; see limits_lanes.h.
  uint32_t (*read_once)(const void* memory, size_t bytes);
  int64_t (*dot_rounds)(const int8_t* x, int64_t rounds, int32_t* result);
};

// block_panels and trellis_panel of the instruction sets; they are compiled by themselves, because it takes
// as long as for all other kernels.
void scalar_block_panels(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output);
void scalar_trellis_panel(const TrellisPanel& panel, const float* input, size_t input_stride, int32_t rows,
                          float* output);
#if defined(__x86_64__)
void avx2_block_panels(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output);
void avx512_block_panels(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output);
void avx512_block_panels_i8(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output);
void avx2_trellis_panel(const TrellisPanel& panel, const float* input, size_t input_stride, int32_t rows,
                        float* output);
void avx512_trellis_panel(const TrellisPanel& panel, const float* input, size_t input_stride, int32_t rows,
                          float* output);
#endif

const IsaKernels& scalar_kernels();
#if defined(__x86_64__)
const IsaKernels* avx2_kernels();
const IsaKernels* avx512_kernels();
#endif

}  // namespace quire::kernels
