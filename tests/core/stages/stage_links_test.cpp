// Rows that travel from card to card (NCCL) give the bits of rows that travel by TCP, for hosts and stages on
// cards. Without links they travel by TCP, and the reason is visible. A stage that is lost, and a link that
// fails, end the jobs in bounded time.
//
// Runs on the card that QUIRE_TEST_DEVICE names, with the stage on that of QUIRE_TEST_STAGE_DEVICE. Without
// the latter both are on one card. NCCL refuses two ranks on one card of a host, so the stage then gives NCCL
// the name of another host, and rows travel through sockets. Emulated cards ignore the name.
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/model/model_cache.h"
#include "core/models/drafting_executor.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/core/stages/stage_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

constexpr Duration kPatience = std::chrono::minutes(2);
constexpr Duration kBound = std::chrono::seconds(2);
constexpr const char* kFault = "QUIRE_EMULATED_NCCL";  // see tests/cuda_emulation/nccl.cpp

// Returns the path of the emulated NCCL: of this build, or what QUIRE_TEST_NCCL names for a build without
// emulated cards that opens the plug-in of another one. Empty: cards and NCCL are real.
std::string emulated_library() {
  const char* const other = std::getenv("QUIRE_TEST_NCCL");
  return other != nullptr ? other : QUIRE_EMULATED_NCCL_LIBRARY;
}

bool is_emulated() {
  return !emulated_library().empty();
}

// A fault of the emulated NCCL, of processes that start meanwhile and of this one.
class Fault {
 public:
  explicit Fault(const char* name) { ::setenv(kFault, name, 1); }
  ~Fault() { ::unsetenv(kFault); }
};

class StageLinks : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!is_emulated()) return;
    ASSERT_NE(::dlopen(emulated_library().c_str(), RTLD_NOW | RTLD_LOCAL), nullptr);
  }
  void SetUp() override {
    card_ = open_test_device();
    if (card_->is_host()) GTEST_SKIP() << "QUIRE_TEST_DEVICE names no card";
  }

  static StageDeviceChoice choice(int32_t num_shards = 1) {
    const char* const device = std::getenv("QUIRE_TEST_STAGE_DEVICE");
    return {device != nullptr ? device : open_test_device()->name(), emulated_library(), num_shards};
  }
  static std::unique_ptr<StageProcess> start(const StageDeviceChoice& device = choice()) {
    std::vector<std::string> before;
    if (std::getenv("QUIRE_TEST_STAGE_DEVICE") == nullptr) before = {"env", "NCCL_HOSTID=quire-stage"};
    return std::make_unique<StageProcess>(device, before);
  }
  static std::unique_ptr<StageProcess> start_with(const char* fault) {
    const Fault faulty(fault);
    return start();
  }
  static std::shared_ptr<StageHost> join(const StageProcess& stage,
                                         StageTransport transport = StageTransport::automatic) {
    return StageHost::create(stage.name(), kStageKey, transport);
  }
  std::shared_ptr<Model> load(const std::shared_ptr<Device>& stage,
                              const std::vector<int32_t>& split = {3, 5}) {
    return load_on(QUIRE_EMBEDDED_MODEL, {card_, stage}, split);
  }
  std::vector<float> logits(const std::shared_ptr<Model>& model) {
    const TokenIds ids = {1, 2, 3, 4, 5, 6, 7};
    return TransformerRunner(model, {}).logits(ids, 7, 3);
  }

  std::shared_ptr<Device> card_;
};

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << text;
}

class StageLinkFamilies : public StageLinks, public ::testing::WithParamInterface<std::string> {};

