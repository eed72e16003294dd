// Checkpoints quantized to each format with groups, round to nearest, compared with the same checkpoints with
// the dequantized weights.
#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "core/loader/safetensors_file.h"
#include "kernels/interface/half.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/case_stride.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/file_text.h"
#include "tests/support/golden_families.h"
#include "tests/support/quantized_fixture.h"
#include "tests/support/safetensors_builder.h"
#include "tests/support/temp_directory.h"
#include "tests/support/trellis_fixture.h"

namespace quire::testing {
namespace {

// Matrix [outputs, inputs] in groups of inputs.
struct Grouped {
  size_t outputs = 0, inputs = 0, group = 0;
  std::vector<uint8_t> codes;  // [outputs, inputs]
  std::vector<uint8_t> zeros;  // [outputs, groups]
  std::vector<float> scales;   // [outputs, groups]
  std::vector<float> values;   // [outputs, inputs]

  size_t groups() const { return inputs / group; }
};

// Calls `each` for every group of inputs, with the index of the group and of its first weight.
template <typename Each>
void for_each_group(const Grouped& matrix, Each each) {
  for (size_t n = 0; n < matrix.outputs; ++n)
    for (size_t g = 0; g < matrix.groups(); ++g)
      each(n * matrix.groups() + g, n * matrix.inputs + g * matrix.group);
}

Grouped to_integers(const std::vector<float>& weights, size_t outputs, size_t group, int bits,
                    bool symmetric) {
  Grouped out{outputs, weights.size() / outputs, group, {}, {}, {}, {}};
  out.codes.resize(weights.size());
  out.values.resize(weights.size());
  const float top = static_cast<float>((1 << bits) - 1), middle = static_cast<float>(1 << (bits - 1));
  for_each_group(out, [&](size_t, size_t first) {
    const auto [low, high] = std::minmax_element(&weights[first], &weights[first] + group);
    const float wide = symmetric ? 2.0f * std::max(std::abs(*low), std::abs(*high)) : *high - *low;
    const float scale = kernels::round_to_half(std::max(wide / top, 1e-4f));
    const float zero = symmetric ? middle : std::clamp(std::round(-*low / scale), 1.0f, top);
    out.scales.push_back(scale);
    out.zeros.push_back(static_cast<uint8_t>(zero));
    for (size_t i = first; i < first + group; ++i) {
      const float code = std::clamp(std::round(weights[i] / scale) + zero, 0.0f, top);
      out.codes[i] = static_cast<uint8_t>(code);
      out.values[i] = (code - zero) * scale;
    }
  });
  return out;
}

// Quantizes to FP4; scales are powers of two, or any E4M3 number.
Grouped to_fp4(const std::vector<float>& weights, size_t outputs, size_t group) {
  constexpr float kValues[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  Grouped out{outputs, weights.size() / outputs, group, {}, {}, {}, {}};
  out.codes.resize(weights.size());
  out.values.resize(weights.size());
  for_each_group(out, [&](size_t, size_t first) {
    float largest = 1e-3f;
    for (size_t i = first; i < first + group; ++i) largest = std::max(largest, std::abs(weights[i]));
    const float scale = std::exp2(std::ceil(std::log2(largest / 6.0f)));
    out.scales.push_back(scale);
    for (size_t i = first; i < first + group; ++i) {
      const float size = std::abs(weights[i]) / scale;
      const auto* best = std::min_element(std::begin(kValues), std::end(kValues), [size](float a, float b) {
        return std::abs(a - size) < std::abs(b - size);
      });
      const bool negative = weights[i] < 0.0f;
      out.codes[i] = static_cast<uint8_t>((best - std::begin(kValues)) | (negative ? 8 : 0));
      out.values[i] = (negative ? -*best : *best) * scale;
    }
  });
  return out;
}

// Packs codes [rows, columns] along their rows; columns fill whole words.
std::vector<uint32_t> packed_rows(const std::vector<uint8_t>& codes, size_t columns, size_t bits) {
  std::vector<uint32_t> words(codes.size() * bits / 32);
  for (size_t i = 0; i < codes.size(); ++i)
    words[i * bits / 32] |= uint32_t{codes[i]} << (i % columns * bits % 32);
  return words;
}

template <typename T>
std::vector<T> transposed(const std::vector<T>& values, size_t columns) {
  const size_t rows = values.size() / columns;
  std::vector<T> out(values.size());
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) out[c * rows + r] = values[r * columns + c];
  return out;
}

std::vector<uint16_t> halves(const std::vector<float>& values) {
  std::vector<uint16_t> out;
  out.reserve(values.size());
  for (const float value : values) out.push_back(kernels::float_to_half(value));
  return out;
}

using Shape = std::vector<int64_t>;

void add_gptq(SafetensorsBuilder& file, const std::string& key, const Grouped& m, size_t bits) {
  const auto n = static_cast<int64_t>(m.outputs), k = static_cast<int64_t>(m.inputs),
             g = static_cast<int64_t>(m.groups()), b = static_cast<int64_t>(bits);
  std::vector<uint8_t> stored = transposed(m.zeros, m.groups());
  for (uint8_t& zero : stored) --zero;  // the first checkpoint format stores zeros minus one
  file.add(key + ".qweight", "I32", Shape{k * b / 32, n},
           transposed(packed_rows(m.codes, m.inputs, bits), m.inputs * bits / 32));
  file.add(key + ".qzeros", "I32", Shape{g, n * b / 32}, packed_rows(stored, m.outputs, bits));
  file.add(key + ".scales", "F16", Shape{g, n}, halves(transposed(m.scales, m.groups())));
}

// Packs eight columns per word, in AutoAWQ's order.
std::vector<uint32_t> awq_words(const std::vector<uint8_t>& codes) {
  constexpr size_t kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  std::vector<uint32_t> words(codes.size() / 8);
  for (size_t i = 0; i < words.size(); ++i)
    for (size_t b = 0; b < 8; ++b) words[i] |= uint32_t{codes[8 * i + kOrder[b]]} << (4 * b);
  return words;
}

void add_awq(SafetensorsBuilder& file, const std::string& key, const Grouped& m) {
  const auto n = static_cast<int64_t>(m.outputs), k = static_cast<int64_t>(m.inputs),
             g = static_cast<int64_t>(m.groups());
  file.add(key + ".qweight", "I32", Shape{k, n / 8}, awq_words(transposed(m.codes, m.inputs)));
  file.add(key + ".qzeros", "I32", Shape{g, n / 8}, awq_words(transposed(m.zeros, m.groups())));
  file.add(key + ".scales", "F16", Shape{g, n}, halves(transposed(m.scales, m.groups())));
}

void add_packed(SafetensorsBuilder& file, const std::string& key, const Grouped& m, size_t bits, bool zeros) {
  const auto n = static_cast<int64_t>(m.outputs), k = static_cast<int64_t>(m.inputs),
             g = static_cast<int64_t>(m.groups()), b = static_cast<int64_t>(bits);
  file.add(key + ".weight_packed", "I32", Shape{n, k * b / 32}, packed_rows(m.codes, m.inputs, bits));
  file.add(key + ".weight_scale", "F16", Shape{n, g}, halves(m.scales));
  file.add(key + ".weight_shape", "I64", Shape{2}, std::vector<int64_t>{n, k});
  if (!zeros) return;
  const std::vector<uint32_t> words = packed_rows(transposed(m.zeros, m.groups()), m.outputs, bits);
  file.add(key + ".weight_zero_point", "I32", Shape{n * b / 32, g}, transposed(words, m.outputs * bits / 32));
}

std::vector<uint8_t> fp4_bytes(const Grouped& m) {
  std::vector<uint8_t> bytes(m.codes.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(m.codes[2 * i] | m.codes[2 * i + 1] << 4);
  return bytes;
}

void add_mxfp4(SafetensorsBuilder& file, const std::string& key, const Grouped& m) {
  const auto n = static_cast<int64_t>(m.outputs), k = static_cast<int64_t>(m.inputs);
  std::vector<uint8_t> scales;
  for (const float scale : m.scales)
    scales.push_back(static_cast<uint8_t>(127 + std::lround(std::log2(scale))));
  file.add(key + ".weight_packed", "U8", Shape{n, k / 2}, fp4_bytes(m));
  file.add(key + ".weight_scale", "U8", Shape{n, k / 32}, scales);
}

void add_nvfp4(SafetensorsBuilder& file, const std::string& key, const Grouped& m) {
  constexpr float kGlobal = 1024.0f;
  const auto n = static_cast<int64_t>(m.outputs), k = static_cast<int64_t>(m.inputs);
  std::vector<uint8_t> scales;
  for (const float scale : m.scales) scales.push_back(float_to_e4m3(scale * kGlobal));
  file.add(key + ".weight_packed", "U8", Shape{n, k / 2}, fp4_bytes(m));
  file.add(key + ".weight_scale", "F8_E4M3", Shape{n, k / 16}, scales);
  file.add(key + ".weight_global_scale", "F32", Shape{1}, std::vector<float>{kGlobal});
}

// Stores the quarters of the outputs in two bits each of the same bytes; the scale is the factor that weights
// were multiplied by.
std::vector<float> add_bitnet(SafetensorsBuilder& file, const std::string& key,
                              const std::vector<float>& weights, size_t outputs) {
  double sum = 0.0;
  for (const float weight : weights) sum += std::abs(weight);
  const auto mean = static_cast<float>(sum / static_cast<double>(weights.size()));
  const auto stored = static_cast<uint16_t>(std::bit_cast<uint32_t>(1.0f / mean) >> 16);
  const float scale = kernels::bfloat16_to_float(stored);
  const size_t quarter = weights.size() / 4;
  std::vector<uint8_t> bytes(quarter);
  std::vector<float> values;
  for (size_t i = 0; i < weights.size(); ++i) {
    const float ternary = std::clamp(std::round(weights[i] * scale), -1.0f, 1.0f);
    bytes[i % quarter] |= static_cast<uint8_t>(static_cast<int>(ternary + 1.0f) << (2 * (i / quarter)));
    values.push_back(ternary / scale);
  }
  file.add(key + ".weight", "U8",
           Shape{static_cast<int64_t>(outputs / 4), static_cast<int64_t>(weights.size() / outputs)}, bytes);
  file.add(key + ".weight_scale", "BF16", Shape{1}, std::vector<uint16_t>{stored});
  return values;
}

// Adds a matrix [outputs, inputs] to a file in some format, and returns its dequantized values.
using AddMatrix = std::vector<float> (*)(SafetensorsBuilder&, const std::string& key,
                                         const std::vector<float>& weights, size_t outputs);

struct Scheme {
  const char* name;
  const char* format;  // name in the description of the tensors
  std::string config;
  AddMatrix add;
};

// Makes widths and rows in mixed order, as the converter chooses them, with values of the magnitude of
// `weights`.
std::vector<float> add_exl2(SafetensorsBuilder& file, const std::string& key,
                            const std::vector<float>& weights, size_t outputs) {
  const size_t inputs = weights.size() / outputs;
  Exl2Options options;
  options.groups = mixed_groups({5, 4}, static_cast<int32_t>(inputs), 32);
  options.num_out = static_cast<int32_t>(outputs);
  options.seed = std::hash<std::string>{}(key);
  WeightFixture matrix = make_exl2(options);
  const auto size_of = [](const std::vector<float>& values) {
    return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  };
  const double ratio = size_of(weights) / size_of(dequantize_reference(matrix.source()));
  for (uint16_t& scale : matrix.q_scale_max)
    scale = kernels::float_to_half(kernels::half_to_float(scale) * static_cast<float>(ratio));
  add_weight(file, key, matrix);
  return transposed(dequantize_reference(matrix.source()), outputs);
}

// Makes random tiles of one of all kinds, with values of the magnitude of `weights`.
std::vector<float> add_exl3(SafetensorsBuilder& file, const std::string& key,
                            const std::vector<float>& weights, size_t outputs) {
  const size_t inputs = weights.size() / outputs;
  const uint64_t seed = std::hash<std::string>{}(key);
  const std::vector<TrellisKind> kinds = all_trellis_kinds();
  TrellisFixture matrix = make_trellis(kinds[seed % kinds.size()], static_cast<int32_t>(inputs),
                                       static_cast<int32_t>(outputs), seed);
  const auto size_of = [](const std::vector<float>& values) {
    return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  };
  const double ratio = size_of(weights) / size_of(dequantize_reference(matrix.source()));
  for (uint16_t& scale : matrix.output_scales)
    scale = kernels::float_to_half(kernels::half_to_float(scale) * static_cast<float>(ratio));
  add_trellis(file, key, matrix);
  return transposed(dequantize_reference(matrix.source()), outputs);
}

std::string packed_config(const std::string& format, const std::string& weights) {
  return R"({"quant_method": "compressed-tensors", "format": ")" + format +
         R"(", "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": )" +
         weights + "}}}";
}

const std::vector<Scheme>& schemes() {
  static const auto* const all = new std::vector<Scheme>{
      {"exl2", "exl2", R"({"quant_method": "exl2", "bits": 4.5})", add_exl2},
      {"exl3", "exl3", R"({"quant_method": "exl3", "bits": 4.0, "codebook": "mul1"})", add_exl3},
      {"gptq4", "gptq", R"({"quant_method": "gptq", "bits": 4, "group_size": 32})",
       [](auto& file, const auto& key, const auto& w, size_t n) {
         const Grouped m = to_integers(w, n, 32, 4, false);
         add_gptq(file, key, m, 4);
         return m.values;
       }},
      {"gptq8", "gptq", R"({"quant_method": "gptq", "bits": 8, "group_size": 32})",
       [](auto& file, const auto& key, const auto& w, size_t n) {
         const Grouped m = to_integers(w, n, 32, 8, false);
         add_gptq(file, key, m, 8);
         return m.values;
       }},
      {"awq", "awq", R"({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": true,
                         "version": "gemm", "modules_to_not_convert": ["lm_head"]})",
       [](auto& file, const auto& key, const auto& w, size_t n) {
         const Grouped m = to_integers(w, n, 32, 4, false);
         add_awq(file, key, m);
         return m.values;
       }},
      {"packed4", "packed",
       packed_config("pack-quantized",
                     R"({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32})"),
       [](auto& file, const auto& key, const auto& w, size_t n) {
         const Grouped m = to_integers(w, n, 32, 4, true);
         add_packed(file, key, m, 4, false);
         return m.values;
       }},
      {"packed4_zeros", "packed",
       packed_config("pack-quantized",
                     R"({"num_bits": 4, "type": "int", "symmetric": false, "strategy": "group",
                                           "group_size": 16})"),
       [](auto& file, const auto& key, const auto& w, size_t n) {
         const Grouped m = to_integers(w, n, 16, 4, false);
         add_packed(file, key, m, 4, true);
         return m.values;
       }},
      {"packed8", "packed",
       packed_config("pack-quantized", R"({"num_bits": 8, "type": "int", "strategy": "channel"})"),
       [](auto& file, const auto& key, const auto& w, size_t n) {
         const Grouped m = to_integers(w, n, w.size() / n, 8, true);
         add_packed(file, key, m, 8, false);
         return m.values;
       }},
      {"mxfp4", "mxfp4",
       packed_config("mxfp4-pack-quantized",
                     R"({"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32})"),
       [](auto& file, const auto& key, const auto& w, size_t n) {
         const Grouped m = to_fp4(w, n, 32);
         add_mxfp4(file, key, m);
         return m.values;
       }},
      {"nvfp4", "nvfp4",
       packed_config("nvfp4-pack-quantized",
                     R"({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16})"),
       [](auto& file, const auto& key, const auto& w, size_t n) {
         const Grouped m = to_fp4(w, n, 16);
         add_nvfp4(file, key, m);
         return m.values;
       }},
      {"bitnet", "bitnet", R"({"quant_method": "bitnet"})", add_bitnet},
  };
  return *all;
}

