#include <cstring>

#include "kernels/cpu/code_layout.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/linear_trellis.h"
#include "kernels/cpu/table_entries.h"
#include "kernels/cpu/weight.h"
#include "kernels/interface/block_codes.h"
#include "kernels/interface/half.h"

namespace quire::kernels::cpu_entries {
namespace {

// Destination of a panel's values: rows of input features, columns from first_column on of the whole matrix.
struct Target {
  float* host;
  size_t row_floats;
  size_t first_column;
  int32_t columns;
};

// Returns an element; for f8_e4m3 without its scale.
float dense_value(DType dtype, const void* data, size_t index) {
  if (dtype == DType::f8_e4m3) return e4m3_to_float(static_cast<const uint8_t*>(data)[index]);
  if (dtype == DType::f32) return static_cast<const float*>(data)[index];
  const uint16_t bits = static_cast<const uint16_t*>(data)[index];
  return dtype == DType::f16 ? half_to_float(bits) : bfloat16_to_float(bits);
}

void write_dense_panel(const WeightPart& part, int32_t num_in, size_t panel, const Target& target) {
  const uint8_t* data = part.data.as<uint8_t>() + panel * part.panel_bytes;
  const float* scales =
      part.dtype == DType::f8_e4m3 ? part.panel_scales(static_cast<int64_t>(panel)) : nullptr;
  for (size_t k = 0; k < static_cast<size_t>(num_in); ++k) {
    for (int32_t lane = 0; lane < target.columns; ++lane) {
      const auto n = static_cast<size_t>(lane);
      float value = dense_value(part.dtype, data, k * kPanelColumns + n);
      if (scales != nullptr) value *= scales[k / static_cast<size_t>(part.scale_rows) * kPanelColumns + n];
      target.host[k * target.row_floats + target.first_column + n] = value * part.prescale;
    }
  }
}

// Scale and zero of the 16 columns of one group.
struct ColumnTerms {
  float scale[kPanelColumns];
  int32_t zero[kPanelColumns];
};

float scale_at(DType dtype, const void* scales, size_t index) {
  return dtype == DType::f8_e8m0 ? e8m0_to_float(static_cast<const uint8_t*>(scales)[index])
                                 : dense_value(dtype, scales, index);
}

ColumnTerms terms_of_group(const WeightPart& part, size_t panel, size_t group, int32_t bits) {
  ColumnTerms terms{};
  const size_t index = panel * static_cast<size_t>(part.num_groups) + group;
  for (size_t lane = 0; lane < kPanelColumns; ++lane) {
    const size_t place = index * kPanelColumns + lane;
    if (part.format == WeightFormat::exl2) {
      const uint8_t pair = part.nibbles.as<uint8_t>()[place / 2];
      const auto nibble = static_cast<size_t>((pair >> (4 * (lane % 2))) & 15);
      terms.scale[lane] = part.scale_table.as<float>()[group * 16 + nibble];
      terms.zero[lane] = 1 << (bits - 1);
    } else {
      const CodedTerms& coded = part.coded;
      const int32_t zero = coded.zeros.bytes() > 0 ? coded.zeros.as<uint8_t>()[place] : 0;
      terms.scale[lane] = scale_at(coded.scale_dtype, part.scales.as<void>(), place) * part.prescale;
      terms.zero[lane] = zero + coded.zero_offset;
    }
  }
  return terms;
}

// values: the values of codes; nullptr: the codes themselves.
void write_block(const uint32_t* words, int32_t bits, const uint8_t* values, const ColumnTerms& terms,
                 const int32_t* features, const Target& target) {
  uint8_t codes[kBlockRows * kPanelColumns];
  unpack_block(bits, words, codes);
  for (int32_t row = 0; row < kBlockRows; ++row) {
    if (features[row] < 0) continue;
    float* out = target.host + static_cast<size_t>(features[row]) * target.row_floats + target.first_column;
    for (int32_t lane = 0; lane < target.columns; ++lane) {
      const uint8_t code = codes[row * kPanelColumns + lane];
      const int32_t value = values != nullptr ? values[code] : code;
      out[lane] = round_to_half(static_cast<float>(value - terms.zero[lane]) * terms.scale[lane]);
    }
  }
}

void write_quantized_panel(const WeightPart& part, const RowOrder& order, size_t panel,
                           const Target& target) {
  const auto* words = reinterpret_cast<const uint32_t*>(part.data.as<uint8_t>() + panel * part.panel_bytes);
  const int32_t* features = order.features.as<int32_t>();
  size_t group = 0;
  for (const QuantRun& run : part.runs) {
    for (int32_t i = 0; i < run.num_groups; ++i, ++group) {
      const ColumnTerms terms = terms_of_group(part, panel, group, run.bits);
      for (int32_t block = 0; block < part.group_blocks[group]; ++block) {
        write_block(words, run.bits, part.coded.has_values ? part.coded.values : nullptr, terms, features,
                    target);
        words += ptrdiff_t{kPanelColumns} * run.bits;
        features += kBlockRows;
      }
    }
  }
}

// Returns the terms of one column and the rows of a record as a block.
BlockCodes terms_at(const BlockForm& form, const uint8_t* record, size_t lane) {
  const TermRecord shape = term_record(form);
  BlockCodes terms = {};
  const auto take_half = [&](uint16_t& half) {
    std::memcpy(&half, record + lane * sizeof half, sizeof half);
    record += kPanelColumns * sizeof half;
  };
  if (shape.halves > 0) take_half(terms.scales[0]);
  if (shape.halves > 1) {
    take_half(terms.mins[0]);
    terms.mins[0] = static_cast<uint16_t>(terms.mins[0] ^ 0x8000U);
  }
  const int32_t groups = kBlockRows / form.group;
  for (int32_t b = 0; b < shape.blocks && shape.block_bytes > 0; ++b) {
    for (int32_t g = b * groups; g < (b + 1) * groups; ++g, record += kPanelColumns)
      terms.group_scales[g] = record[lane];
    if (form.terms != BlockTerms::bytes_min) continue;
    terms.group_mins[b] = record[lane];
    record += kPanelColumns;
  }
  return terms;
}

// Writes 16 columns of up to 256 rows that share a record. The values are those of decode_blocks.
void write_record(const WeightPart& part, const uint32_t* words, const uint8_t* record, int32_t row,
                  const Target& target) {
  const BlockForm& form = block_form(part.block_type);
  const TermRecord shape = term_record(form);
  for (int32_t lane = 0; lane < target.columns; ++lane) {
    const BlockCodes terms = terms_at(form, record, static_cast<size_t>(lane));
    for (int32_t b = 0; b < shape.blocks; ++b) {
      uint8_t codes[kBlockRows * kPanelColumns];
      unpack_block(form.bits, words + ptrdiff_t{b} * kPanelColumns * form.bits, codes);
      for (int32_t i = 0; i < kBlockRows; ++i) {
        const BlockGroup group = group_of_block(form, terms, (b * kBlockRows + i) / form.group);
        const int32_t stored = 4 * layout_quad(form, i / 4) + i % 4;
        const uint8_t code = codes[stored * kPanelColumns + lane];
        const int32_t value = form.values != nullptr ? form.values[code] : code;
        const float weight = static_cast<float>(value - form.zero) * (group.scale * part.prescale);
        const auto k = static_cast<size_t>(row + b * kBlockRows + i);
        target.host[k * target.row_floats + target.first_column + static_cast<size_t>(lane)] =
            has_min(form.terms) ? weight - group.min * part.prescale : weight;
      }
    }
  }
}

void write_block_panel(const WeightPart& part, int32_t num_in, size_t panel, const Target& target) {
  const BlockForm& form = block_form(part.block_type);
  const TermRecord shape = term_record(form);
  const auto* words = reinterpret_cast<const uint32_t*>(part.data.as<uint8_t>() + panel * part.panel_bytes);
  const uint8_t* record = part.terms.as<uint8_t>() + panel * part.panel_term_bytes;
  for (int32_t row = 0; row < num_in; row += shape.blocks * kBlockRows) {
    write_record(part, words, record, row, target);
    words += ptrdiff_t{kPanelColumns} * form.bits * shape.blocks;
    record += shape.bytes();
  }
}

}  // namespace

Status dequantize(Device* device, const Weight* weight, float* host) {
  if (weight->is_table) {
    const size_t count = static_cast<size_t>(weight->table_rows) * static_cast<size_t>(weight->num_out);
    if (weight->table_blocks != BlockType::none) {
      const auto weights = static_cast<size_t>(block_shape(weight->table_blocks).weights);
      decode_blocks(weight->table_blocks, weight->table_data.as<void>(), count / weights, host);
      return Status::ok;
    }
    for (size_t i = 0; i < count; ++i) {
      host[i] = dense_value(weight->table_dtype, weight->table_data.as<void>(), i);
    }
    return Status::ok;
  }
  size_t first_column = 0;
  for (const WeightPart& part : weight->parts) {
    device->pool.share(part.num_panels, 1, [&](int32_t, int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        const int32_t done = static_cast<int32_t>(p) * kPanelColumns;
        const int32_t left = part.num_out - done;
        const Target target = {host, static_cast<size_t>(weight->num_out),
                               first_column + static_cast<size_t>(done),
                               left < kPanelColumns ? left : kPanelColumns};
        if (part.format == WeightFormat::dense) {
          write_dense_panel(part, weight->num_in, static_cast<size_t>(p), target);
        } else if (part.format == WeightFormat::blocks) {
          write_block_panel(part, weight->num_in, static_cast<size_t>(p), target);
        } else if (part.format == WeightFormat::trellis) {
          dequantize_trellis(part, weight->num_in, static_cast<size_t>(p), host + first_column,
                             target.row_floats);
        } else {
          write_quantized_panel(part, weight->orders[static_cast<size_t>(part.order_idx)],
                                static_cast<size_t>(p), target);
        }
      }
    });
    first_column += static_cast<size_t>(part.num_out);
  }
  return Status::ok;
}

}  // namespace quire::kernels::cpu_entries
