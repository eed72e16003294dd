#include "kernels/cuda/plan/coded_form.h"

#include <cmath>

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

// Returns words [outer, inner] with arbitrary distances between them, gathered if they have gaps.
CodeWords gather(const uint32_t* from, int64_t outer, int64_t outer_words, int64_t inner,
                 int64_t inner_words) {
  CodeWords out{from, static_cast<size_t>(outer * inner), outer_words, inner_words, {}};
  const bool without_gaps =
      (inner_words == 1 && outer_words == inner) || (outer_words == 1 && inner_words == outer);
  if (without_gaps) return out;
  out.made.reserve(out.count);
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t j = 0; j < inner; ++j) out.made.push_back(from[i * outer_words + j * inner_words]);
  out.words = out.made.data();
  out.outer_words = inner;
  out.inner_words = 1;
  return out;
}

int64_t words_for(int64_t count, int32_t bits) {
  return (count * bits + 31) / 32;
}

void make_scales(const WeightSource& source, GptqForm& form) {
  const size_t count = static_cast<size_t>(source.coded.num_groups) * static_cast<size_t>(source.padded_out);
  form.made_scales.reserve(count);
  for (size_t i = 0; i < count; ++i) form.made_scales.push_back(float_to_half(scale_at(source.coded, i)));
  form.scales = form.made_scales.data();
}

// Returns twice the value of an E2M1 code: 1 sign bit, 2 bits of exponent with a bias of 1, 1 bit of
// mantissa.
constexpr int32_t doubled_e2m1(int32_t code) {
  const int32_t exponent = code >> 1 & 3, mantissa = code & 1;
  const int32_t magnitude = exponent == 0 ? mantissa : (2 + mantissa) << (exponent - 1);
  return (code & 8) != 0 ? -magnitude : magnitude;
}

bool stands_for_e2m1(const CodedSource& coded) {
  if (coded.bits != 4 || coded.values == nullptr || coded.has_zeros()) return false;
  for (int32_t code = 0; code < 16; ++code)
    if (coded.values[code] - coded.zero_offset != doubled_e2m1(code)) return false;
  return true;
}

constexpr int32_t kMaxExponent = 140;  // largest exponent of a scale in a file
constexpr int32_t kMaxShift = 254 - kMaxExponent;

}  // namespace

TileKind coded_kind(const WeightSource& source) {
  const CodedSource& coded = source.coded;
  if (coded.values == nullptr) return coded.bits == 4 ? TileKind::gptq : TileKind::gptq8;
  if (!stands_for_e2m1(coded) || coded.scale_dtype != DType::f8_e8m0) return TileKind::dense;
  int unused = 0;
  if (std::frexp(source.prescale, &unused) != 0.5f) return TileKind::dense;
  const int32_t shift = exponent_shift(source);
  return shift >= -kMaxShift && shift <= kMaxShift ? TileKind::mxfp4 : TileKind::dense;
}

// The value table is E2M1 times 2; tiles hold E2M1 times at most 2^(kMaxFactorExponent - kE2m1UnitExponent).
int32_t exponent_shift(const WeightSource& source) {
  constexpr int32_t kInTwos = 1;
  return std::ilogb(source.prescale) + kInTwos - (kMaxFactorExponent - kE2m1UnitExponent);
}

CodeWords make_codes(const WeightSource& source) {
  const CodedSource& coded = source.coded;
  return gather(coded.codes, words_for(source.num_in, coded.bits), coded.row_words, source.padded_out,
                coded.column_words);
}

void make_gptq_form(const WeightSource& source, GptqForm& form) {
  const CodedSource& coded = source.coded;
  form.codes = make_codes(source);
  if (coded.has_zeros())
    form.zeros = gather(coded.zeros, coded.num_groups, coded.zero_group_words,
                        words_for(source.padded_out, coded.bits), coded.zero_column_words);
  form.scales = static_cast<const uint16_t*>(coded.scales);
  if (coded.scale_dtype != DType::f16) make_scales(source, form);
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
