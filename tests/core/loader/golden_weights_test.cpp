// Matrices of real quantized models compared bit for bit with those dequantized by ExLlamaV2.
#include <cctype>
#include <optional>

#include <gtest/gtest.h>

#include "core/loader/load_linear.h"
#include "kernels/interface/half.h"
#include "tests/support/dequantize_reference.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/weight_source_check.h"

namespace quire {
namespace {

using testing::dequantize_reference;

// Directory of a model, and of the outputs of ExLlamaV2.
struct QuantizedModel {
  std::string name;
  std::string path;
  std::string golden;
};

// Returns the committed model, and those of the shared folder if they exist.
std::vector<QuantizedModel> models() {
  const std::string embedded = "story-15m-exl2-4.0bpw";
  std::vector<QuantizedModel> found = {
      {embedded, QUIRE_EMBEDDED_MODEL, std::string(QUIRE_TEST_DATA) + "/models/" + embedded}};
  for (const char* name : {"story-3m-exl2-5.0bpw", "story-3m-gptq-g128", "story-3m-gptq-g64-act"}) {
    const std::string path = std::string(QUIRE_SHARED_DIR) + "/models/" + name;
    if (posix_file_system().is_directory(path)) found.push_back({name, path, path});
  }
  return found;
}

class GoldenWeights : public ::testing::TestWithParam<QuantizedModel> {
 protected:
  void SetUp() override {
    const std::string& path = GetParam().path;
    directory_.emplace(WeightDirectory::open(posix_file_system(), path));
    reader_.emplace(*directory_);
    golden_files_.write(
        "golden/golden.safetensors",
        posix_file_system().read_text(GetParam().golden + "/golden_exl2.safetensors", 256 << 20));
    golden_directory_.emplace(WeightDirectory::open(golden_files_, "golden"));
    golden_.emplace(*golden_directory_);
  }

  // Loads the layer whose dequantized form is in golden_exl2.safetensors, as [num_in, num_out].
  LinearWeight load(const std::string& key) {
    const TensorInfo& golden = *golden_directory_->at("dequant." + key).tensor;
    LinearRequest request;
    request.key = key;
    request.num_in = gsl::narrow<int32_t>(golden.shape.at(0));
    request.num_out = gsl::narrow<int32_t>(golden.shape.at(1));
    return load_linear(*reader_, request);
  }

  // Returns how many elements differ after rounding to half.
  size_t count_differences(const std::string& key, const std::vector<float>& matrix) {
    const HostTensor golden = golden_->read("dequant." + key);
    const auto expected = golden.elements<uint16_t>();
    EXPECT_EQ(matrix.size(), expected.size());
    size_t differences = 0;
    for (size_t i = 0; i < matrix.size(); ++i)
      differences += kernels::float_to_half(matrix[i]) != expected[i] ? 1 : 0;
    return differences;
  }

  std::optional<WeightDirectory> directory_;
  std::optional<WeightReader> reader_;
  testing::MemoryFileSystem golden_files_;
  std::optional<WeightDirectory> golden_directory_;
  std::optional<WeightReader> golden_;
};

TEST_P(GoldenWeights, FirstQueryProjection) {
  const std::string key = "model.layers.0.self_attn.q_proj";
  const LinearWeight weight = load(key);
  EXPECT_EQ(testing::find_defect(weight.source()), "");
  EXPECT_EQ(count_differences(key, dequantize_reference(weight.source())), 0U);
}

// ExLlamaV2 keeps the rows of this matrix in the order EXL2 stores them: the order is folded into gate and
// up.
TEST_P(GoldenWeights, SecondDownProjectionInStoredOrder) {
  const std::string key = "model.layers.1.mlp.down_proj";
  LinearWeight weight = load(key);
  EXPECT_EQ(weight.row_order.empty(), weight.format() == kernels::WeightFormat::coded);
  weight.row_order.clear();
  EXPECT_EQ(count_differences(key, dequantize_reference(weight.source())), 0U);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenWeights, ::testing::ValuesIn(models()), [](const auto& model) {
  std::string name = model.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace quire