// Returns whether checkpoints of these formats quantize such a tensor. Routers are not quantized, nor are
// tensors that do not fill whole words.
bool is_quantized(const TensorInfo& info) {
  const auto ends_with = [&](std::string_view end) { return info.name.ends_with(end); };
  return info.shape.size() == 2 && info.name.find("layers.") != std::string::npos && ends_with(".weight") &&
         !ends_with("gate.weight") && !ends_with("router.weight") && info.shape[0] % 32 == 0 &&
         info.shape[1] % 64 == 0;
}

// The model at `source` twice: in the format, and with the same values as F32.
class ModelPair {
 public:
  ModelPair(const std::string& source, const Scheme& scheme) {
    const SafetensorsFile file(posix_file_system().open(source + "/model.safetensors"));
    SafetensorsBuilder coded, wide;
    for (const TensorInfo& info : file.tensors()) {
      std::string bytes(info.size_bytes, '\0');
      file.file().read_at(info.offset_bytes,
                          gsl::as_writable_bytes(gsl::span<char>(bytes.data(), bytes.size())));
      if (is_quantized(info)) {
        const TensorView view = {*info.type->dtype, info.shape, gsl::as_bytes(gsl::span<const char>(bytes))};
        wide.add(info.name, "F32", info.shape,
                 scheme.add(coded, info.name.substr(0, info.name.rfind('.')), to_floats(view, info.name),
                            static_cast<size_t>(info.shape[0])));
        ++num_matrices_;
        continue;
      }
      for (SafetensorsBuilder* out : {&coded, &wide})
        out->add_bytes(info.name, info.type->name, info.shape, bytes);
    }
    const std::string config = file_text(source + "/config.json");
    place("coded", coded,
          "{\"quantization_config\": " + scheme.config + "," + config.substr(config.find('{') + 1));
    place("wide", wide, config);
  }

