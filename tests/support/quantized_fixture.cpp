#include "tests/support/quantized_fixture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/checked_math.h"
#include "kernels/interface/half.h"

namespace quire::testing {
namespace {

using kernels::DType;
using kernels::WeightFormat;

size_t count(int32_t rows, int32_t columns) {
  return static_cast<size_t>(rows) * static_cast<size_t>(columns);
}

uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// Packs [rows, columns] of 4-bit values, eight columns per word, the first in the low bits.
std::vector<uint32_t> pack_nibbles(const std::vector<uint8_t>& nibbles) {
  std::vector<uint32_t> words(nibbles.size() / 8);
  for (size_t i = 0; i < nibbles.size(); ++i)
    words[i / 8] |= static_cast<uint32_t>(nibbles[i]) << (4 * (i % 8));
  return words;
}

// Returns the magnitude of a weight for which y = x W is about as large as x.
float typical_weight(int32_t num_in) {
  return 1.0f / std::sqrt(static_cast<float>(num_in));
}

void add_extras(WeightFixture& weight, Random& random, bool permute_columns, bool bias) {
  if (permute_columns) weight.column_order = random.permutation(weight.num_out);
  if (!bias) return;
  for (int32_t n = 0; n < weight.num_out; ++n) {
    weight.bias.push_back(kernels::round_to_half(random.between(-1.0f, 1.0f)));
  }
}

void add_exl2_group(WeightFixture& weight, const Exl2GroupSpec& spec, Random& random) {
  kernels::Exl2Group group;
  group.bits = spec.bits;
  group.num_rows = spec.rows;
  if (!weight.groups.empty()) {
    const kernels::Exl2Group& last = weight.groups.back();
    group.first_row = last.first_row + last.num_rows;
    group.first_packed_row = last.first_packed_row + last.num_rows * last.bits / 32;
  }
  weight.groups.push_back(group);
  std::vector<uint8_t> codes(count(spec.rows, weight.padded_out));
  for (uint8_t& code : codes) code = static_cast<uint8_t>(random.below(1U << spec.bits));
  weight.codes.insert(weight.codes.end(), codes.begin(), codes.end());
  const auto words = pack_codes(codes, spec.rows, weight.padded_out, spec.bits);
  weight.q_weight.insert(weight.q_weight.end(), words.begin(), words.end());
  for (int32_t n = 0; n < weight.padded_out; ++n) {
    weight.scale_nibs.push_back(static_cast<uint8_t>(random.below(16)));
  }
  const float ceiling = 6.0f * typical_weight(weight.num_in) / static_cast<float>(1 << (spec.bits - 1));
  weight.q_scale_max.push_back(kernels::float_to_half(ceiling * random.between(0.5f, 1.0f)));
}

}  // namespace

std::vector<uint32_t> pack_codes(const std::vector<uint8_t>& codes, int32_t num_rows, int32_t num_columns,
                                 int32_t bits) {
  std::vector<uint32_t> words(count(num_rows * bits / 32, num_columns));
  const auto columns = static_cast<size_t>(num_columns);
  for (size_t row = 0; row < static_cast<size_t>(num_rows); ++row) {
    for (size_t column = 0; column < columns; ++column) {
      for (size_t bit = 0; bit < static_cast<size_t>(bits); ++bit) {
        const size_t position = row * static_cast<size_t>(bits) + bit;
        const uint32_t value = (codes[row * columns + column] >> bit) & 1U;
        words[position / 32 * columns + column] |= value << (position % 32);
      }
    }
  }
  return words;
}

std::vector<Exl2GroupSpec> mixed_groups(const std::vector<int32_t>& bits, int32_t rows, int32_t group_size) {
  std::vector<Exl2GroupSpec> groups;
  int32_t rows_left = rows;
  for (size_t i = 0; i < bits.size(); ++i) {
    const auto widths_left = static_cast<int32_t>(bits.size() - i);
    int32_t share = widths_left == 1 ? rows_left : rows_left / widths_left / 32 * 32;
    rows_left -= share;
    for (; share > 0; share -= groups.back().rows) groups.push_back({bits[i], std::min(share, group_size)});
  }
  return groups;
}

WeightFixture make_exl2(const Exl2Options& options) {
  Random random(options.seed);
  WeightFixture weight;
  weight.format = WeightFormat::exl2;
  weight.num_out = options.num_out;
  weight.padded_out = static_cast<int32_t>(round_up(static_cast<uint64_t>(options.num_out), 32));
  weight.prescale = options.prescale;
  for (const Exl2GroupSpec& spec : options.groups) weight.num_in += spec.rows;
  for (const Exl2GroupSpec& spec : options.groups) add_exl2_group(weight, spec, random);
  weight.q_scale = pack_nibbles(weight.scale_nibs);
  if (options.permute_rows) weight.row_order = random.permutation(weight.num_in);
  add_extras(weight, random, options.permute_columns, options.bias);
  return weight;
}

namespace {

// Packs codes consecutively, the first in the lowest bits of the first word; the rest of the last word is 0.
std::vector<uint32_t> pack_run(const uint8_t* codes, size_t num_codes, int32_t bits) {
  const auto per_word = static_cast<size_t>(32 / bits);
  std::vector<uint32_t> words((num_codes + per_word - 1) / per_word);
  for (size_t i = 0; i < num_codes; ++i)
    words[i / per_word] |= uint32_t{codes[i]} << (static_cast<size_t>(bits) * (i % per_word));
  return words;
}

std::vector<uint32_t> transposed(const std::vector<uint32_t>& words, size_t columns) {
  const size_t rows = words.size() / columns;
  std::vector<uint32_t> out(words.size());
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) out[c * rows + r] = words[r * columns + c];
  return out;
}

void add_scale(WeightFixture& weight, float scale) {
  const auto append = [&weight](auto value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    weight.scales.insert(weight.scales.end(), bytes, bytes + sizeof value);
  };
  switch (weight.scale_dtype) {
    case DType::f16:
      return append(kernels::float_to_half(scale));
    case DType::bf16:
      return append(static_cast<uint16_t>(std::bit_cast<uint32_t>(scale) >> 16));
    case DType::f8_e8m0:
      return append(static_cast<uint8_t>(std::bit_cast<uint32_t>(scale) >> 23));
    default:
      return append(scale);
  }
}

void add_coded_terms(WeightFixture& weight, const CodedOptions& options, int32_t num_groups, Random& random) {
  const float largest = options.values.empty()
                            ? static_cast<float>((1 << options.bits) - 1)
                            : *std::max_element(options.values.begin(), options.values.end());
  for (size_t i = 0; i < count(num_groups, weight.padded_out); ++i) {
    if (options.has_zeros)
      weight.stored_zeros.push_back(static_cast<uint8_t>(random.below(1U << options.bits)));
    add_scale(weight, typical_weight(options.num_in) * 2.0f / largest * random.between(0.5f, 2.0f));
  }
  const auto columns = static_cast<size_t>(weight.padded_out);
  for (size_t g = 0; options.has_zeros && g < static_cast<size_t>(num_groups); ++g) {
    const std::vector<uint32_t> words = pack_run(&weight.stored_zeros[g * columns], columns, options.bits);
    weight.q_zeros.insert(weight.q_zeros.end(), words.begin(), words.end());
  }
  if (options.by_output && options.has_zeros)
    weight.q_zeros = transposed(weight.q_zeros, weight.q_zeros.size() / static_cast<size_t>(num_groups));
}

void add_codes(WeightFixture& weight, const CodedOptions& options, Random& random) {
  const auto rows = static_cast<size_t>(options.num_in), columns = static_cast<size_t>(weight.padded_out);
  for (size_t i = 0; i < rows * columns; ++i)
    weight.codes.push_back(static_cast<uint8_t>(random.below(1U << options.bits)));
  for (size_t n = 0; n < columns; ++n) {
    std::vector<uint8_t> column;
    for (size_t k = 0; k < rows; ++k) column.push_back(weight.codes[k * columns + n]);
    const std::vector<uint32_t> words = pack_run(column.data(), rows, options.bits);
    weight.q_weight.insert(weight.q_weight.end(), words.begin(), words.end());
  }
  if (!options.by_output) weight.q_weight = transposed(weight.q_weight, weight.q_weight.size() / columns);
}

}  // namespace

