// Stages through the C interface: one runtime serves another one, which lists it, plans on it, runs jobs over
// it and reports it.
#include <condition_variable>
#include <mutex>
#include <thread>

#include <quire/experimental.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

constexpr std::string_view kListen = "127.0.0.1:0";
constexpr std::string_view kListens = "the stage listens at ";

int32_t set_text(int32_t (*setter)(quire_runtime_options*, const char*, size_t, quire_error**),
                 const OwnedRuntimeOptions& options, std::string_view text) {
  return setter(options.get(), text.data(), text.size(), nullptr);
}

// The address in the log of a stage.
class LoggedAddress {
 public:
  static void write(void* self, int32_t /*level*/, const char* text, size_t text_len) {
    const std::string_view line(text, text_len);
    if (!line.starts_with(kListens)) return;
    auto& log = *static_cast<LoggedAddress*>(self);
    const std::lock_guard lock(log.mutex_);
    log.address_ = line.substr(kListens.size());
    log.written_.notify_all();
  }
  std::string wait() {
    std::unique_lock lock(mutex_);
    written_.wait_for(lock, std::chrono::minutes(1), [this] { return !address_.empty(); });
    return address_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable written_;
  std::string address_;
};

class CapiStage : public ::testing::Test {
 protected:
  void SetUp() override {
    const OwnedRuntimeOptions options(quire_runtime_options_create(nullptr));
    set_text(quire_runtime_options_set_stage_key_file, options, key_);
    quire_runtime_options_set_log_level(options.get(), QUIRE_LOG_INFO, nullptr);
    quire_runtime_options_set_log_sink(options.get(), LoggedAddress::write, &log_, nullptr);
    serving_ = OwnedRuntime(quire_runtime_create(options.get(), nullptr));
    thread_ = std::thread([this] {
      const std::string models = "/";
      served_ = quire_runtime_serve_stage(serving_.get(), kListen.data(), kListen.size(), models.data(),
                                          models.size(), 1, int64_t{1} << 30, QUIRE_WAIT_FOREVER,
                                          cancel_.get(), end_.out());
    });
    name_ = "tcp://" + log_.wait();
  }
  void TearDown() override {
    quire_cancel_trigger(cancel_.get(), nullptr);
    thread_.join();
    EXPECT_EQ(served_, 0);
    EXPECT_EQ(end_.code(), QUIRE_ERROR_CANCELLED) << end_.message();
  }

  OwnedRuntime join(const std::string& key_file, quire_error** error = nullptr) const {
    const OwnedRuntimeOptions options(quire_runtime_options_create(nullptr));
    set_text(quire_runtime_options_set_stages, options, name_);
    if (!key_file.empty()) set_text(quire_runtime_options_set_stage_key_file, options, key_file);
    return OwnedRuntime(quire_runtime_create(options.get(), error));
  }
  OwnedModelOptions on_both(const std::string& split) const {
    OwnedModelOptions options(quire_model_options_create(nullptr));
    const std::string& path = tiny_model_path();
    const std::string devices = "cpu," + name_;
    quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr);
    quire_model_options_set_device(options.get(), devices.data(), devices.size(), nullptr);
    quire_model_options_set_split(options.get(), split.data(), split.size(), nullptr);
    return options;
  }
  template <typename Read>
  static std::string text_of(const Read& read) {
    std::string text(static_cast<size_t>(read(nullptr, size_t{0})) + 64, '\0');
    text.resize(static_cast<size_t>(read(text.data(), text.size())));
    return text;
  }

  const TempDirectory directory_;
  const std::string key_ = directory_.write("key", "0123456789abcdef0123456789abcdef\n");
  LoggedAddress log_;
  OwnedCancel cancel_{quire_cancel_create(nullptr)};
  OwnedRuntime serving_;
  std::thread thread_;
  int32_t served_ = 1;
  Report end_;
  std::string name_;
  Report report_;
};

TEST_F(CapiStage, IsListedLikeADevice) {
  const OwnedRuntime runtime = join(key_);
  const int32_t last = quire_runtime_num_devices(runtime.get(), nullptr) - 1;
  const auto text = [&](auto function) {
    return text_of([&](char* out, size_t size) { return function(runtime.get(), last, out, size, nullptr); });
  };
  EXPECT_EQ(text(quire_runtime_device_name), name_);
  EXPECT_EQ(text(quire_runtime_device_refusal), "");
  EXPECT_NE(text(quire_runtime_device_description), "");
  EXPECT_EQ(quire_runtime_device_memory_bytes(runtime.get(), last, nullptr), int64_t{1} << 30);
  EXPECT_GT(quire_runtime_device_free_bytes(runtime.get(), last, nullptr), 0);
}

