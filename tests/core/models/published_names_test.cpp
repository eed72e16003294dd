// Directories of published models, by names alone: the configuration, the list of files, and the name, type
// and shape of each tensor (tests/golden/published_names). Their weight files have headers, and zeros that
// take no memory.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/loader/stored_type.h"
#include "core/models/transformer_builder.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/case_stride.h"
#include "tests/support/derived_weights.h"
#include "tests/support/expect_error.h"
#include "tests/support/file_text.h"
#include "tests/support/json_text.h"
#include "tests/support/safetensors_builder.h"
#include "tests/support/sparse_files.h"

namespace quire::testing {
namespace {

const std::string kFolder = QUIRE_TEST_DATA "/published_names/";
const std::string kDirectory = SparseFiles::kDirectory;

struct NamedTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;

  uint64_t size_bytes() const {
    uint64_t bits = find_stored_type(dtype)->bits;
    for (const int64_t extent : shape) bits *= static_cast<uint64_t>(extent);
    return bits / 8;
  }
};

// Returns the tensors of rows [name with ranges, shape, type], sorted by name.
std::vector<NamedTensor> expand(const Json& rows) {
  std::vector<NamedTensor> tensors;
  for (const Json& row : rows)
    for (const std::string& name : expand_ranges(row[0].get<std::string>()))
      tensors.push_back({name, row[2].get<std::string>(), row[1].get<std::vector<int64_t>>()});
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return tensors;
}

SparseContent weight_file(gsl::span<const NamedTensor> tensors) {
  std::string header;
  uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const uint64_t end = offset + tensor.size_bytes();
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          header.empty() ? "" : ",", tensor.name, tensor.dtype, fmt::join(tensor.shape, ","),
                          offset, end);
    offset = end;
  }
  return {safetensors_file("{" + header + "}", ""), offset};
}

// Divides the tensors among the weight files, and writes the index if there are several.
void write_weights(const Json& golden, const std::vector<NamedTensor>& tensors, SparseFiles& files) {
  const auto names = golden["weights"].get<std::vector<std::string>>();
  Json map = golden.value("stale_index", Json::object());
  for (size_t i = 0; i < names.size(); ++i) {
    const size_t begin = tensors.size() * i / names.size(), end = tensors.size() * (i + 1) / names.size();
    files.write(names[i], weight_file(gsl::span(tensors).subspan(begin, end - begin)));
    for (size_t j = begin; names.size() > 1 && j < end; ++j) map[tensors[j].name] = names[i];
  }
  if (!map.empty()) files.write("model.safetensors.index.json", {Json({{"weight_map", map}}).dump()});
}

// Returns the directory with these tensors. Files that have no part in a load are empty, so that a load that
// opens one fails.
SparseFiles directory_of(const Json& golden, const std::vector<NamedTensor>& tensors) {
  SparseFiles files;
  for (const Json& name : golden["others"]) files.write(name.get<std::string>(), {});
  for (const char* name : {"config", "params", "generation_config"})
    if (golden.contains(name)) files.write(std::string(name) + ".json", {golden[name].dump()});
  write_weights(golden, tensors, files);
  return files;
}

std::vector<NamedTensor> all_tensors(const Json& golden) {
  Json rows = golden["tensors"];
  if (golden.contains("unused")) rows.insert(rows.end(), golden["unused"].begin(), golden["unused"].end());
  return expand(rows);
}

// Plans the load and returns the tensors that it does not need.
std::vector<std::string> unused_by_plan(ModelSource& source) {
  const auto weights = source.weights(ReadScope::layout, {});
  const std::vector<std::shared_ptr<Device>> devices = {open_test_device()};
  BuildOptions options;
  options.mode = BuildMode::plan;
  (void)build_transformer(source.config(), *weights, devices, place_on_one_device(source.config().num_layers),
                          options);
  return dynamic_cast<const StoredWeights&>(*weights).unused();
}

// Returns the last two parts of a name, which are the same with any prefix: "norm.weight".
std::string last_parts(const std::string& name) {
  const size_t dot = name.rfind('.', name.rfind('.') - 1);
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

class PublishedNamesTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Skips models that the card under test does not run.
  void SetUp() override {
    golden_ = Json::parse(file_text(kFolder + GetParam() + ".json"));
    if (open_test_device()->is_host()) return;
    const SparseFiles files = directory_of(golden_, all_tensors(golden_));
    try {
      (void)unused_by_plan(*open_model_source(files, kDirectory));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }

  Json golden_;
};

TEST_P(PublishedNamesTest, ConfigurationLeadsToTheFamily) {
  const SparseFiles files = directory_of(golden_, {});
  const auto source = open_model_source(files, kDirectory);
  EXPECT_EQ(source->config().architecture->name, golden_["family"].get<std::string>());
  if (!golden_.contains("generation_config")) return;
  const Json& eos = golden_["generation_config"]["eos_token_id"];
  EXPECT_EQ(source->config().eos_ids, eos.is_array() ? eos.get<TokenIds>() : TokenIds{eos.get<TokenId>()});
  EXPECT_TRUE(source->config().usage.generation.unused.empty());
}

TEST_P(PublishedNamesTest, PlanNeedsAllTensorsButTheKnownOthers) {
  const SparseFiles files = directory_of(golden_, all_tensors(golden_));
  const auto source = open_model_source(files, kDirectory);
  std::vector<std::string> others;
  if (golden_.contains("unused"))
    for (const NamedTensor& tensor : expand(golden_["unused"])) others.push_back(tensor.name);
  EXPECT_EQ(unused_by_plan(*source), others);
  EXPECT_EQ(source->tensors().size_bytes, golden_["total_size"].get<uint64_t>());
}

TEST_P(PublishedNamesTest, AMissingTensorIsNamed) {
  std::vector<NamedTensor> tensors = all_tensors(golden_);
  const std::string missing = expand(golden_["tensors"]).back().name;
  std::erase_if(tensors, [&](const NamedTensor& tensor) { return tensor.name == missing; });
  const SparseFiles files = directory_of(golden_, tensors);
  expect_error(ErrorCode::format, {last_parts(missing)},
               [&] { (void)unused_by_plan(*open_model_source(files, kDirectory)); });
}

std::vector<std::string> published_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Golden, PublishedNamesTest,
                         ::testing::ValuesIn(thin_if_sanitized(published_names(), 4)),
                         [](const auto& param) { return param.param; });

TEST(PublishedNames, AreThoseOfTwentyDirectories) {
  EXPECT_GE(published_names().size(), 20U);
}

}  // namespace
}  // namespace quire::testing
