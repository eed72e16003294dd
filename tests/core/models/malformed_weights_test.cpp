// The weights of every family, bent one tensor at a time: each tensor of the files counts, and a refusal
// names it.
#include <cstring>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/models/golden_families.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/json_text.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/safetensors_builder.h"

namespace quire::testing {
namespace {

struct StoredTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

std::vector<StoredTensor> read_tensors(const std::string& path) {
  const std::string file = posix_file_system().read_text(path, 64 << 20);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  const Json header = Json::parse(file.substr(8, header_bytes));
  std::vector<StoredTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto offsets = entry["data_offsets"].get<std::vector<size_t>>();
    tensors.push_back({name, entry["dtype"], entry["shape"],
                       file.substr(8 + header_bytes + offsets[0], offsets[1] - offsets[0])});
  }
  return tensors;
}

// By the module's name where its weights may come in several formats.
void expect_named(const StoredTensor& tensor, const std::string& words) {
  const size_t ending = tensor.name.rfind(".weight");
  EXPECT_NE(words.find(tensor.name.substr(0, ending)), std::string::npos) << tensor.name << ": " << words;
}

// One more row of zeros; a single number becomes two.
void lengthen(StoredTensor& tensor) {
  if (tensor.shape.empty()) tensor.shape.push_back(1);
  tensor.bytes.append(tensor.bytes.size() / static_cast<size_t>(tensor.shape.front()), '\0');
  ++tensor.shape.front();
}

class MalformedWeights : public ::testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    const std::string directory = family_directory(GetParam());
    if (directory.empty()) GTEST_SKIP() << GetParam().name << " is absent";
    config_ = posix_file_system().read_text(directory + "/config.json", 1 << 20);
    tensors_ = read_tensors(directory + "/model.safetensors");
  }

  // The words of the refusal; none where the model loads.
  std::string refusal(const std::vector<StoredTensor>& tensors) const {
    SafetensorsBuilder builder;
    for (const StoredTensor& tensor : tensors)
      builder.add_bytes(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
    MemoryFileSystem files;
    files.write("model/config.json", config_);
    files.write("model/model.safetensors", builder.build());
    ModelOptions options;
    options.source = open_model_source(files, "model");
    options.devices = {open_test_device()};
    try {
      (void)Model::load(options);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  std::string config_;
  std::vector<StoredTensor> tensors_;
};

// Constants of an activation, which transformers stores beside what was trained.
bool has_default(const StoredTensor& tensor) {
  return tensor.name.find(".act_fn.beta") != std::string::npos ||
         tensor.name.find(".act_fn.eps") != std::string::npos;
}

TEST_P(MalformedWeights, AMissingTensorIsNamed) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (has_default(tensors_[i])) continue;
    std::vector<StoredTensor> tensors = tensors_;
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
    expect_named(tensors_[i], refusal(tensors));
  }
}

TEST_P(MalformedWeights, ATensorOfAnotherShapeIsNamed) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    std::vector<StoredTensor> tensors = tensors_;
    lengthen(tensors[i]);
    expect_named(tensors_[i], refusal(tensors));
  }
}

TEST_P(MalformedWeights, ATensorOfWholeNumbersIsNamed) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    std::vector<StoredTensor> tensors = tensors_;
    tensors[i].dtype = "I16";
    expect_named(tensors_[i], refusal(tensors));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, MalformedWeights, ::testing::ValuesIn(kFamilies),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace quire::testing