WeightFixture make_coded(const CodedOptions& options) {
  Random random(options.seed);
  WeightFixture weight;
  weight.format = WeightFormat::coded;
  weight.num_in = options.num_in;
  weight.num_out = options.num_out;
  weight.padded_out = options.by_output
                          ? options.num_out
                          : static_cast<int32_t>(round_up(static_cast<uint64_t>(options.num_out), 8));
  weight.zero_offset = options.zero_offset;
  weight.prescale = options.prescale;
  weight.bits = options.bits;
  weight.by_output = options.by_output;
  weight.values = options.values;
  weight.scale_dtype = options.scale_dtype;
  const auto num_groups = static_cast<int32_t>(
      ceil_div(static_cast<uint64_t>(options.num_in), static_cast<uint64_t>(options.group_size)));
  const std::vector<int32_t> slot =
      options.act_order ? random.permutation(options.num_in) : std::vector<int32_t>();
  for (int32_t k = 0; k < options.num_in; ++k) {
    weight.group_of_row.push_back((options.act_order ? slot[static_cast<size_t>(k)] : k) /
                                  options.group_size);
  }
  add_codes(weight, options, random);
  add_coded_terms(weight, options, num_groups, random);
  add_extras(weight, random, options.permute_columns, options.bias);
  return weight;
}

