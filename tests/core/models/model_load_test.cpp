// Loading of a model directory: its properties, rejected models, and failed loads, which leak nothing.
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/file_text.h"

namespace quire::testing {
namespace {

namespace fs = std::filesystem;

// Copies a small model, which a test may damage.
class ModelLoad : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        fs::temp_directory_path() / ("quire-model-" + std::to_string(::getpid()) + "-" +
                                     ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(directory_);
    fs::create_directory(directory_);
    const fs::path source = fs::path(QUIRE_TEST_DATA) / "architectures" / "llama3";
    for (const char* name : {"config.json", "model.safetensors"}) fs::copy(source / name, directory_ / name);
  }
  void TearDown() override { fs::remove_all(directory_); }

  ErrorCode load_code(std::string* message = nullptr) const {
    try {
      (void)load_model(directory_.string());
    } catch (const Error& error) {
      if (message != nullptr) *message = error.what();
      return error.code();
    }
    return ErrorCode::ok;
  }

  fs::path directory_;
};

TEST_F(ModelLoad, ReportsItsProperties) {
  const auto model = load_model(QUIRE_EMBEDDED_MODEL);
  EXPECT_EQ(model->config().architecture->name, "LlamaForCausalLM");
  EXPECT_EQ(model->shape().num_layers, 8);
  EXPECT_EQ(model->shape().vocab_size, 6144);
  EXPECT_GT(model->bits_per_weight(), 4.0);
  EXPECT_LT(model->bits_per_weight(), 8.0);
  // Quantized weights stay quantized in memory: at most a fifth larger than the files.
  const double stored =
      static_cast<double>(fs::file_size(fs::path(QUIRE_EMBEDDED_MODEL) / "output.safetensors"));
  EXPECT_LT(static_cast<double>(model->weight_bytes()), 1.2 * stored);
  int exl2 = 0;
  for (const TensorDescription& tensor : model->tensors()) {
    if (tensor.format != "exl2") continue;
    ++exl2;
    if (tensor.name == "model.layers.3.mlp.down_proj") {
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{384, 1024}));
      EXPECT_EQ(tensor.layer, 3);
    }
  }
  EXPECT_EQ(exl2, 8 * 7 + 1);
}

TEST_F(ModelLoad, MetadataAloneReadsNoWeights) {
  ModelOptions options;
  options.source = open_model_source(posix_file_system(), directory_.string());
  options.scope = ModelScope::metadata;
  const auto model = Model::load(options);
  EXPECT_EQ(model->shape().hidden_size, 64);
  EXPECT_THROW((void)model->transformer(), Error);
  EXPECT_THROW((void)model->tokenizer(), Error);
}

TEST_F(ModelLoad, AMissingDirectoryIsNamed) {
  fs::remove_all(directory_);
  std::string message;
  EXPECT_EQ(load_code(&message), ErrorCode::not_found);
  EXPECT_NE(message.find(directory_.string()), std::string::npos);
}

TEST_F(ModelLoad, AnUnknownArchitectureIsNamedWithTheListOfFamilies) {
  std::ofstream(directory_ / "config.json") << R"({"architectures": ["RwkvForCausalLM"], "hidden_size": 64})";
  std::string message;
  EXPECT_EQ(load_code(&message), ErrorCode::unsupported);
  EXPECT_NE(message.find("RwkvForCausalLM"), std::string::npos);
  EXPECT_NE(message.find("docs/formats.md"), std::string::npos) << message;
}

TEST_F(ModelLoad, AShardTruncatedAtAnyLengthIsAnError) {
  const auto size = fs::file_size(directory_ / "model.safetensors");
  for (uintmax_t length = 0; length < size; length += 1 + size / 97) {
    SetUp();
    fs::resize_file(directory_ / "model.safetensors", length);
    std::string message;
    const ErrorCode code = load_code(&message);
    EXPECT_TRUE(code == ErrorCode::format || code == ErrorCode::truncated) << length << ": " << message;
    EXPECT_NE(message.find("model.safetensors"), std::string::npos) << message;
  }
}

// Flips bits in the bytes of the header's length and text, as a fault of a disk or of a copy would.
TEST_F(ModelLoad, AFlippedByteOfTheHeaderIsAnErrorOrAValidLoad) {
  const std::string sound = file_text(directory_ / "model.safetensors");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, sound.data(), sizeof header_bytes);
  int num_refused = 0;
  int num_tried = 0;
  for (size_t place = 0; place < 8 + header_bytes; place += place < 8 ? 1 : 41) {
    for (const int flip : {0x01, 0x20, 0x80}) {
      std::string bytes = sound;
      bytes[place] = static_cast<char>(bytes[place] ^ flip);
      std::ofstream(directory_ / "model.safetensors", std::ios::binary) << bytes;
      std::string message;
      const ErrorCode code = load_code(&message);
      ++num_tried;
      if (code == ErrorCode::ok) continue;
      ++num_refused;
      EXPECT_TRUE(code == ErrorCode::format || code == ErrorCode::truncated || code == ErrorCode::unsupported)
          << "byte " << place << " ^ " << flip << ": " << message;
      const bool names_place = message.find(directory_.filename().string()) != std::string::npos;
      EXPECT_TRUE(names_place || message.find("tensor ") != std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
  EXPECT_GE(num_tried, 60);
  EXPECT_GE(num_refused, num_tried / 2) << "of " << num_tried;
}

TEST_F(ModelLoad, CanBeCancelledAndReportsProgress) {
  std::atomic<bool> cancel{false};
  uint64_t last = 0;
  ModelOptions options;
  options.source = open_model_source(posix_file_system(), directory_.string());
  options.devices = {open_test_device()};
  options.monitor.cancel = &cancel;
  options.monitor.progress = [&](const LoadProgress& progress) {
    EXPECT_GE(progress.done_bytes, last);
    EXPECT_LE(progress.done_bytes, progress.total_bytes);
    last = progress.done_bytes;
  };
  EXPECT_NO_THROW((void)Model::load(options));
  EXPECT_GT(last, 0U);
  cancel = true;
  try {
    (void)Model::load(options);
    FAIL() << "a cancelled load went through";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
}

}  // namespace
}  // namespace quire::testing