TEST_F(CapiStage, ComputesTheSame) {
  const OwnedRuntime runtime = join(key_);
  const OwnedModel alone = load_model(runtime.get());
  const OwnedModelOptions options = on_both("0,2");
  const OwnedModel model(
      quire_model_load(runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, report_.out()));
  ASSERT_TRUE(model) << report_.message();
  const OwnedPlan plan(quire_plan_create(runtime.get(), options.get(), nullptr, report_.out()));
  ASSERT_TRUE(plan) << report_.message();
  EXPECT_GT(quire_plan_device_layer_bytes(plan.get(), 1, nullptr), 0);
  const auto run = [](const OwnedModel& of) {
    const OwnedCache cache = make_cache(of.get());
    const OwnedJob job(quire_job_submit(cache.get(), make_request("Hello", 20).get(), nullptr));
    return collect(job.get());
  };
  const Collected expected = run(alone);
  const Collected said = run(model);
  EXPECT_EQ(said.tokens, expected.tokens);
  EXPECT_EQ(said.tokens.size(), 20U);
  const std::string metrics = text_of(
      [&](char* out, size_t size) { return quire_runtime_metrics(runtime.get(), out, size, nullptr); });
  EXPECT_NE(metrics.find("quire_stage_up{stage=\"" + name_ + "\"} 1"), std::string::npos);
  EXPECT_NE(metrics.find("quire_stage_passes_total{stage=\"" + name_ + "\"} "), std::string::npos);
  EXPECT_EQ(metrics.find("quire_stage_passes_total{stage=\"" + name_ + "\"} 0\n"), std::string::npos);
  EXPECT_NE(metrics.find("quire_stage_losses_total{stage=\"" + name_ + "\"} 0"), std::string::npos);
  // Rows travel by TCP, and the reason is visible.
  EXPECT_NE(metrics.find("quire_stage_linked_passes_total{stage=\"" + name_ + "\"} 0"), std::string::npos);
  const std::string transport =
      "transport=\"rows by TCP (the stage: the CPU has no links between processes)\"";
  EXPECT_NE(metrics.find("quire_stage_transport{stage=\"" + name_ + "\"," + transport + "} 1"),
            std::string::npos)
      << metrics;
  const int32_t last = quire_runtime_num_devices(runtime.get(), nullptr) - 1;
  const std::string description = text_of([&](char* out, size_t size) {
    return quire_runtime_device_description(runtime.get(), last, out, size, nullptr);
  });
  EXPECT_NE(description.find("rows by TCP"), std::string::npos) << description;
}

// Weights leave, also those on the stage, and return with the next job.
TEST_F(CapiStage, WeightsLeaveAndReturn) {
  const OwnedRuntime runtime = join(key_);
  const OwnedModel model(
      quire_model_load(runtime.get(), on_both("0,2").get(), QUIRE_WAIT_FOREVER, nullptr, report_.out()));
  ASSERT_TRUE(model) << report_.message();
  const OwnedCache cache = make_cache(model.get());
  const auto run = [&] {
    const OwnedJob job(quire_job_submit(cache.get(), make_request("Hello", 8).get(), nullptr));
    return collect(job.get()).tokens;
  };
  const std::vector<int32_t> expected = run();
  EXPECT_EQ(expected.size(), 8U);
  for (const int32_t state : {QUIRE_MODEL_STATE_STANDING_BY, QUIRE_MODEL_STATE_ON_DISK}) {
    EXPECT_EQ(quire_model_evict(model.get(), state, QUIRE_WAIT_FOREVER, nullptr, report_.out()), 1)
        << report_.message();
    EXPECT_EQ(run(), expected);
  }
}

