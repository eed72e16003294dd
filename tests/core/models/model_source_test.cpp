// Sources of models: each file is opened once, two loads share nothing, and paths that are not models get a
// helpful error.
#include "core/models/model_source.h"

#include <map>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/model/model_plan.h"
#include "core/models/model.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/expect_error.h"
#include "tests/support/memory_file_system.h"

namespace quire::testing {
namespace {

class CountingFiles final : public FileSystem {
 public:
  std::unique_ptr<File> open(const std::string& path) const override {
    ++opened_[path.substr(path.rfind('/') + 1)];
    return posix_file_system().open(path);
  }
  bool is_directory(const std::string& path) const override { return posix_file_system().is_directory(path); }
  bool is_file(const std::string& path) const override { return posix_file_system().is_file(path); }
  std::vector<std::string> list(const std::string& path) const override {
    return posix_file_system().list(path);
  }
  const std::map<std::string, int>& opened() const { return opened_; }

 private:
  mutable std::map<std::string, int> opened_;
};

TEST(ModelSource, OpensEachFileOnceForAPlanAndTheLoadAfterIt) {
  const CountingFiles files;
  ModelPlanOptions plan;
  plan.source = open_model_source(files, QUIRE_EMBEDDED_MODEL);
  plan.devices = {{"a", open_test_device()}, {"b", open_second_test_device()}};
  plan.devices.front().budget_bytes = uint64_t{6} << 20;
  ModelOptions options;
  options.source = plan.source;
  for (const ModelDevice& device : plan.devices) options.devices.push_back(device.device);
  options.placement = plan_model(plan).memory.placement;
  ASSERT_EQ(options.placement.device_of_layer.size(), 8U);
  const auto model = Model::load(options);
  EXPECT_EQ(model->tokenizer().vocab_size(), 6144U);
  EXPECT_EQ(files.opened().at("config.json"), 1);
  for (const auto& [name, times] : files.opened()) EXPECT_EQ(times, 1) << name;
}

TEST(ModelSource, LoadsOfOneSourceShareNothing) {
  ModelOptions options;
  options.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
  options.devices = {open_test_device()};
  const auto first = Model::load(options);
  const uint64_t held = options.devices.front()->memory_use().held_bytes;
  auto second = Model::load(options);
  EXPECT_EQ(options.devices.front()->memory_use().held_bytes, 2 * held);
  EXPECT_NE(first->transformer(), second->transformer());
  EXPECT_NE(first->shared_tokenizer(), second->shared_tokenizer());
  EXPECT_NE(&first->config(), &second->config());
  second.reset();
  options.source.reset();
  EXPECT_EQ(options.devices.front()->memory_use().held_bytes, held);
  EXPECT_EQ(first->config().num_layers, 8);
}

TEST(ModelSource, IsReadOnlyWhenRequested) {
  const CountingFiles files;
  ModelOptions options;
  options.scope = ModelScope::tokenizer;
  options.source = open_model_source(files, QUIRE_EMBEDDED_MODEL);
  const auto model = Model::load(options);
  EXPECT_FALSE(model->has_config());
  EXPECT_EQ(files.opened().count("config.json"), 0U);
  EXPECT_EQ(files.opened().count("model.safetensors") + files.opened().count("output.safetensors"), 0U);
}

struct Foreign {
  const char* name;
  const char* path;     // requested path
  const char* file;     // existing file
  std::string content;  // of that file
  ErrorCode code;
  const char* words;
};

class ForeignPath : public ::testing::TestWithParam<Foreign> {};

TEST_P(ForeignPath, IsDescribedInAnErrorWithTheSupportedKinds) {
  const Foreign& foreign = GetParam();
  MemoryFileSystem files;
  files.write(foreign.file, foreign.content);
  expect_error(foreign.code, {foreign.path, foreign.words},
               [&] { (void)open_model_source(files, foreign.path)->config(); });
}

const std::vector<Foreign> kForeign = {
    {"gguf", "m/a.gguf", "m/a.gguf", "GGUF\x03", ErrorCode::truncated, "the version needs 4 bytes"},
    {"zip", "m/a.pt", "m/a.pt", "PK\x03\x04....", ErrorCode::unsupported, "a zip archive"},
    {"pickle", "m/a.bin", "m/a.bin", "\x80\x02}q", ErrorCode::unsupported, "a Python pickle"},
    {"page", "m/a.json", "m/a.json", "<!DOCTYPE html>", ErrorCode::unsupported, "like a web page"},
    {"weights", "m/a.safetensors", "m/a.safetensors", std::string("\x08\0\0\0\0\0\0\0{}      ", 16),
     ErrorCode::unsupported, "name the directory that holds it"},
    {"tokenizer", "m/tokenizer.json", "m/tokenizer.json", "{}", ErrorCode::unsupported,
     "with the tokenizer scope"},
    {"empty", "m/a", "m/a", "", ErrorCode::unsupported, "a model is a directory"},
    {"hub", "owner/Model-1.5B", "m/a", "", ErrorCode::not_found, "a name on a model hub"},
    {"missing", "/no/such/model", "m/a", "", ErrorCode::not_found, "a model is a directory"},
    {"gguf_inside", "m", "m/a.gguf", "GGUF", ErrorCode::unsupported,
     "holds a.gguf but no config.json; name that file"},
    {"pickle_inside", "m", "m/pytorch_model.bin", "PK", ErrorCode::unsupported, "holds pytorch_model.bin"},
    {"no_config", "m", "m/tokenizer.json", "{}", ErrorCode::not_found, "m/config.json: no such file"},
};

INSTANTIATE_TEST_SUITE_P(Table, ForeignPath, ::testing::ValuesIn(kForeign),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(ModelSource, ATokenizerFileAloneGivesOnlyATokenizer) {
  const std::string path = std::string(QUIRE_EMBEDDED_MODEL) + "/tokenizer.json";
  const auto source = open_model_source(posix_file_system(), path);
  ModelOptions options;
  options.scope = ModelScope::tokenizer;
  options.source = source;
  EXPECT_EQ(Model::load(options)->tokenizer().vocab_size(), 6144U);
  expect_error(ErrorCode::unsupported, {path}, [&] { (void)source->weights(ReadScope::all, {}); });
  expect_error(ErrorCode::unsupported, {path}, [&] { (void)source->tensors(); });
}

TEST(ModelSource, ATokenizerModelReplacesATokenizerJson) {
  MemoryFileSystem files;
  files.write("m/tokenizer.tiktoken", "IQ== 0\n");
  files.write("m/tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})");
  files.write("d/qwen.tiktoken", "IQ== 0\nISE= 1\n");
  ModelOptions options;
  options.scope = ModelScope::tokenizer;
  options.source = open_model_source(files, "m");
  EXPECT_TRUE(options.source->has_tokenizer());
  EXPECT_EQ(Model::load(options)->tokenizer().encode("!"), TokenIds{0});
  options.source = open_model_source(files, "d/qwen.tiktoken");
  EXPECT_EQ(Model::load(options)->tokenizer().encode("!!"), TokenIds{1});
  files.write("m/tokenizer.json", "{}");
  options.source = open_model_source(files, "m");
  expect_error(ErrorCode::format, {"tokenizer.json.model"}, [&] { (void)Model::load(options); });
}

}  // namespace
}  // namespace quire::testing