std::vector<CodedOptions> coded_varieties(uint64_t seed) {
  const std::vector<uint8_t> e2m1 = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  const std::vector<uint8_t> bytes = {0,   23,  44,  62,  78,  92,  105, 117,
                                      128, 140, 152, 165, 180, 196, 216, 240};
  CodedOptions gptq8{.num_in = 144, .num_out = 40, .group_size = 48, .act_order = true, .bits = 8};
  CodedOptions packed4{.num_in = 160, .num_out = 43, .zero_offset = 0, .by_output = true};
  packed4.scale_dtype = DType::bf16;
  CodedOptions packed8 = packed4;
  packed8.bits = 8;
  packed8.num_in = 101;  // does not fill its last word
  packed8.group_size = 101;
  packed8.has_zeros = false;
  packed8.zero_offset = 128;
  packed8.scale_dtype = DType::f32;
  CodedOptions mxfp4{.num_in = 96, .num_out = 35, .zero_offset = 12, .prescale = 0.5f, .by_output = true};
  mxfp4.has_zeros = false;
  mxfp4.values = e2m1;
  mxfp4.scale_dtype = DType::f8_e8m0;
  CodedOptions nvfp4 = mxfp4;
  nvfp4.group_size = 16;
  nvfp4.scale_dtype = DType::f32;
  CodedOptions table{.num_in = 128, .num_out = 24, .zero_offset = 0, .values = bytes};
  std::vector<CodedOptions> all = {gptq8, packed4, packed8, mxfp4, nvfp4, table};
  for (CodedOptions& options : all) {
    options.seed = ++seed;
    options.permute_columns = options.bits == 4;
    options.bias = !options.has_zeros;
  }
  return all;
}

uint8_t float_to_e4m3(float value) {
  // Codes increase with their magnitudes.
  static const std::vector<double> magnitudes = [] {
    std::vector<double> all;
    for (int code = 0; code < 0x7f; ++code)
      all.push_back(code < 8 ? std::ldexp(code, -9) : std::ldexp(8 + code % 8, code / 8 - 10));
    return all;
  }();
  const double magnitude = std::abs(static_cast<double>(value));
  const auto above = std::lower_bound(magnitudes.begin(), magnitudes.end() - 1, magnitude);
  auto code = above - magnitudes.begin();
  if (code > 0) {
    const double middle = (above[0] + above[-1]) / 2;
    if (magnitude < middle || (magnitude == middle && code % 2 == 1)) --code;
  }
  return static_cast<uint8_t>(code | (std::signbit(value) ? 0x80 : 0));
}

