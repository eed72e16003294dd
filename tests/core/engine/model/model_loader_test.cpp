// Devices by name, plans of a load, and loads that are refused.
#include "core/engine/model/model_loader.h"

#include <cstdlib>
#include <optional>

#include "kernels/interface/kernel_table.h"
#include "tests/core/engine/requests/request_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/job_tokens.h"
#include "tests/support/temp_directory.h"

namespace quire::testing {
namespace {

BackendReport report_of(const std::string& name, int32_t num_devices, const std::string& why = {}) {
  const auto* const backend = loaded_world().devices.backends().front();
  return {name, num_devices > 0 ? backend : nullptr, num_devices, why};
}

TEST(Devices, AreListedWithTheReasonWhyOneIsMissing) {
  const auto devices = list_devices(
      {report_of("cpu", 1), report_of("cuda", 2), report_of("rocm", 0, "no driver"), report_of("metal", 0)});
  ASSERT_EQ(devices.size(), 5U);
  EXPECT_EQ(devices[0].name, "cpu");
  EXPECT_EQ(devices[2].name, "cuda:1");
  EXPECT_EQ(devices[2].index, 1);
  EXPECT_EQ(devices[3].refusal, "no driver");
  EXPECT_EQ(devices[4].refusal, "it has no device");
}

TEST(Devices, AreFoundByShortAndFullNames) {
  const DeviceRegistry devices({report_of("cpu", 1), report_of("cuda", 2), report_of("rocm", 0, "no driver")},
                               "cuda", {});
  EXPECT_EQ(devices.full_name("cuda"), "cuda:0");
  EXPECT_EQ(devices.full_name("cuda:1"), "cuda:1");
  EXPECT_EQ(devices.budget_name("cuda"), "cuda:0");
  EXPECT_EQ(devices.budget_name(kPinnedMemory), kPinnedMemory);
  EXPECT_EQ(devices.backends().size(), 2U);
  devices.check_default_devices();
  for (const char* const name : {"rocm", "rocm:0", "rocm:7"}) {
    expect_error(ErrorCode::unsupported, {name, "no driver"}, [&] { devices.full_name(name); });
  }
  for (const char* const name : {"cuda:2", "cpu:1", "rocm2:0", ":0"}) {
    expect_error(ErrorCode::not_found, {"use one of"}, [&] { devices.full_name(name); });
  }
  expect_error(ErrorCode::not_found, {"\"tpu\"", "cpu, cuda:0, cuda:1, rocm"},
               [&] { devices.full_name("tpu"); });
}

// Looks for backends, first in a folder of the test.
std::vector<BackendReport> find_backends_in(const std::string& folder) {
  constexpr const char* kVariable = "QUIRE_BACKEND_DIR";
  const char* const before = getenv(kVariable);
  const std::optional<std::string> kept =
      before == nullptr ? std::nullopt : std::optional<std::string>(before);
  setenv(kVariable, folder.c_str(), 1);
  std::vector<BackendReport> reports = find_backends();
  if (kept) {
    setenv(kVariable, kept->c_str(), 1);
  } else {
    unsetenv(kVariable);
  }
  return reports;
}

TEST(Devices, AMissingBackendNamesItsPackage) {
  const TempDirectory empty;
  const std::vector<BackendReport> reports = find_backends_in(empty.path());
  ASSERT_EQ(reports.size(), 2U);
  if (reports[1].backend != nullptr) GTEST_SKIP() << "the CUDA backend is beside the library or the test";
  EXPECT_NE(reports[1].why.find("quire-cuda of RPM"), std::string::npos) << reports[1].why;
  EXPECT_EQ(reports[1].why.find('\n'), std::string::npos) << reports[1].why;
}

TEST(Devices, ABrokenBackendGivesTheReasonOfTheLoader) {
  const TempDirectory broken;
  broken.write("libquire_cuda.so", "no library");
  const std::vector<BackendReport> reports = find_backends_in(broken.path());
  ASSERT_EQ(reports.size(), 2U);
  if (reports[1].backend != nullptr) GTEST_SKIP() << "the CUDA backend is beside the library or the test";
  EXPECT_NE(reports[1].why.find(broken.path()), std::string::npos) << reports[1].why;
}

TEST(Devices, AreOpenedOnce) {
  DeviceRegistry devices({report_of("cpu", 1)}, "cpu", {.num_threads = 1});
  EXPECT_EQ(devices.open(""), devices.open("cpu"));
  const std::vector<ModelDevice> both = devices.open_all("cpu,cpu");
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].device, both[1].device);
  expect_error(ErrorCode::invalid_argument, {"device: "}, [&] { devices.open_all("cpu,"); });
}

