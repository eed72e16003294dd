// The messages of links: a host and a stage whose devices can be linked connect them, pass rows over them,
// and give them up together. Both are in this process; stage_links_test has two.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/model/model_cache.h"
#include "core/stages/stage_link.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/core/stages/linked_backend.h"
#include "tests/core/stages/stage_fixture.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

constexpr Duration kPatience = std::chrono::minutes(2);

std::shared_ptr<Device> open_card() {
  return Device::open(linked_backend(), 0, {.num_threads = 2});
}

class LinkedStages : public ::testing::Test {
 protected:
  ~LinkedStages() override { set_link_fault(LinkFault::none); }

  std::shared_ptr<StageHost> join(StageTransport transport = StageTransport::automatic) {
    return StageHost::create(stage_.name(), kStageKey, transport);
  }
  std::shared_ptr<Model> load(StageHost& host) {
    return load_on(QUIRE_EMBEDDED_MODEL, {card_, host.open_device()}, {3, 5});
  }
  std::vector<float> logits(const std::shared_ptr<Model>& model) {
    const TokenIds ids = {1, 2, 3, 4, 5, 6, 7};
    return TransformerRunner(model, {}).logits(ids, 7, 3);
  }
  const std::vector<float>& expected() {
    if (expected_.empty()) expected_ = logits(load_on(QUIRE_EMBEDDED_MODEL, {card_}));
    return expected_;
  }
  // Checks that the rows of a new cache travel by TCP for this reason, with the same bits.
  void expect_tcp(StageHost& host, const std::string& reason) {
    EXPECT_TRUE(logits(load(host)) == expected());
    EXPECT_EQ(host.counters().num_linked_passes, 0U);
    EXPECT_NE(host.counters().transport().find(reason), std::string::npos) << host.counters().transport();
    EXPECT_EQ(num_live_links(), 0);
  }

  std::shared_ptr<Device> card_ = open_card();
  StageThread stage_{open_card()};
  std::vector<float> expected_;
};

TEST_F(LinkedStages, PassRowsOverTheLink) {
  const auto host = join();
  {
    const auto model = load(*host);
    EXPECT_TRUE(logits(model) == expected());
    EXPECT_GT(host->counters().num_linked_passes, 0U);
    EXPECT_EQ(host->counters().num_linked_passes, host->counters().num_passes);
    EXPECT_EQ(host->counters().transport(), "rows by queues 1");
  }
  EXPECT_EQ(num_live_links(), 0);
}

TEST_F(LinkedStages, TwoCachesHaveLinksOfTheirOwn) {
  const auto host = join();
  const auto model = load(*host);
  TransformerRunner first(model, {}), second(model, {});
  EXPECT_EQ(num_live_links(), 4);
  const TokenIds ids = {1, 2, 3, 4, 5, 6, 7};
  for (TransformerRunner* runner : {&first, &second}) EXPECT_TRUE(runner->logits(ids, 7, 3) == expected());
}

// The first stage is linked and the second is not, and the other way round.
TEST_F(LinkedStages, StandBesideOthers) {
  const StageThread unlinked(open_cpu());
  const auto host = join();
  const auto linked = host->open_device(), other = join_stage(unlinked.name());
  for (const auto& devices : {std::vector{linked, other, card_}, std::vector{other, linked, card_}})
    EXPECT_TRUE(logits(load_on(QUIRE_EMBEDDED_MODEL, devices, {3, 5, 0})) == expected());
  EXPECT_GT(host->counters().num_linked_passes, 0U);
}

TEST_F(LinkedStages, TakeTcpIfItIsChosen) {
  expect_tcp(*join(StageTransport::tcp), "stage_transport is tcp");
}

TEST_F(LinkedStages, TakeTcpIfTheLibrariesDiffer) {
  const auto host = join();
  set_link_fault(LinkFault::other_library);
  expect_tcp(*host, "this process has queues 2, the stage queues 1");
  set_link_fault(LinkFault::no_library);
  expect_tcp(*host, "this process: there is no library");
}

TEST_F(LinkedStages, TakeTcpIfTheStageHasNoLibrary) {
  set_link_fault(LinkFault::no_library);
  const StageThread stage(open_card());
  set_link_fault(LinkFault::none);
  const auto host = StageHost::create(stage.name(), kStageKey);
  expect_tcp(*host, "the stage: there is no library");
  const auto strict = StageHost::create(stage.name(), kStageKey, StageTransport::nccl);
  const auto model = load(*strict);
  expect_error(ErrorCode::unsupported, {"stage_transport is nccl", "there is no library"},
               [&] { (void)logits(model); });
}

TEST_F(LinkedStages, GiveAFailedLinkUpOnce) {
  for (const LinkFault fault : {LinkFault::no_first_end, LinkFault::no_second_end}) {
    const auto host = join();
    set_link_fault(fault);
    const TimePoint begin = steady_clock().now();
    expect_tcp(*host, "is refused");
    EXPECT_LT(steady_clock().now() - begin, kLinkTime) << "one end waits for the other, which was refused";
    set_link_fault(LinkFault::none);
    expect_tcp(*host, "is refused");  // it is not tried again
    const auto strict = join(StageTransport::nccl);
    set_link_fault(fault);
    const auto model = load(*strict);
    expect_error(ErrorCode::unsupported, {"stage_transport is nccl", "is refused"},
                 [&] { (void)logits(model); });
    set_link_fault(LinkFault::none);
  }
  EXPECT_GT(
      [&] {
        const auto host = join();
        (void)logits(load(*host));
        return host->counters().num_linked_passes.load();
      }(),
      0U);
}

// The link is silent while the connection lives.
TEST_F(LinkedStages, EndTheJobsIfRowsDoNotCome) {
  const auto host = join();
  const auto model = load(*host);
  ModelCacheOptions options;
  options.max_tokens = options.max_seq_len = 512;
  auto cache = create_model_cache(Runtime::create({}), model, options);
  JobRequest request;
  request.prompt = {1, 2, 3};
  request.max_new_tokens = 500;
  request.ignore_end_tokens = true;
  const auto job = cache->submit(request);
  while (job->result().new_tokens == 0) ASSERT_TRUE(job->poll(kPatience).has_value());
  set_link_fault(LinkFault::deaf);
  ASSERT_TRUE(job->wait(kPatience));
  set_link_fault(LinkFault::none);
  EXPECT_EQ(job->result().error, ErrorCode::device_lost) << job->result().message;
  EXPECT_NE(job->result().message.find(stage_.name()), std::string::npos) << job->result().message;
  EXPECT_GT(host->counters().num_losses, 0U);
  cache = nullptr;
  const TimePoint deadline = steady_clock().now() + kPatience;
  while (num_live_links() > 0 && steady_clock().now() < deadline) std::this_thread::yield();
  EXPECT_EQ(num_live_links(), 0);
  EXPECT_TRUE(logits(model) == expected());  // a new cache has a new connection
}

}  // namespace
}  // namespace quire::testing
