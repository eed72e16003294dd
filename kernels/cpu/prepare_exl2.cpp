#include <algorithm>
#include <cstring>

#include "kernels/cpu/code_layout.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/weight.h"
#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

// Reads codes of 16 columns in one row of a group: the codes of a column form a contiguous bit stream.
void read_codes(const WeightSource& source, const Exl2Group& group, int32_t row, const PanelSource& columns,
                uint8_t* codes) {
  const auto stride = static_cast<size_t>(source.padded_out);
  const int32_t bits = group.bits;
  const auto packed_row = static_cast<size_t>(group.first_packed_row) + static_cast<size_t>(row * bits / 32);
  const uint32_t* low = source.exl2.q_weight + packed_row * stride;
  const int32_t shift = row * bits % 32;
  const bool straddles = shift + bits > 32;
  const uint32_t* high = straddles ? low + stride : low;
  const uint32_t mask = (1U << bits) - 1U;
  for (int32_t lane = 0; lane < columns.count; ++lane) {
    const auto column = static_cast<size_t>(columns.stored[lane]);
    uint32_t value = low[column] >> shift;
    if (straddles) value |= high[column] << (32 - shift);
    codes[lane] = static_cast<uint8_t>(value & mask);
  }
}

void fill_exl2_codes(const WeightSource& source, const PanelSource& columns, uint32_t* target) {
  for (int32_t g = 0; g < source.exl2.num_groups; ++g) {
    const Exl2Group& group = source.exl2.groups[g];
    for (int32_t row = 0; row < group.num_rows; row += kBlockRows) {
      uint8_t codes[kBlockRows * kPanelColumns] = {};
      const int32_t rows = std::min(kBlockRows, group.num_rows - row);
      for (int32_t i = 0; i < rows; ++i) {
        read_codes(source, group, row + i, columns, codes + ptrdiff_t{i} * kPanelColumns);
      }
      pack_block(group.bits, codes, target);
      target += ptrdiff_t{kPanelColumns} * group.bits;
    }
  }
}

// Converts a row of 4-bit values, eight columns per word, to 16 nibbles of the panel.
void fill_nibbles(const uint32_t* words, int32_t row, int32_t padded_out, const PanelSource& columns,
                  uint8_t* target) {
  const uint32_t* first = words + static_cast<size_t>(row) * static_cast<size_t>(padded_out / 8);
  for (int32_t lane = 0; lane < columns.count; ++lane) {
    const int32_t column = columns.stored[lane];
    const uint32_t value = (first[column / 8] >> (4 * (column % 8))) & 15U;
    target[lane / 2] = static_cast<uint8_t>(target[lane / 2] | (value << (4 * (lane % 2))));
  }
}

void fill_panel(const WeightSource& source, int32_t panel, WeightPart& part) {
  const PanelSource columns = columns_of_panel(source, panel);
  const auto index = static_cast<size_t>(panel);
  fill_exl2_codes(source, columns,
                  reinterpret_cast<uint32_t*>(part.data.as<uint8_t>() + index * part.panel_bytes));
  for (int32_t g = 0; g < part.num_groups; ++g) {
    const size_t group = index * static_cast<size_t>(part.num_groups) + static_cast<size_t>(g);
    fill_nibbles(source.exl2.q_scale, g, source.padded_out, columns,
                 part.nibbles.as<uint8_t>() + group * (kPanelColumns / 2));
  }
}

}  // namespace

void exl2_scale_table(uint16_t scale_max, float prescale, float* table) {
  const float ceiling = round_to_half(half_to_float(scale_max) * (prescale / 256.0f));
  for (int32_t index = 0; index < 16; ++index) {
    const auto square = static_cast<float>((index + 1) * (index + 1));
    table[index] = round_to_half(square * ceiling);
  }
}

void prepare_exl2_part(Device& device, const WeightSource& source, const PartLayout& layout,
                       WeightPart& part) {
  part.nibbles = AlignedBuffer(device.meter, layout.nibble_bytes);
  part.scale_table = AlignedBuffer(device.meter, layout.scale_table_bytes);
  for (size_t g = 0; g < static_cast<size_t>(layout.num_groups); ++g)
    exl2_scale_table(source.exl2.q_scale_max[g], source.prescale, part.scale_table.as<float>() + g * 16);
  device.pool.share(part.num_panels, 1, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t panel = first; panel < last; ++panel) fill_panel(source, static_cast<int32_t>(panel), part);
  });
}

}  // namespace quire::kernels
