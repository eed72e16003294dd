#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/cpu/code_layout.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/weight.h"
#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

// The rows of a matrix as they will lie: stored row of each row of the blocks (-1: padding), and the group
// that each block belongs to.
struct Arrangement {
  std::vector<int32_t> stored_rows;
  std::vector<int32_t> group_blocks;
  std::vector<int32_t> group_bits;
};

void pad_to_block(Arrangement& rows, size_t group_start) {
  while ((rows.stored_rows.size() - group_start) % kBlockRows != 0) rows.stored_rows.push_back(-1);
  rows.group_blocks.push_back(static_cast<int32_t>((rows.stored_rows.size() - group_start) / kBlockRows));
}

Arrangement arrange_exl2(const WeightSource& source) {
  Arrangement rows;
  for (int32_t g = 0; g < source.exl2.num_groups; ++g) {
    const Exl2Group& group = source.exl2.groups[g];
    const size_t start = rows.stored_rows.size();
    for (int32_t i = 0; i < group.num_rows; ++i) rows.stored_rows.push_back(group.first_row + i);
    pad_to_block(rows, start);
    rows.group_bits.push_back(group.bits);
  }
  return rows;
}

// Rows of a group are brought together, in their stored order.
Arrangement arrange_gptq(const WeightSource& source) {
  const GptqSource& gptq = source.gptq;
  std::vector<int32_t> order(static_cast<size_t>(source.num_in));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return gptq.group_of_row[a] < gptq.group_of_row[b]; });
  Arrangement rows;
  size_t next = 0;
  for (int32_t g = 0; g < gptq.num_groups; ++g) {
    const size_t start = rows.stored_rows.size();
    for (; next < order.size() && gptq.group_of_row[order[next]] == g; ++next) {
      rows.stored_rows.push_back(order[next]);
    }
    pad_to_block(rows, start);
    rows.group_bits.push_back(4);
  }
  return rows;
}

// Adds the order of these rows to the weight's, or finds it there.
int32_t find_order(const WeightSource& source, const Arrangement& rows, std::vector<RowOrder>& orders) {
  RowOrder order;
  order.identity = true;
  for (size_t k = 0; k < rows.stored_rows.size(); ++k) {
    const int32_t stored = rows.stored_rows[k];
    const int32_t feature = stored < 0 || source.row_order == nullptr ? stored : source.row_order[stored];
    const auto row = static_cast<int32_t>(k);
    order.identity = order.identity && (feature == row || (feature < 0 && row >= source.num_in));
    order.features.push_back(feature);
  }
  for (size_t i = 0; i < orders.size(); ++i) {
    if (orders[i].features == order.features) return static_cast<int32_t>(i);
  }
  orders.push_back(std::move(order));
  return static_cast<int32_t>(orders.size() - 1);
}

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
                   columns, codes + i * kPanelColumns);
      }
      pack_block(group.bits, codes, target);
      target += kPanelColumns * group.bits;
    }
  }
}

void fill_gptq_codes(const WeightSource& source, const Arrangement& rows, const PanelColumns& columns,
                     uint32_t* target) {
  for (size_t row = 0; row < rows.stored_rows.size(); row += kBlockRows) {
    uint8_t codes[kBlockRows * kPanelColumns] = {};
    for (size_t i = 0; i < kBlockRows; ++i) {
      const int32_t stored = rows.stored_rows[row + i];
      if (stored < 0) continue;
      read_codes(source, source.gptq.q_weight, 0, 4 * stored, 4, columns, codes + i * kPanelColumns);
    }
    pack_block(4, codes, target);
    target += kPanelColumns * 4;
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

void fill_panel(const WeightSource& source, const Arrangement& rows, int32_t panel, WeightPart& part) {
  const PanelColumns columns = columns_of_panel(source, panel);
  const auto index = static_cast<size_t>(panel);
  auto* codes = reinterpret_cast<uint32_t*>(part.data.as<uint8_t>() + index * part.panel_bytes);
  const bool exl2 = source.format == WeightFormat::exl2;
  const size_t first_group = index * static_cast<size_t>(part.num_groups);
  if (exl2) {
    fill_exl2_codes(source, columns, codes);
  } else {
    fill_gptq_codes(source, rows, columns, codes);
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

void find_runs(const Arrangement& rows, WeightPart& part) {
  size_t blocks_times_bits = 0;
  for (size_t g = 0; g < rows.group_bits.size(); ++g) {
    if (part.runs.empty() || part.runs.back().bits != rows.group_bits[g]) {
      part.runs.push_back({rows.group_bits[g], 0});
    }
    ++part.runs.back().num_groups;
    blocks_times_bits += static_cast<size_t>(rows.group_blocks[g]) * static_cast<size_t>(rows.group_bits[g]);
  }
  part.group_blocks = rows.group_blocks;
  part.num_groups = static_cast<int32_t>(rows.group_bits.size());
  part.panel_bytes = blocks_times_bits * kPanelColumns * sizeof(uint32_t);
}

}  // namespace

void exl2_scale_table(uint16_t scale_max, float prescale, float* table) {
  const float ceiling = round_to_half(half_to_float(scale_max) * (prescale / 256.0f));
  for (int32_t index = 0; index < 16; ++index) {
    const auto square = static_cast<float>((index + 1) * (index + 1));
    table[index] = round_to_half(square * ceiling);
  }
}

void prepare_quantized_part(ThreadPool& pool, const WeightSource& source, Weight& weight, WeightPart& part) {
  const bool exl2 = source.format == WeightFormat::exl2;
  const Arrangement rows = exl2 ? arrange_exl2(source) : arrange_gptq(source);
  part.order_idx = find_order(source, rows, weight.orders);
  find_runs(rows, part);
  const size_t panels = static_cast<size_t>(part.num_panels);
  const size_t groups = static_cast<size_t>(part.num_groups);
  part.data = AlignedBuffer(part.panel_bytes * panels);
  part.nibbles = AlignedBuffer(panels * groups * (kPanelColumns / 2));
  if (exl2) {
    part.scale_table = AlignedBuffer(groups * 16 * sizeof(float));
    for (size_t g = 0; g < groups; ++g) {
      exl2_scale_table(source.exl2.q_scale_max[g], source.prescale, part.scale_table.as<float>() + g * 16);
    }
  } else {
    part.prescale = source.prescale;
    part.zero_offset = source.gptq.zero_offset;
    part.scales = AlignedBuffer(panels * groups * kPanelColumns * sizeof(uint16_t));
  }
  pool.share(part.num_panels, 1, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t panel = first; panel < last; ++panel) {
      fill_panel(source, rows, static_cast<int32_t>(panel), part);
    }
  });
}

}  // namespace quire::kernels