TEST_P(StageLinkFamilies, GiveTheBitsOfTcp) {
  const FamilyDirectory family(GetParam());
  const TokenIds ids = read_ids(family.golden(), "input_ids");
  const auto first = start(), second = start(), of_shards = start(choice(2));
  const auto linked = join(*first), linked_too = join(*second), in_shards = join(*of_shards);
  const auto unlinked = join(*first, StageTransport::tcp);
  const auto whole = load_on(family.path(), {card_});
  const int32_t num_layers = whole->config().num_layers;
  const std::vector<float> expected = TransformerRunner(whole, {}).logits(ids, 512);
  const auto expect_equal = [&](const std::vector<std::shared_ptr<Device>>& devices,
                                const std::vector<int32_t>& split, int32_t num_shards = 1) {
    const auto model = load_on(family.path(), devices, split, num_shards);
    EXPECT_TRUE(TransformerRunner(model, {}).logits(ids, 512) == expected);
    RunnerOptions small;
    small.page_tokens = 4;
    small.num_pages = 8 * 128;
    EXPECT_TRUE(TransformerRunner(model, small).logits(ids, 7, 3) == expected);
  };
  const auto one = linked->open_device(), two = linked_too->open_device(), tcp = unlinked->open_device();
  const int32_t half = num_layers / 2;
  expect_equal({card_, one}, {num_layers - half, half});
  EXPECT_GT(linked->counters().num_linked_passes, 0U);
  EXPECT_EQ(linked->counters().num_linked_passes, linked->counters().num_passes);
  expect_words(one->info().detail, {"rows by NCCL"});
  expect_equal({card_, one}, {0, num_layers});
  expect_equal({one, card_}, {half, num_layers - half});
  // Rows pass through the card of the host between two stages, however they travel there.
  expect_equal({one, two, card_}, {half, num_layers - half, 0});
  expect_equal({tcp, two, card_}, {half, num_layers - half, 0});
  expect_equal({one, tcp, card_}, {half, num_layers - half, 0});
  const auto sharded = in_shards->open_device();
  expect_equal({card_, sharded}, {num_layers - half, half});
  expect_equal({card_, sharded}, {num_layers - half, half}, 2);
  EXPECT_EQ(in_shards->counters().num_linked_passes, in_shards->counters().num_passes);
  EXPECT_GT(linked_too->counters().num_linked_passes, 0U);
  EXPECT_EQ(unlinked->counters().num_linked_passes, 0U);
  EXPECT_GT(unlinked->counters().num_passes, 0U);
}

INSTANTIATE_TEST_SUITE_P(Golden, StageLinkFamilies,
                         ::testing::Values("llama3", "gemma3", "mixtral", "qwen3_next", "mamba2"),
                         [](const auto& family) { return family.param; });

TEST_F(StageLinks, TakeThePlannedMemory) {
  const auto process = start();
  const auto host = join(*process);
  const auto stage = host->open_device();
  ModelPlanOptions options = options_on(QUIRE_EMBEDDED_MODEL, {card_, stage}, {3, 5});
  ModelCacheOptions cache;
  cache.max_tokens = 300;
  options.cache = cache;
  const uint64_t before = card_->memory_use().held_bytes;
  const ModelPlan plan = plan_model(options);
  const auto model = load_planned(options);
  const auto executor =
      make_executor(model->transformer(), executor_options(model->config(), plan.cache), nullptr);
  EXPECT_EQ(card_->memory_use().held_bytes - before, plan.memory.devices[0].total());
  const auto tcp = join(*process, StageTransport::tcp)->open_device();
  ModelPlanOptions without = options_on(QUIRE_EMBEDDED_MODEL, {card_, tcp}, {3, 5});
  without.cache = cache;
  const ModelPlan unlinked = plan_model(without);
  kernels::LinkSupport support;
  ASSERT_EQ(card_->table().open_links(card_->handle(), &support), kernels::Status::ok);
  for (const size_t device : {0, 1})
    EXPECT_EQ(plan.memory.devices[device].total(), unlinked.memory.devices[device].total() + support.bytes);
}

// What keeps rows on TCP is visible, and changes no bit.
TEST_F(StageLinks, FallBackToTcpWithTheReason) {
  if (!is_emulated()) GTEST_SKIP() << "needs the emulated NCCL";
  const std::vector<float> expected = logits(load_on(QUIRE_EMBEDDED_MODEL, {card_}));
  const auto expect_tcp = [&](const StageProcess& process, const std::vector<std::string>& reason,
                              const char* own_fault = "") {
    SCOPED_TRACE(reason.front());
    const auto host = join(process);
    const auto stage = host->open_device();
    const auto model = load(stage);
    const Fault faulty(own_fault);
    EXPECT_TRUE(logits(model) == expected);
    EXPECT_EQ(host->counters().num_linked_passes, 0U);
    EXPECT_GT(host->counters().num_passes, 0U);
    expect_words(stage->info().detail, {"rows by TCP"});
    expect_words(stage->info().detail, reason);
    const auto strict = join(process, StageTransport::nccl);
    const auto strict_model = load(strict->open_device());
    expect_error(ErrorCode::unsupported, {"stage_transport is nccl", process.name()},
                 [&] { (void)logits(strict_model); });
  };
  StageDeviceChoice without = choice();
  without.library.clear();
  expect_tcp(*start(without), {"the stage: libnccl.so.2 was not found"});
  expect_tcp(*start_with("old"), {"the stage: NCCL 2.17.1 is too old"});
  expect_tcp(*start_with("other"), {"this process has NCCL 2.27.3, the stage NCCL 2.26.2"});
  expect_tcp(*start_with("refuse"), {"linking", "NCCL 2.27.3"});
  expect_tcp(*start(), {"linking", "NCCL 2.27.3"}, "refuse");
}

