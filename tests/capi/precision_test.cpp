// Automatic precision: the best of a model's precisions and of the KV formats that fits into memory.
#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "tests/capi/capi_fixture.h"
#include "tests/support/file_text.h"

namespace quire::testing {
namespace {

using Json = nlohmann::json;

// Returns the file with its BF16 weights widened to F32.
std::string widened(const std::string& file) {
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  Json header = Json::parse(file.substr(8, header_bytes));
  header.erase("__metadata__");
  std::string data;
  for (auto& [name, entry] : header.items()) {
    const auto offsets = entry["data_offsets"].get<std::vector<size_t>>();
    const size_t begin = data.size();
    for (size_t at = offsets[0]; at < offsets[1]; at += 2)
      data += std::string(2, '\0') + file.substr(8 + header_bytes + at, 2);
    entry["dtype"] = "F32";
    entry["data_offsets"] = {begin, data.size()};
  }
  const std::string text = header.dump();
  header_bytes = text.size();
  return std::string(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes) + text + data;
}

class PrecisionTest : public ::testing::Test {
 protected:
  PrecisionTest() {
    for (const char* const name : {"16bit", "32bit"})
      std::filesystem::copy(tiny_model_path(), directory.file(name));
    const std::string weights = file_text(tiny_model_path() + "/model.safetensors");
    directory.write("32bit/model.safetensors", widened(weights));
  }

  OwnedModelOptions options_of(const std::string& path) const {
    OwnedModelOptions options(quire_model_options_create(nullptr));
    quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr);
    return options;
  }

  OwnedModel load(const OwnedModelOptions& options) {
    return OwnedModel(
        quire_model_load(runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()));
  }

  void set_budget(int64_t bytes) {
    ASSERT_EQ(quire_runtime_set_memory_budget(runtime.get(), "cpu", 3, bytes, nullptr), 1);
  }

  static std::string path_of(const OwnedModel& model) {
    std::string path(4096, '\0');
    path.resize(static_cast<size_t>(quire_model_path(model.get(), path.data(), path.size(), nullptr)));
    return path;
  }

  OwnedCacheOptions automatic_cache() const {
    OwnedCacheOptions options(quire_cache_options_create(nullptr));
    EXPECT_EQ(quire_cache_options_set_kv_format(options.get(), QUIRE_KV_AUTO, nullptr), 1);
    return options;
  }

  int64_t cache_bytes(const OwnedModel& model, int32_t format) const {
    const OwnedCacheOptions options(quire_cache_options_create(nullptr));
    quire_cache_options_set_kv_format(options.get(), format, nullptr);
    return quire_cache_required_bytes(model.get(), options.get(), nullptr);
  }