class ModelLoader : public RequestTest {
 protected:
  static ModelLoadOptions options() {
    ModelLoadOptions load;
    load.path = embedded_model_path();
    return load;
  }
  LoadedModel load(const ModelLoadOptions& options, const Wait& wait = kPatience) {
    return load_model(world.runtime, world.devices, options, wait);
  }
};

TEST_F(ModelLoader, ALoadedModelHasAllThatRequestsNeed) {
  EXPECT_TRUE(model.model->is_loaded());
  EXPECT_EQ(model.model, model.resident->model());
  EXPECT_NE(model.generation_config.find("eos_token_id"), std::string::npos);
  EXPECT_NE(model.chat->find_templates(model.model->path()), nullptr);
  EXPECT_EQ(model.constraints->vocabulary(*model.model), model.constraints->vocabulary(*model.model));
}

TEST_F(ModelLoader, ATokenizerHasNoWeights) {
  ModelLoadOptions load_options = options();
  load_options.scope = ModelScope::tokenizer;
  const LoadedModel loaded = load(load_options);
  EXPECT_FALSE(loaded.model->is_loaded());
  EXPECT_EQ(loaded.model->tokenizer().encode("Once"), model.model->tokenizer().encode("Once"));
}

TEST_F(ModelLoader, ALazyModelIsLoadedLater) {
  ModelLoadOptions load_options = options();
  load_options.is_lazy = true;
  EXPECT_EQ(load(load_options).resident->residency().state(), ResidencyState::standing_by);
}

TEST_F(ModelLoader, ReportsItsProgress) {
  ModelLoadOptions load_options = options();
  LoadProgress last;
  load_options.progress = [&](const LoadProgress& progress) {
    EXPECT_GE(progress.done_bytes, last.done_bytes);
    last = progress;
  };
  load(load_options);
  EXPECT_GT(last.total_bytes, 0U);
  EXPECT_EQ(last.done_bytes, last.total_bytes);
}

TEST_F(ModelLoader, ErrorsNameTheOption) {
  expect_error(ErrorCode::invalid_argument, {"path: not set"}, [&] { load({}); });
  ModelLoadOptions bad = options();
  bad.reserve = {1, 2};
  expect_error(ErrorCode::invalid_argument, {"reserve: 2 numbers for 1 devices"}, [&] { load(bad); });
  bad = options();
  bad.split.bytes = {1, 2, 3};
  expect_error(ErrorCode::invalid_argument, {"split: 3 numbers for 1 devices"}, [&] { load(bad); });
  bad = options();
  bad.devices = "tpu";
  expect_error(ErrorCode::not_found, {"device: ", "tpu"}, [&] { load(bad); });
}

TEST_F(ModelLoader, EndsWithItsWait) {
  const auto cancel = std::make_shared<CancelSwitch>();
  cancel->trigger();
  expect_error(ErrorCode::cancelled, {"before it began"}, [&] { load(options(), Wait{kPatience, cancel}); });
  expect_error(ErrorCode::timeout, {"timeout"}, [&] { load(options(), Duration{0}); });
}

TEST_F(ModelLoader, PlansTheDevicesAndTheCache) {
  ModelLoadOptions load_options = options();
  load_options.reserve = {12345};
  load_options.cache.emplace().max_tokens = 4096;
  const PlannedModel planned = plan_variants(world.runtime->files(), world.devices, load_options);
  ASSERT_EQ(planned.options.devices.size(), 1U);
  EXPECT_EQ(planned.options.devices[0].name, "cpu");
  EXPECT_EQ(planned.options.devices[0].reserve_bytes, 12345U);
  EXPECT_EQ(planned.plan.cache.max_tokens, 4096);
  EXPECT_EQ(planned.options.source->path(), embedded_model_path());
}

}  // namespace
}  // namespace quire::testing
