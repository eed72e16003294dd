#include "kernels/cuda/plan/coded_form.h"

#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

float scale_at(const CodedSource& coded, size_t index) {
  switch (coded.scale_dtype) {
    case DType::f16:
      return half_to_float(static_cast<const uint16_t*>(coded.scales)[index]);
    case DType::bf16:
      return bfloat16_to_float(static_cast<const uint16_t*>(coded.scales)[index]);
    case DType::f8_e8m0:
      return e8m0_to_float(static_cast<const uint8_t*>(coded.scales)[index]);
    default:
      return static_cast<const float*>(coded.scales)[index];
  }
}

void make_codes(const WeightSource& source, GptqForm& form) {
  const CodedSource& coded = source.coded;
  const auto rows = static_cast<size_t>((source.num_in + 7) / 8);
  const auto columns = static_cast<size_t>(form.columns);
  form.made_codes.resize(rows * columns);
  for (size_t n = 0; n < static_cast<size_t>(source.padded_out); ++n) {
    const uint32_t* column = coded.codes + static_cast<int64_t>(n) * coded.column_words;
    for (size_t r = 0; r < rows; ++r)
      form.made_codes[r * columns + n] = column[static_cast<int64_t>(r) * coded.row_words];
  }
  form.codes = form.made_codes.data();
}

// Those that are not stored are words of 0: zero_offset says what is to be added.
void make_zeros(const WeightSource& source, GptqForm& form) {
  const CodedSource& coded = source.coded;
  const auto words = static_cast<size_t>(form.columns / 8);
  form.made_zeros.resize(static_cast<size_t>(coded.num_groups) * words);
  form.zeros = form.made_zeros.data();
  if (!coded.has_zeros()) return;
  for (int32_t g = 0; g < coded.num_groups; ++g) {
    for (size_t j = 0; j < words; ++j)
      form.made_zeros[static_cast<size_t>(g) * words + j] =
          coded.zeros[g * coded.zero_group_words + static_cast<int64_t>(j) * coded.zero_column_words];
  }
}

void make_scales(const WeightSource& source, GptqForm& form) {
  const auto columns = static_cast<size_t>(form.columns), stored = static_cast<size_t>(source.padded_out);
  form.made_scales.resize(static_cast<size_t>(source.coded.num_groups) * columns);
  for (size_t g = 0; g < static_cast<size_t>(source.coded.num_groups); ++g) {
    for (size_t n = 0; n < stored; ++n)
      form.made_scales[g * columns + n] = float_to_half(scale_at(source.coded, g * stored + n));
  }
  form.scales = form.made_scales.data();
}

}  // namespace

bool has_gptq_arithmetic(const CodedSource& coded) {
  return coded.bits == 4 && coded.values == nullptr;
}

void make_gptq_form(const WeightSource& source, GptqForm& form) {
  const CodedSource& coded = source.coded;
  form.columns = (source.padded_out + 7) / 8 * 8;
  const bool aligned = form.columns == source.padded_out;
  form.codes = coded.codes;
  if (!aligned || coded.column_words != 1 || coded.row_words != form.columns) make_codes(source, form);
  form.zeros = coded.zeros;
  if (!aligned || coded.zero_column_words != 1 || coded.zero_group_words != form.columns / 8)
    make_zeros(source, form);
  form.scales = static_cast<const uint16_t*>(coded.scales);
  if (!aligned || coded.scale_dtype != DType::f16) make_scales(source, form);
}

std::vector<uint16_t> expand_to_half(const WeightSource& source) {
  const CodedSource& coded = source.coded;
  const auto rows = static_cast<size_t>(source.num_in), columns = static_cast<size_t>(source.padded_out);
  std::vector<uint16_t> out(rows * columns);
  for (size_t n = 0; n < columns; ++n) {
    for (size_t k = 0; k < rows; ++k) {
      const auto row = static_cast<int64_t>(k), column = static_cast<int64_t>(n);
      const int32_t group = coded.group_of_row[k];
      const uint32_t code = coded.code(row, column);
      const auto value = static_cast<int32_t>(coded.values != nullptr ? coded.values[code] : code);
      const float scale = scale_at(coded, static_cast<size_t>(group) * columns + n) * source.prescale;
      out[n * rows + k] = float_to_half(static_cast<float>(value - coded.zero(group, column)) * scale);
    }
  }
  return out;
}

}  // namespace quire::kernels
