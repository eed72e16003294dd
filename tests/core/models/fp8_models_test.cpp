// Checkpoints converted to FP8, as converters publish them, compared with the same checkpoints with the
// dequantized weights: equal bit for bit on the CPU, nearly equal if only the latter are rounded to f16. Also
// compared with the references of the original weights.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/loader/safetensors_file.h"
#include "kernels/interface/half.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/perplexity.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/case_stride.h"
#include "tests/support/file_text.h"
#include "tests/support/quantized_fixture.h"
#include "tests/support/temp_directory.h"

namespace quire::testing {
namespace {

struct Scheme {
  const char* name;
  int32_t block_out = 0;  // outputs that share a scale; 0: all
  int32_t block_in = 0;
  const char* suffix = ".weight_scale";
  const char* config = "";  // quantization_config
};

constexpr Scheme kSchemes[] = {
    {"tensor", 0, 0, ".weight_scale",
     R"({"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]})"},
    {"channel", 1, 0, ".weight_scale",
     R"({"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
         "config_groups": {"group_0": {"targets": ["Linear"],
           "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true},
           "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true}}}})"},
    {"block", 128, 128, ".weight_scale_inv",
     R"({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]})"},
    {"odd_block", 24, 40, ".weight_scale_inv",
     R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [24, 40]})"},
};

// Matrix [rows, columns] as codes and scales, with the dequantized values.
struct Fp8Matrix {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<int64_t> scale_shape;
  std::vector<float> values;
};

// Scales each block so that its largest magnitude becomes 448.
Fp8Matrix to_fp8(const std::vector<float>& weights, size_t rows, size_t columns, const Scheme& scheme) {
  const size_t block_rows = scheme.block_out > 0 ? static_cast<size_t>(scheme.block_out) : rows;
  const size_t block_columns = scheme.block_in > 0 ? static_cast<size_t>(scheme.block_in) : columns;
  const size_t across = (columns - 1) / block_columns + 1;
  Fp8Matrix out;
  out.scales.assign(((rows - 1) / block_rows + 1) * across, 0.0f);
  const auto scale_of = [&](size_t i) -> float& {
    return out.scales[i / columns / block_rows * across + i % columns / block_columns];
  };
  for (size_t i = 0; i < weights.size(); ++i)
    scale_of(i) = std::max(scale_of(i), std::abs(weights[i]) / 448.0f);
  for (size_t i = 0; i < weights.size(); ++i) {
    const float scale = scale_of(i);
    out.codes.push_back(float_to_e4m3(scale == 0.0f ? 0.0f : weights[i] / scale));
    out.values.push_back(kernels::e4m3_to_float(out.codes.back()) * scale);
  }
  out.scale_shape = {static_cast<int64_t>(out.scales.size() / across), static_cast<int64_t>(across)};
  if (scheme.block_out == 0) out.scale_shape = {};  // a scalar
  return out;
}

// The model at `source` twice: `fp8`, and `wide` with the same values as F32.
class Fp8Pair {
 public:
  Fp8Pair(const std::string& source, const Scheme& scheme) {
    const SafetensorsFile file(posix_file_system().open(source + "/model.safetensors"));
    SafetensorsBuilder fp8;
    SafetensorsBuilder wide;
    for (const TensorInfo& info : file.tensors()) {
      std::string bytes(info.size_bytes, '\0');
      file.file().read_at(info.offset_bytes,
                          gsl::as_writable_bytes(gsl::span<char>(bytes.data(), bytes.size())));
      if (info.shape.size() == 2 && info.name.find("layers.") != std::string::npos) {
        add_matrix(fp8, wide, info, bytes, scheme);
        continue;
      }
      for (SafetensorsBuilder* out : {&fp8, &wide})
        out->add_bytes(info.name, info.type->name, info.shape, bytes);
    }
    const std::string config = file_text(source + "/config.json");
    const size_t inside = config.find('{') + 1;
    place(fp8_path(), fp8,
          "{\"quantization_config\": " + std::string(scheme.config) + "," + config.substr(inside));
    place(wide_path(), wide, config);
  }

  std::string fp8_path() const { return temporary_.file("fp8"); }
  std::string wide_path() const { return temporary_.file("wide"); }
  uint64_t num_codes() const { return num_codes_; }
  uint64_t scale_bytes() const { return scale_bytes_; }