namespace {

// Adds codes of every magnitude, including subnormal numbers, and scales that keep weights of unit gain.
void add_codes(WeightFixture& weight, const DenseOptions& options, Random& random) {
  weight.scale_out = options.scale_out > 0 ? std::min(options.scale_out, options.num_out) : options.num_out;
  weight.scale_in = options.scale_in > 0 ? std::min(options.scale_in, options.num_in) : options.num_in;
  for (size_t i = 0; i < count(options.num_out, options.num_in); ++i) {
    const auto code = static_cast<uint8_t>(random.below(256));
    weight.dense_codes.push_back((code & 0x7f) == 0x7f ? uint8_t{0} : code);
  }
  const int32_t rows = (options.num_out - 1) / weight.scale_out + 1;
  const int32_t columns = (options.num_in - 1) / weight.scale_in + 1;
  for (size_t i = 0; i < count(rows, columns); ++i) {
    weight.dense_scales.push_back(typical_weight(options.num_in) / 100.0f * random.between(0.5f, 2.0f));
  }
}

}  // namespace

WeightFixture make_dense(const DenseOptions& options) {
  Random random(options.seed);
  WeightFixture weight;
  weight.format = WeightFormat::dense;
  weight.num_in = options.num_in;
  weight.num_out = options.num_out;
  weight.padded_out = options.num_out;
  weight.dense_dtype = options.dtype;
  weight.prescale = options.prescale;
  if (options.dtype == DType::f8_e4m3) add_codes(weight, options, random);
  const float typical = 1.7f * typical_weight(options.num_in);
  for (size_t i = 0; weight.dense_codes.empty() && i < count(options.num_out, options.num_in); ++i) {
    const float value = random.between(-typical, typical);
    if (options.dtype == DType::f32) {
      weight.dense_float.push_back(value);
    } else {
      weight.dense_half.push_back(options.dtype == DType::f16 ? kernels::float_to_half(value)
                                                              : float_to_bfloat16(value));
    }
  }
  add_extras(weight, random, options.permute_columns, options.bias);
  return weight;
}

int32_t WeightFixture::num_groups() const {
  const size_t row_bytes = static_cast<size_t>(padded_out) * kernels::dtype_bytes(scale_dtype);
  return static_cast<int32_t>(format == WeightFormat::exl2 ? groups.size() : scales.size() / row_bytes);
}

const void* WeightFixture::dense_data() const {
  if (dense_dtype == DType::f8_e4m3) return dense_codes.data();
  if (dense_dtype == DType::f32) return dense_float.data();
  return dense_half.data();
}

kernels::WeightSource WeightFixture::source() const {
  kernels::WeightSource source;
  source.format = format;
  source.num_in = num_in;
  source.num_out = num_out;
  source.padded_out = padded_out;
  if (format == WeightFormat::dense) {
    source.dense.dtype = dense_dtype;
    source.dense.data = dense_data();
    if (dense_dtype == DType::f8_e4m3) {
      source.dense.scales = dense_scales.data();
      source.dense.scale_out = scale_out;
      source.dense.scale_in = scale_in;
    }
  } else if (format == WeightFormat::exl2) {
    const auto packed_rows = static_cast<int32_t>(q_weight.size() / static_cast<size_t>(padded_out));
    source.exl2 = {q_weight.data(), q_scale.data(), q_scale_max.data(),
                   groups.data(),   num_groups(),   packed_rows};
  } else {
    const int64_t row_words = (num_in * bits + 31) / 32, zero_words = (padded_out * bits + 31) / 32;
    source.coded.bits = bits;
    source.coded.codes = q_weight.data();
    source.coded.row_words = by_output ? 1 : padded_out;
    source.coded.column_words = by_output ? row_words : 1;
    source.coded.values = values.empty() ? nullptr : values.data();
    if (!q_zeros.empty()) {
      source.coded.zeros = q_zeros.data();
      source.coded.zero_group_words = by_output ? 1 : zero_words;
      source.coded.zero_column_words = by_output ? num_groups() : 1;
    }
    source.coded.zero_offset = zero_offset;
    source.coded.scales = scales.data();
    source.coded.scale_dtype = scale_dtype;
    source.coded.group_of_row = group_of_row.data();
    source.coded.num_groups = num_groups();
  }
  source.row_order = row_order.empty() ? nullptr : row_order.data();
  source.column_order = column_order.empty() ? nullptr : column_order.data();
  source.bias = bias.empty() ? nullptr : bias.data();
  source.prescale = prescale;
  return source;
}