  TempDirectory directory;
  OwnedRuntime runtime = make_runtime();
  Report report;
};

TEST_F(PrecisionTest, AModelLoadsWithTheMostBitsThatFit) {
  const OwnedModelOptions options = options_of(directory.path());
  OwnedModel model = load(options);
  ASSERT_TRUE(model) << report.message();
  EXPECT_EQ(path_of(model), directory.file("32bit"));
  const int64_t most = quire_model_weight_bytes(model.get(), nullptr);
  model.reset();

  set_budget(most - 1);
  model = load(options);
  ASSERT_TRUE(model) << report.message();
  EXPECT_EQ(path_of(model), directory.file("16bit"));
  const int64_t least = quire_model_weight_bytes(model.get(), nullptr);
  EXPECT_LT(least, most);
  model.reset();

  set_budget(least - 1);
  EXPECT_FALSE(load(options));
  EXPECT_EQ(report.code(), QUIRE_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(report.message().find("16bit"), std::string::npos) << report.message();
  set_budget(0);
}

TEST_F(PrecisionTest, ALazyModelHasOnePrecision) {
  const OwnedModelOptions options = options_of(directory.path());
  quire_model_options_set_lazy(options.get(), 1, nullptr);
  const OwnedModel model = load(options);
  ASSERT_TRUE(model) << report.message();
  EXPECT_EQ(path_of(model), directory.file("32bit"));
  EXPECT_EQ(quire_model_wake(model.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()), 1) << report.message();
}

TEST_F(PrecisionTest, ModelsOfDifferentShapesAreRefused) {
  std::filesystem::copy(QUIRE_EMBEDDED_MODEL, directory.file("another"));
  EXPECT_FALSE(load(options_of(directory.path())));
  EXPECT_EQ(report.code(), QUIRE_ERROR_UNSUPPORTED);
  for (const char* const name : {"another", "16bit"})
    EXPECT_NE(report.message().find(name), std::string::npos) << report.message();
}

TEST_F(PrecisionTest, ACacheTakesTheMostExactFormatThatFits) {
  const OwnedModel model = load(options_of(QUIRE_EMBEDDED_MODEL));
  const OwnedCacheOptions options = automatic_cache();
  const int64_t weights = quire_model_weight_bytes(model.get(), nullptr);
  EXPECT_EQ(quire_cache_required_bytes(model.get(), options.get(), nullptr),
            cache_bytes(model, QUIRE_KV_F16));
  for (const int32_t format : {QUIRE_KV_F16, QUIRE_KV_Q8, QUIRE_KV_Q6, QUIRE_KV_Q4}) {
    const int64_t bytes = cache_bytes(model, format);
    set_budget(weights + bytes);
    const OwnedCache cache(quire_cache_create(model.get(), options.get(), report.out()));
    ASSERT_TRUE(cache) << report.message();
    EXPECT_EQ(quire_cache_kv_format(cache.get(), nullptr), format);
    const OwnedStats stats(quire_cache_stats(cache.get(), nullptr));
    EXPECT_EQ(quire_stats_device_bytes(stats.get(), nullptr), bytes);
    const OwnedRequest request = make_request("Hello", 4);
    const OwnedJob job(quire_job_submit(cache.get(), request.get(), report.out()));
    ASSERT_TRUE(job) << report.message();
    EXPECT_EQ(collect(job.get()).tokens.size(), 4U);
  }
  set_budget(weights + cache_bytes(model, QUIRE_KV_Q4) - 1);
  EXPECT_EQ(quire_cache_create(model.get(), options.get(), report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_OUT_OF_MEMORY);
}

// Heads of 16 elements are too small for scales of 32 elements.
TEST_F(PrecisionTest, AnUnsupportedFormatIsRefusedAndNeverChosen) {
  const OwnedModel model = load(options_of(tiny_model_path()));
  const OwnedCacheOptions asked(quire_cache_options_create(nullptr));
  quire_cache_options_set_kv_format(asked.get(), QUIRE_KV_Q8, nullptr);
  EXPECT_EQ(quire_cache_create(model.get(), asked.get(), report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_UNSUPPORTED);
  EXPECT_NE(report.message().find("kv_format"), std::string::npos) << report.message();
  const OwnedCacheOptions automatic = automatic_cache();
  set_budget(quire_model_weight_bytes(model.get(), nullptr) + cache_bytes(model, QUIRE_KV_F16) - 1);
  EXPECT_EQ(quire_cache_create(model.get(), automatic.get(), report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_OUT_OF_MEMORY) << report.message();
}

TEST_F(PrecisionTest, APlanReportsBoth) {
  const OwnedModelOptions options = options_of(directory.path());
  const OwnedPlan plan(
      quire_plan_create(runtime.get(), options.get(), automatic_cache().get(), report.out()));
  ASSERT_TRUE(plan) << report.message();
  std::string path(4096, '\0');
  path.resize(static_cast<size_t>(quire_plan_model_path(plan.get(), path.data(), path.size(), nullptr)));
  EXPECT_EQ(path, directory.file("32bit"));
  EXPECT_EQ(quire_plan_kv_format(plan.get(), nullptr), QUIRE_KV_F16);
}

}  // namespace
}  // namespace quire::testing