TEST_F(StageLinks, ThatAreNeverConnectedAreGivenUpOnce) {
  if (!is_emulated()) GTEST_SKIP() << "needs the emulated NCCL";
  const auto process = start_with("silent");
  const auto host = join(*process);
  const auto stage = host->open_device();
  const auto model = load(stage);
  const std::vector<float> first = logits(model);
  const TimePoint begin = steady_clock().now();
  EXPECT_TRUE(logits(model) == first);  // a second cache
  EXPECT_LE(steady_clock().now() - begin, kLinkTime);
  expect_words(stage->info().detail, {"rows by TCP", "connecting cards"});
}

JobRequest endless_request() {
  JobRequest request;
  request.prompt = {1, 2, 3};
  request.max_new_tokens = 500;
  request.ignore_end_tokens = true;
  return request;
}

std::shared_ptr<Engine> make_cache(const std::shared_ptr<const Model>& model) {
  ModelCacheOptions options;
  options.max_batch_size = 4;
  options.max_tokens = 4 * 512;
  options.max_seq_len = 512;
  return create_model_cache(Runtime::create({}), model, options);
}

// Checks that all that a host has of a lost stage can be freed in bounded time.
void expect_freed(std::shared_ptr<Engine>& cache, std::shared_ptr<Model>& model) {
  const TimePoint begin = steady_clock().now();
  cache = nullptr;
  model = nullptr;
  EXPECT_LE(steady_clock().now() - begin, 2 * kBound);
}

class StageLinkLoss : public StageLinks, public ::testing::WithParamInterface<int> {};

TEST_P(StageLinkLoss, EndsTheJobsInBoundedTime) {
  const auto process = start();
  const auto host = join(*process);
  auto model = load(host->open_device());
  auto cache = make_cache(model);
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 4; ++i) jobs.push_back(cache->submit(endless_request()));
  for (const auto& job : jobs)
    while (job->result().new_tokens == 0) ASSERT_TRUE(job->poll(kPatience).has_value());
  EXPECT_GT(host->counters().num_linked_passes, 0U);
  const TimePoint begin = steady_clock().now();
  process->send_signal(GetParam());
  for (const auto& job : jobs) ASSERT_TRUE(job->wait(kPatience));
  EXPECT_LE(steady_clock().now() - begin, kBound);
  EXPECT_EQ(jobs.back()->result().error, ErrorCode::device_lost);
  EXPECT_NE(jobs.back()->result().message.find(process->name()), std::string::npos)
      << jobs.back()->result().message;
  jobs.clear();
  expect_freed(cache, model);
  // The card goes on.
  EXPECT_FALSE(logits(load_on(QUIRE_EMBEDDED_MODEL, {card_})).empty());
}

INSTANTIATE_TEST_SUITE_P(Signals, StageLinkLoss, ::testing::Values(SIGKILL, SIGSTOP, SIGTERM));

// Links that fail while the connection lives.
class StageLinkFaults : public StageLinks, public ::testing::WithParamInterface<std::string> {};

TEST_P(StageLinkFaults, EndTheJobsInBoundedTime) {
  if (!is_emulated()) GTEST_SKIP() << "needs the emulated NCCL";
  for (const bool is_of_host : {false, true}) {
    SCOPED_TRACE(is_of_host ? "host" : "stage");
    const auto process = is_of_host ? start() : start_with(GetParam().c_str());
    const auto host = join(*process);
    auto model = load(host->open_device());
    const Fault faulty(is_of_host ? GetParam().c_str() : "");
    auto cache = make_cache(model);
    const TimePoint begin = steady_clock().now();
    const auto job = cache->submit(endless_request());
    ASSERT_TRUE(job->wait(kPatience));
    EXPECT_LE(steady_clock().now() - begin, 3 * kBound);  // with a step of the emulated card
    EXPECT_EQ(job->result().error, ErrorCode::device_lost) << job->result().message;
    EXPECT_NE(job->result().message.find(process->name()), std::string::npos) << job->result().message;
    EXPECT_EQ(host->counters().num_linked_passes, 0U);
    expect_freed(cache, model);
    // The stage goes on for others.
    EXPECT_FALSE(logits(load(join(*process, StageTransport::tcp)->open_device())).empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, StageLinkFaults, ::testing::Values("deaf", "short"),
                         [](const auto& fault) { return fault.param; });

}  // namespace
}  // namespace quire::testing
