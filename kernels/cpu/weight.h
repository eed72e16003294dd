// Prepared matrices.
//
// A matrix is cut into panels of 16 columns. A panel is contiguous, so a thread that works through its panels
// reads memory in one stream. Every part (q, k, v) begins a new panel.
//
// Quantized: blocks of 32 rows, groups of blocks. Groups that do not fill their last block are padded with
// rows of code 0 whose input index is -1, read as 0. Dense: [K][16] of the stored type; for f8_e4m3 the
// scales of the columns are stored separately.
//
// A panel of a trellis is 128 columns, those of one Hadamard transform (TrellisPanel has its layout). Only
// panels that an output reads are kept.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/aligned_buffer.h"
#include "kernels/cpu/isa/isa_kernels.h"
#include "kernels/cpu/weight_layout.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

// Values of codes; see CodedSource.
struct CodedTerms {
  AlignedBuffer zeros;  // [panels, groups, 16], or empty
  int32_t zero_offset = 0;
  bool has_values = false;
  uint8_t values[16] = {};
  DType scale_dtype = DType::f16;
};

// What a matrix of EXL3 has beside its tiles.
struct TrellisTerms {
  TrellisCodebook codebook = TrellisCodebook::three_inst;
  int32_t half_bits = 0;
  AlignedBuffer input_scales;          // f16 [num_in padded to a multiple of 128]
  AlignedBuffer output_scales;         // f32 [num_panels, 128], with prescale and the factor 1/128
  AlignedBuffer runs;                  // OutputRun, panel after panel
  std::vector<int32_t> runs_of_panel;  // [num_panels + 1], first run of each panel
};

struct WeightPart {
  WeightFormat format = WeightFormat::dense;
  int32_t num_out = 0;
  int32_t num_panels = 0;
  float prescale = 1.0f;  // multiplies the product; EXL2 includes it in its scales
  AlignedBuffer bias;     // f32 [num_panels, 16], for a trellis [num_out], or empty

  AlignedBuffer data;  // codes or dense values, panel after panel
  size_t panel_bytes = 0;
  DType dtype = DType::f16;  // dense

  int32_t order_idx = 0;   // quantized: index into Weight::orders of its row order
  int32_t num_groups = 0;  // f8_e4m3: of scale_rows rows each
  int32_t scale_rows = 0;
  std::vector<QuantRun> runs;
  std::vector<int32_t> group_blocks;  // [groups]
  AlignedBuffer nibbles;              // exl2: [panels, groups, 8] scale index, column 2i in the low half
  AlignedBuffer scale_table;          // exl2: f32 [groups, 16]
  AlignedBuffer scales;               // coded: [panels, groups, 16] of scale_dtype; f8_e4m3: the same of f32
  CodedTerms coded;
  BlockType block_type = BlockType::none;
  AlignedBuffer terms;  // blocks: panel after panel of records (weight_layout.h)
  size_t panel_term_bytes = 0;
  TrellisTerms trellis;

  // f8_e4m3: [num_groups, 16]
  float* panel_scales(int64_t panel) const {
    return scales.as<float>() + static_cast<size_t>(panel) * static_cast<size_t>(num_groups) * kPanelColumns;
  }
};

// Input feature that each row of the blocks reads.
struct RowOrder {
  AlignedBuffer features;  // i32 [num_rows], -1: none
  size_t num_rows = 0;     // padded K
  bool identity = false;   // feature k at row k: no gathering
  int32_t num_blocks() const { return static_cast<int32_t>(num_rows) / kBlockRows; }
};

// Immutable once made; shared by all contexts of its device.
struct Weight {
  int32_t num_in = 0;
  int32_t num_out = 0;  // sum over all parts; for a table: its columns
  std::vector<WeightPart> parts;
  std::vector<RowOrder> orders;
  ActivationDtype activations = ActivationDtype::full;  // format of the activations of quantized parts

  bool is_table = false;
  DType table_dtype = DType::f16;
  BlockType table_blocks = BlockType::none;  // type of the blocks of its rows, or none
  int32_t table_rows = 0;
  AlignedBuffer table_data;
};

struct Device;

// Allocate the memory of the layout and fill it; throw std::bad_alloc. The pool's threads share the panels.
void prepare_dense_part(Device& device, const WeightSource& source, const PartLayout& layout,
                        WeightPart& part);
void prepare_exl2_part(Device& device, const WeightSource& source, const PartLayout& layout,
                       WeightPart& part);
void prepare_coded_part(Device& device, const WeightSource& source, const PartLayout& layout,
                        WeightPart& part);
void prepare_block_part(Device& device, const WeightSource& source, const PartLayout& layout,
                        WeightPart& part);
void prepare_trellis_part(Device& device, const WeightSource& source, const PartLayout& layout,
                          WeightPart& part);

// Returns the quad of a block's layout (code_layout.h) that holds quad `quad` of its rows; see quad_of_take.
constexpr int32_t layout_quad(const BlockForm& form, int32_t quad) {
  constexpr int32_t kSplitSix[] = {0, 1, 2, 6, 3, 4, 5, 7};
  return form.bits == 6 && form.group < kBlockRows ? kSplitSix[quad] : quad;
}

// Stored columns of a panel, looked up once.
struct PanelSource {
  int32_t stored[kPanelColumns];
  int32_t count;
};
inline PanelSource columns_of_panel(const WeightSource& source, int32_t panel) {
  PanelSource columns{};
  const int32_t left = source.num_out - panel * kPanelColumns;
  columns.count = left < kPanelColumns ? left : kPanelColumns;
  for (int32_t lane = 0; lane < columns.count; ++lane)
    columns.stored[lane] = stored_column(source, panel * kPanelColumns + lane);
  return columns;
}

// Computes the scale of each index of an EXL2 group: f16(f16((index + 1)^2) * f16(ceiling * prescale / 256)).
void exl2_scale_table(uint16_t scale_max, float prescale, float* table);

}  // namespace quire::kernels
