#include "kernels/cpu/code_layout.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/table_entries.h"
#include "kernels/cpu/weight.h"
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

}  // namespace

Status dequantize(Device* device, const Weight* weight, float* host) {
  if (weight->is_table) {
    const size_t count = static_cast<size_t>(weight->table_rows) * static_cast<size_t>(weight->num_out);
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