std::vector<int32_t> WeightFixture::inverse_row_order() const {
  std::vector<int32_t> inverse(static_cast<size_t>(num_in));
  std::iota(inverse.begin(), inverse.end(), 0);
  for (size_t k = 0; k < row_order.size(); ++k)
    inverse[static_cast<size_t>(row_order[k])] = static_cast<int32_t>(k);
  return inverse;
}

std::vector<int16_t> WeightFixture::stored_groups() const {
  std::vector<int16_t> pairs;
  for (const kernels::Exl2Group& group : groups) {
    pairs.push_back(static_cast<int16_t>(group.bits));
    pairs.push_back(static_cast<int16_t>(group.first_packed_row));
  }
  return pairs;
}

void add_weight(SafetensorsBuilder& file, const std::string& key, const WeightFixture& weight) {
  const int64_t padded = weight.padded_out;
  const int64_t groups = weight.format == WeightFormat::dense ? 0 : weight.num_groups();
  if (weight.format == WeightFormat::dense) {
    const std::vector<int64_t> shape = {weight.num_out, weight.num_in};
    if (weight.dense_dtype == DType::f8_e4m3) {
      const int64_t rows = (weight.num_out - 1) / weight.scale_out + 1;
      const int64_t columns = (weight.num_in - 1) / weight.scale_in + 1;
      file.add(key + ".weight", "F8_E4M3", shape, weight.dense_codes);
      file.add(key + ".weight_scale", "F32", {rows, columns}, weight.dense_scales);
    } else if (weight.dense_dtype == DType::f32) {
      file.add(key + ".weight", "F32", shape, weight.dense_float);
    } else {
      file.add(key + ".weight", weight.dense_dtype == DType::f16 ? "F16" : "BF16", shape, weight.dense_half);
    }
  } else if (weight.format == WeightFormat::exl2) {
    file.add(key + ".q_weight", "I32", {static_cast<int64_t>(weight.q_weight.size()) / padded, padded},
             weight.q_weight);
    file.add(key + ".q_scale", "I32", {groups, padded / 8}, weight.q_scale);
    file.add(key + ".q_scale_max", "F16", {groups}, weight.q_scale_max);
    file.add(key + ".q_groups", "I16", {2 * groups}, weight.stored_groups());
    file.add(key + ".q_invperm", "I32", {weight.num_in}, weight.inverse_row_order());
  } else {
    file.add(key + ".qweight", "I32", {weight.num_in * weight.bits / 32, padded}, weight.q_weight);
    file.add(key + ".qzeros", "I32", {groups, padded * weight.bits / 32}, weight.q_zeros);
    file.add_bytes(key + ".scales", "F16", {groups, padded},
                   std::string(weight.scales.begin(), weight.scales.end()));
    file.add(key + ".g_idx", "I32", {weight.num_in}, weight.group_of_row);
  }
  if (weight.bias.empty()) return;
  std::vector<uint16_t> bias(static_cast<size_t>(padded));
  for (size_t n = 0; n < weight.bias.size(); ++n) bias[n] = kernels::float_to_half(weight.bias[n]);
  if (weight.format == WeightFormat::dense) bias.resize(weight.bias.size());
  file.add(key + ".bias", "F16", {static_cast<int64_t>(bias.size())}, bias);
}

}  // namespace quire::testing