  std::string path(const char* which) const { return temporary_.file(which); }
  int num_matrices() const { return num_matrices_; }

 private:
  void place(const char* which, const SafetensorsBuilder& weights, const std::string& config) {
    std::filesystem::create_directory(path(which));
    std::ofstream(path(which) + "/config.json") << config;
    std::ofstream(path(which) + "/model.safetensors", std::ios::binary) << weights.build();
  }

  TempDirectory temporary_;
  int num_matrices_ = 0;
};

// Returns the relative error over rows of logits. If two experts have the same score, a token of a mixture
// may go to either of them, and later tokens attend to it: for mixtures the lower quartile of the rows
// counts.
double distance(const std::vector<float>& values, const std::vector<float>& reference, int32_t vocab,
                bool is_mixture) {
  const auto columns = static_cast<std::ptrdiff_t>(vocab);
  std::vector<double> errors;
  for (auto at = reference.begin(); at != reference.end(); at += columns) {
    const auto other = values.begin() + (at - reference.begin());
    errors.push_back(relative_rms({other, other + columns}, {at, at + columns}));
  }
  if (!is_mixture) return relative_rms(values, reference);
  const auto quartile = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 4);
  std::nth_element(errors.begin(), quartile, errors.end());
  return *quartile;
}

class CodedModels : public ::testing::TestWithParam<std::string> {};