 private:
  void add_matrix(SafetensorsBuilder& fp8, SafetensorsBuilder& wide, const TensorInfo& info,
                  const std::string& bytes, const Scheme& scheme) {
    const std::string& name = info.name;
    const auto rows = static_cast<size_t>(info.shape[0]);
    const auto columns = static_cast<size_t>(info.shape[1]);
    const TensorView view = {*info.type->dtype, info.shape, gsl::as_bytes(gsl::span<const char>(bytes))};
    const Fp8Matrix matrix = to_fp8(to_floats(view, name), rows, columns, scheme);
    const std::string key = name.substr(0, name.rfind('.'));
    fp8.add(name, "F8_E4M3", info.shape, matrix.codes);
    fp8.add(key + scheme.suffix, "F32", matrix.scale_shape, matrix.scales);
    fp8.add(key + ".input_scale", "F32", {}, std::vector<float>{0.01f});
    wide.add(name, "F32", info.shape, matrix.values);
    num_codes_ += matrix.codes.size();
    scale_bytes_ += (matrix.scales.size() + 1) * sizeof(float);
  }

  static void place(const std::string& path, const SafetensorsBuilder& weights, const std::string& config) {
    std::filesystem::create_directory(path);
    std::ofstream(path + "/config.json") << config;
    std::ofstream(path + "/model.safetensors", std::ios::binary) << weights.build();
  }

  TempDirectory temporary_;
  uint64_t num_codes_ = 0;
  uint64_t scale_bytes_ = 0;
};

void expect_same_logits(const Fp8Pair& pair, const TokenIds& ids, std::vector<float>* logits) {
  TransformerRunner fp8(load_model(pair.fp8_path()), {});
  TransformerRunner wide(load_model(pair.wide_path()), {});
  const double most = tolerance(0.0, 3e-3);
  *logits = fp8.logits(ids, 512);
  EXPECT_LE(relative_rms(*logits, wide.logits(ids, 512)), most) << "a prompt";
  // Single tokens use other matrix kernels.
  const TokenIds few(ids.begin(), ids.begin() + std::min<ptrdiff_t>(6, static_cast<ptrdiff_t>(ids.size())));
  EXPECT_LE(relative_rms(fp8.logits(few, 1), wide.logits(few, 1)), most) << "single tokens";
}

// Checks that the size planned from headers equals the allocated size.
void expect_as_planned(const std::string& path) {
  const auto device = open_test_device();
  const auto source = open_model_source(posix_file_system(), path);
  EXPECT_EQ(build_outline(*source, {device}, {})->taken_bytes(), load_model(path)->weight_bytes());
}

class Fp8Architecture : public ::testing::TestWithParam<const char*> {
 protected:
  std::string directory() const { return std::string(QUIRE_TEST_DATA) + "/architectures/" + GetParam(); }
};

TEST_P(Fp8Architecture, EqualsTheModelOfItsWeights) {
  const std::string golden = directory() + "/golden.safetensors";
  const TokenIds ids = read_ids(golden, "input_ids");
  const std::vector<float> reference = read_floats(golden, "logits");
  for (const Scheme& scheme : kSchemes) {
    SCOPED_TRACE(scheme.name);
    const Fp8Pair pair(directory(), scheme);
    std::vector<float> logits;
    expect_same_logits(pair, ids, &logits);
    const double error = relative_rms(logits, reference);
    RecordProperty(std::string("relative_rms_") + scheme.name, std::to_string(error));
    EXPECT_LE(error, 0.1);
    expect_as_planned(pair.fp8_path());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Fp8Architecture, ::testing::Values("llama3", "qwen2"));

TEST(Fp8Model, IsDescribedWithItsScales) {
  const std::string source = std::string(QUIRE_TEST_DATA) + "/architectures/llama3";
  const Fp8Pair pair(source, kSchemes[1]);
  const auto model = load_model(pair.fp8_path());
  int64_t weights = 0;
  int64_t bytes = 0;
  for (const TensorDescription& tensor : model->tensors()) {
    EXPECT_EQ(tensor.name.find("_scale"), std::string::npos) << tensor.name;
    if (tensor.format != "fp8") continue;
    ASSERT_EQ(tensor.shape.size(), 2U);
    weights += tensor.shape[0] * tensor.shape[1];
    bytes += tensor.stored_bytes;
    if (tensor.name == "model.layers.1.mlp.down_proj") {
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{64, 96}));
      EXPECT_EQ(tensor.stored_bytes, 64 * 96 + 64 * 4 + 4);
    }
  }
  EXPECT_EQ(static_cast<uint64_t>(weights), pair.num_codes());
  EXPECT_EQ(static_cast<uint64_t>(bytes), pair.num_codes() + pair.scale_bytes());
}