TEST_F(CapiStage, NeedsItsKey) {
  EXPECT_FALSE(join("", report_.out()));
  EXPECT_EQ(report_.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(report_.parameter(), "stage_key_file");
  const OwnedRuntime other = join(directory_.write("other", "another key that has 32 bytes or more"));
  ASSERT_TRUE(other);
  const OwnedModelOptions options = on_both("0,2");
  EXPECT_FALSE(
      OwnedModel(quire_model_load(other.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, report_.out())));
  EXPECT_EQ(report_.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(report_.message().find("another key"), std::string::npos) << report_.message();
}

TEST(CapiStageOptions, AreChecked) {
  const auto refused = [](std::string_view stages, std::string_view key, std::string_view parameter) {
    const OwnedRuntimeOptions options(quire_runtime_options_create(nullptr));
    set_text(quire_runtime_options_set_stages, options, stages);
    set_text(quire_runtime_options_set_stage_key_file, options, key);
    Report report;
    EXPECT_FALSE(OwnedRuntime(quire_runtime_create(options.get(), report.out())));
    EXPECT_EQ(report.parameter(), parameter) << report.message();
  };
  const TempDirectory directory;
  const std::string key = directory.write("key", "0123456789abcdef0123456789abcdef");
  refused("cuda:0", key, "stages");
  refused("tcp://host", key, "stages");
  refused("tcp://host:1", "", "stage_key_file");
  refused("tcp://host:1", directory.write("short", "short"), "stage_key_file");
  refused("tcp://host:1", directory.file("absent"), "stage_key_file");
}

// A stage that must use NCCL and cannot does not start.
TEST(CapiStageOptions, ATransportThatIsMissingIsRefused) {
  const TempDirectory directory;
  const OwnedRuntimeOptions options(quire_runtime_options_create(nullptr));
  EXPECT_EQ(set_text(quire_runtime_options_set_stage_transport, options, "rdma"), 0);
  for (const std::string_view name : {"auto", "tcp", "nccl"})
    EXPECT_EQ(set_text(quire_runtime_options_set_stage_transport, options, name), 1);
  set_text(quire_runtime_options_set_stage_key_file, options,
           directory.write("key", "0123456789abcdef0123456789abcdef"));
  const OwnedRuntime runtime(quire_runtime_create(options.get(), nullptr));
  ASSERT_TRUE(runtime);
  Report report;
  EXPECT_EQ(quire_runtime_serve_stage(runtime.get(), kListen.data(), kListen.size(), "", 0, 1, 0, 0, nullptr,
                                      report.out()),
            0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_UNSUPPORTED);
  EXPECT_EQ(report.parameter(), "stage_transport") << report.message();
}

// A runtime without a key, and one whose stage does not answer.
TEST(CapiStageOptions, AStageThatDoesNotAnswerIsARefusal) {
  const TempDirectory directory;
  const OwnedRuntimeOptions options(quire_runtime_options_create(nullptr));
  set_text(quire_runtime_options_set_stages, options, "tcp://127.0.0.1:1");
  set_text(quire_runtime_options_set_stage_key_file, options,
           directory.write("key", "0123456789abcdef0123456789abcdef"));
  const OwnedRuntime runtime(quire_runtime_create(options.get(), nullptr));
  ASSERT_TRUE(runtime);
  const int32_t last = quire_runtime_num_devices(runtime.get(), nullptr) - 1;
  EXPECT_GT(quire_runtime_device_refusal(runtime.get(), last, nullptr, 0, nullptr), 0);
  Report report;
  EXPECT_EQ(quire_runtime_serve_stage(make_runtime().get(), kListen.data(), kListen.size(), "", 0, 1, 0, 0,
                                      nullptr, report.out()),
            0);
  EXPECT_EQ(report.parameter(), "stage_key_file");
  EXPECT_EQ(quire_runtime_serve_stage(runtime.get(), kListen.data(), kListen.size(), "", 0, 1, 0, 0, nullptr,
                                      report.out()),
            0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_TIMEOUT) << report.message();
  EXPECT_EQ(quire_runtime_serve_stage(runtime.get(), "host", 4, "", 0, 1, 0, 0, nullptr, report.out()), 0);
  EXPECT_EQ(report.parameter(), "listen");
  for (const int32_t num_shards : {0, -1, 65}) {
    EXPECT_EQ(quire_runtime_serve_stage(runtime.get(), kListen.data(), kListen.size(), "", 0, num_shards, 0,
                                        0, nullptr, report.out()),
              0);
    EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT) << num_shards;
    EXPECT_EQ(report.parameter(), "num_shards") << num_shards;
  }
  EXPECT_EQ(quire_runtime_serve_stage(runtime.get(), kListen.data(), kListen.size(), "", 0, 2, 0, 0, nullptr,
                                      report.out()),
            0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_TIMEOUT) << report.message();
}

}  // namespace
}  // namespace quire::testing