TEST_P(CodedModels, EqualTheModelOfTheirWeights) {
  const FamilyDirectory family(GetParam());
  const std::string& source = family.path();
  if (const std::string refusal = refusal_of(source); !refusal.empty()) GTEST_SKIP() << refusal;
  const TokenIds ids = read_ids(family.golden(), "input_ids");
  const TokenIds few(ids.begin(), ids.begin() + 6);
  const bool is_mixture = file_text(source + "/config.json").find("experts") != std::string::npos;
  for (const Scheme& scheme : schemes()) {
    SCOPED_TRACE(scheme.name);
    const ModelPair pair(source, scheme);
    const auto model = load_model(pair.path("coded"));
    TransformerRunner coded(model, {});
    TransformerRunner wide(load_model(pair.path("wide")), {});
    const auto apart = [&](const TokenIds& of, int32_t chunk) {
      return distance(coded.logits(of, chunk), wide.logits(of, chunk), coded.vocab_size(), is_mixture);
    };
    // With 16-bit activations several tokens may go to another expert. Also, the weights of the F32 model are
    // then rounded to F16, but codes are not: 0.006 of gemma3n's logits.
    const double most = tolerance(1e-3, is_mixture ? 3e-2 : 7e-3);
    EXPECT_LE(apart(ids, 512), most) << "a prompt";
    EXPECT_LE(apart(few, 1), most) << "single tokens";
    if (open_test_device()->has(kernels::kCapabilityShards)) {
      TransformerRunner shards(load_shards(pair.path("coded"), 2), {});
      EXPECT_EQ(shards.logits(ids, 512), coded.logits(ids, 512)) << "two shards";
    }
    int described = 0;
    for (const TensorDescription& tensor : model->tensors())
      described += tensor.format == scheme.format ? 1 : 0;
    EXPECT_EQ(described, pair.num_matrices());
    const auto device = open_test_device();
    const auto outline =
        build_outline(*open_model_source(posix_file_system(), pair.path("coded")), {device}, {});
    EXPECT_EQ(outline->taken_bytes(), model->weight_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CodedModels, ::testing::ValuesIn(thin_if_sanitized(golden_families(), 12)),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace quire::testing