const std::string kStory = std::string(QUIRE_SHARED_DIR) + "/models/story-15m";

// A trained model in floats, which only the shared folder has. Without it, no test is registered.
class Fp8Story : public ::testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Fp8Story);
INSTANTIATE_TEST_SUITE_P(Models, Fp8Story,
                         ::testing::ValuesIn(exists(kStory + "/config.json")
                                                 ? std::vector<std::string>{kStory}
                                                 : std::vector<std::string>{}),
                         [](const auto&) { return std::string("story_15m"); });

TEST_P(Fp8Story, EqualsTheModelOfItsWeights) {
  if (kIsSanitized) GTEST_SKIP() << "15 million weights are too many under a sanitizer";
  const std::string& source = GetParam();
  const GoldenPrompt prompt = read_golden_prompts(source + "/golden.json").front();
  const std::vector<float> reference = read_floats(source + "/golden_logits.safetensors", "logits0");
  for (const Scheme& scheme : {kSchemes[1], kSchemes[2]}) {
    SCOPED_TRACE(scheme.name);
    const Fp8Pair pair(source, scheme);
    std::vector<float> logits;
    expect_same_logits(pair, prompt.ids, &logits);
    const double error = relative_rms(logits, reference);
    RecordProperty(std::string("relative_rms_") + scheme.name, std::to_string(error));
    EXPECT_LE(error, 0.1);
    expect_as_planned(pair.fp8_path());
  }
}

// Checks that a row is bit-identical in any chunks, alone and with other sequences.
void expect_independence(const std::shared_ptr<const Model>& model, const TokenIds& ids) {
  const auto vocab = static_cast<size_t>(TransformerRunner(model, {}).vocab_size());
  const std::vector<float> alone = TransformerRunner(model, {}).logits(ids, 512);
  for (const int32_t chunk : {1, 3, 17, 64})
    EXPECT_EQ(TransformerRunner(model, {}).logits(ids, chunk), alone) << chunk;
  TransformerRunner runner(model, {});
  const std::vector<float> both = runner.step({{0, 0, TokenIds(150, ids.back())}, {2, 0, ids}});
  EXPECT_EQ(std::vector<float>(both.begin() + static_cast<ptrdiff_t>(150 * vocab), both.end()), alone);
}

TEST_P(Fp8Story, FloatActivationsCostLittleAndDependOnNothing) {
  using kernels::ActivationDtype;
  if (!runs_activations(ActivationDtype::f8)) GTEST_SKIP() << "the device has no FP8 activations";
  const TokenIds ids = read_json_ids(std::string(QUIRE_TEST_DATA) + "/models/eval_ids.json");
  for (const Scheme& scheme : {kSchemes[0], kSchemes[1], kSchemes[2]}) {
    const Fp8Pair pair(GetParam(), scheme);
    const auto rounded = load_model(pair.fp8_path(), ActivationDtype::f8);
    const double full = perplexity(load_model(pair.fp8_path()), ids, 80),
                 cost = perplexity(rounded, ids, 80) / full - 1.0;
    std::cout << "scales of a " << scheme.name << ": " << full << ", with FP8 activations " << 100.0 * cost
              << " % more\n";
    EXPECT_NE(cost, 0.0) << "they are not in use";
    EXPECT_LE(std::abs(cost), 0.02);
    expect_independence(rounded, TokenIds(ids.begin(), ids.begin() + 90));
    const auto device = open_test_device();
    const auto source = open_model_source(posix_file_system(), pair.fp8_path());
    EXPECT_EQ(build_outline(*source, {device}, {}, 1, ActivationDtype::f8)->taken_bytes(),
              rounded->weight_bytes());
  }
}

}  // namespace
}  // namespace quire::testing
