#include <algorithm>
#include <cstring>

#include "kernels/cpu/code_layout.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/weight.h"
#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

// Reads codes of a group's rows for 16 columns. Stored columns are looked up once for a panel.
struct PanelColumns {
  int32_t stored[kPanelColumns];
  int32_t count;
};

PanelColumns columns_of_panel(const WeightSource& source, int32_t panel) {
  PanelColumns columns{};
  columns.count = std::min(kPanelColumns, source.num_out - panel * kPanelColumns);
  for (int32_t lane = 0; lane < columns.count; ++lane) {
    columns.stored[lane] = stored_column(source, panel * kPanelColumns + lane);
  }
  return columns;
}

// Codes of one row of 16 columns; bit `bit` of the column's stream, which begins at packed row `first`.
void read_codes(const WeightSource& source, const uint32_t* words, int32_t first_packed_row, int32_t bit,
                int32_t bits, const PanelColumns& columns, uint8_t* codes) {
  const auto stride = static_cast<size_t>(source.padded_out);
  const uint32_t* low =
      words + (static_cast<size_t>(first_packed_row) + static_cast<size_t>(bit / 32)) * stride;
  const int32_t shift = bit % 32;
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

void fill_exl2_codes(const WeightSource& source, const PanelColumns& columns, uint32_t* target) {
  for (int32_t g = 0; g < source.exl2.num_groups; ++g) {
    const Exl2Group& group = source.exl2.groups[g];
    for (int32_t row = 0; row < group.num_rows; row += kBlockRows) {
      uint8_t codes[kBlockRows * kPanelColumns] = {};
      const int32_t rows = std::min(kBlockRows, group.num_rows - row);
      for (int32_t i = 0; i < rows; ++i) {
        read_codes(source, source.exl2.q_weight, group.first_packed_row, (row + i) * group.bits, group.bits,
                   columns, codes + ptrdiff_t{i} * kPanelColumns);
      }
      pack_block(group.bits, codes, target);
      target += ptrdiff_t{kPanelColumns} * group.bits;
    }
  }
}

void fill_gptq_codes(const WeightSource& source, const PartLayout& layout, const PanelColumns& columns,
                     uint32_t* target) {
  for (size_t row = 0; row < layout.stored_rows.size(); row += kBlockRows) {
    uint8_t codes[kBlockRows * kPanelColumns] = {};
    for (size_t i = 0; i < kBlockRows; ++i) {
      const int32_t stored = layout.stored_rows[row + i];
      if (stored < 0) continue;
      read_codes(source, source.gptq.q_weight, 0, 4 * stored, 4, columns, codes + i * kPanelColumns);
    }
    pack_block(4, codes, target);
    target += ptrdiff_t{kPanelColumns} * 4;
  }
}

// A row of 4-bit values, eight columns to a word, to 16 nibbles of the panel.
void fill_nibbles(const uint32_t* words, int32_t row, int32_t padded_out, const PanelColumns& columns,
                  uint8_t* target) {
  const uint32_t* first = words + static_cast<size_t>(row) * static_cast<size_t>(padded_out / 8);
  for (int32_t lane = 0; lane < columns.count; ++lane) {
    const int32_t column = columns.stored[lane];
    const uint32_t value = (first[column / 8] >> (4 * (column % 8))) & 15U;
    target[lane / 2] = static_cast<uint8_t>(target[lane / 2] | (value << (4 * (lane % 2))));
  }
}

void fill_panel(const WeightSource& source, const PartLayout& layout, int32_t panel, WeightPart& part) {
  const PanelColumns columns = columns_of_panel(source, panel);
  const auto index = static_cast<size_t>(panel);
  auto* codes = reinterpret_cast<uint32_t*>(part.data.as<uint8_t>() + index * part.panel_bytes);
  const bool exl2 = source.format == WeightFormat::exl2;
  const size_t first_group = index * static_cast<size_t>(part.num_groups);
  if (exl2) {
    fill_exl2_codes(source, columns, codes);
  } else {
    fill_gptq_codes(source, layout, columns, codes);
  }
  for (int32_t g = 0; g < part.num_groups; ++g) {
    const size_t group = first_group + static_cast<size_t>(g);
    fill_nibbles(exl2 ? source.exl2.q_scale : source.gptq.q_zeros, g, source.padded_out, columns,
                 part.nibbles.as<uint8_t>() + group * (kPanelColumns / 2));
    if (exl2) continue;
    const uint16_t* scales =
        source.gptq.scales + static_cast<size_t>(g) * static_cast<size_t>(source.padded_out);
    for (int32_t lane = 0; lane < columns.count; ++lane) {
      part.scales.as<uint16_t>()[group * kPanelColumns + static_cast<size_t>(lane)] =
          scales[columns.stored[lane]];
    }
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

void prepare_quantized_part(Device& device, const WeightSource& source, const PartLayout& layout,
                            WeightPart& part) {
  const bool exl2 = source.format == WeightFormat::exl2;
  part.order_idx = layout.order_idx;
  part.num_groups = layout.num_groups;
  part.runs = layout.runs;
  part.group_blocks = layout.group_blocks;
  part.panel_bytes = layout.panel_bytes;
  part.data = AlignedBuffer(device.meter, layout.data_bytes);
  part.nibbles = AlignedBuffer(device.meter, layout.nibble_bytes);
  part.scale_table = AlignedBuffer(device.meter, layout.scale_table_bytes);
  part.scales = AlignedBuffer(device.meter, layout.scale_bytes);
  if (exl2) {
    for (size_t g = 0; g < static_cast<size_t>(layout.num_groups); ++g) {
      exl2_scale_table(source.exl2.q_scale_max[g], source.prescale, part.scale_table.as<float>() + g * 16);
    }
  } else {
    part.prescale = source.prescale;
    part.zero_offset = source.gptq.zero_offset;
  }
  device.pool.share(part.num_panels, 1, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t panel = first; panel < last; ++panel) {
      fill_panel(source, layout, static_cast<int32_t>(panel), part);
    }
  });
}

}  // namespace quire::kernels
