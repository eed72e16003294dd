#include <algorithm>
#include <cstring>

#include "kernels/cpu/code_layout.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/weight.h"
#include "kernels/interface/block_codes.h"

namespace quire::kernels {
namespace {

uint16_t negative(uint16_t half) {
  return static_cast<uint16_t>(half ^ 0x8000U);
}

// Writes the terms of one column and up to 256 rows: see TermRecord.
class TermWriter {
 public:
  TermWriter(const BlockForm& form, uint8_t* records)
      : form_(form), record_(term_record(form)), next_(records) {}

  void write(const BlockCodes& block, int32_t num_blocks, size_t lane) {
    uint8_t* at = next_;
    for (int32_t first = 0; first < num_blocks; first += record_.blocks, at += record_.bytes()) {
      uint8_t* bytes = at;
      if (record_.halves > 0) bytes = write_half(bytes, lane, block.scales[first]);
      if (record_.halves > 1) bytes = write_half(bytes, lane, negative(block.mins[first]));
      for (int32_t b = first; b < first + record_.blocks && record_.block_bytes > 0; ++b)
        bytes = write_bytes(bytes, block, b, lane);
    }
    end_ = at;
  }
  // Continues with the rows after those that were written for all columns.
  void advance() { next_ = end_; }

 private:
  static uint8_t* write_half(uint8_t* bytes, size_t lane, uint16_t half) {
    std::memcpy(bytes + lane * sizeof half, &half, sizeof half);
    return bytes + kPanelColumns * sizeof half;
  }
  uint8_t* write_bytes(uint8_t* bytes, const BlockCodes& block, int32_t b, size_t lane) const {
    const int32_t groups = kBlockRows / form_.group;
    for (int32_t g = b * groups; g < (b + 1) * groups; ++g, bytes += kPanelColumns)
      bytes[lane] = block.group_scales[g];
    if (form_.terms != BlockTerms::bytes_min) return bytes;
    bytes[lane] = block.group_mins[b];
    return bytes + kPanelColumns;
  }

  const BlockForm& form_;
  const TermRecord record_;
  uint8_t* next_;
  uint8_t* end_ = nullptr;
};

// Places the codes of one column into blocks of [32][16] codes.
void place_codes(const BlockForm& form, const uint8_t* stored, int32_t rows, size_t lane, uint8_t* codes) {
  for (int32_t quad = 0; quad < rows / 4; ++quad) {
    const int32_t first = quad / 8 * kBlockRows + 4 * layout_quad(form, quad % 8);
    for (int32_t i = 0; i < 4; ++i)
      codes[static_cast<size_t>(first + i) * kPanelColumns + lane] = stored[4 * quad + i];
  }
}

void fill_panel(const WeightSource& source, int32_t panel, WeightPart& part) {
  const PanelSource columns = columns_of_panel(source, panel);
  const BlockShape& shape = block_shape(part.block_type);
  const BlockForm& form = block_form(part.block_type);
  const size_t row_bytes = block_row_bytes(part.block_type, source.num_in);
  const auto index = static_cast<size_t>(panel);
  auto* words = reinterpret_cast<uint32_t*>(part.data.as<uint8_t>() + index * part.panel_bytes);
  TermWriter terms(form, part.terms.as<uint8_t>() + index * part.panel_term_bytes);
  const auto* blocks = static_cast<const uint8_t*>(source.blocks.data);
  uint8_t codes[static_cast<size_t>(kMaxBlockWeights) * kPanelColumns] = {};
  BlockCodes block = {};
  for (int32_t first = 0; first < source.num_in; first += shape.weights) {
    const size_t offset = block_row_bytes(part.block_type, first);
    for (int32_t lane = 0; lane < columns.count; ++lane) {
      const auto column = static_cast<size_t>(columns.stored[lane]);
      read_block(part.block_type, blocks + column * row_bytes + offset, block);
      place_codes(form, block.codes, shape.weights, static_cast<size_t>(lane), codes);
      terms.write(block, shape.weights / kBlockRows, static_cast<size_t>(lane));
    }
    terms.advance();
    for (int32_t row = 0; row < shape.weights; row += kBlockRows) {
      pack_block(form.bits, codes + static_cast<size_t>(row) * kPanelColumns, words);
      words += ptrdiff_t{kPanelColumns} * form.bits;
    }
  }
}

}  // namespace

void prepare_block_part(Device& device, const WeightSource& source, const PartLayout& layout,
                        WeightPart& part) {
  part.block_type = source.blocks.type;
  part.prescale = source.prescale * block_form(part.block_type).factor;
  part.panel_term_bytes = layout.panel_term_bytes;
  part.terms = AlignedBuffer(device.meter, layout.term_bytes);
  device.pool.share(part.num_panels, 1, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t panel = first; panel < last; ++panel) fill_panel(source, static_cast<int32_t>(panel), part);
  });
}

}  // namespace quire::kernels
