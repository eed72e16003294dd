// Jobs of models with host experts: the same tokens in any schedule, and weights that leave both devices and
// return.
#include <gtest/gtest.h>

#include "core/engine/model/model_cache.h"
#include "core/engine/model/resident_model.h"
#include "tests/core/models/host_experts_rig.h"
#include "tests/support/golden_families.h"
#include "tests/support/job_tokens.h"
#include "tests/support/random_schedule.h"

namespace quire::testing {
namespace {

const Wait kPatient{kPatience, nullptr};

std::vector<JobRequest> requests(int32_t vocab) {
  std::vector<JobRequest> all;
  for (int32_t i = 0; i < 6; ++i) {
    JobRequest request;
    for (int32_t t = 0; t < 5 + 9 * i; ++t) request.prompt.push_back((t * 31 + i / 2) % vocab);
    request.max_new_tokens = 4 + 2 * i;
    request.ignore_end_tokens = true;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    request.want_log_probs = true;
    if (i == 3) request.kind = JobKind::score;
    all.push_back(std::move(request));
  }
  return all;
}

ModelCacheOptions cache_options() {
  ModelCacheOptions options;
  options.max_tokens = 512;
  options.max_seq_len = 96;
  options.max_batch_size = 8;
  options.page_tokens = 16;
  options.engine.start_thread = false;
  options.engine.check_invariants = true;
  options.engine.drafting.drafter = DrafterKind::none;
  return options;
}

TEST(HostExpertsSchedules, GiveTheSameBits) {
  const FamilyDirectory family("qwen3_moe");
  const CardAndHost rig;
  const std::vector<int32_t> layers = movable_layers(family.path());
  const auto source = open_model_source(posix_file_system(), family.path());
  for (const std::vector<int32_t>& apart : {layers, first_half(layers)}) {
    const auto model = load_placed(family.path(), {rig.card(), rig.host()},
                                   experts_apart(source->config().num_layers, apart));
    std::vector<KnownJob> known;
    for (const JobRequest& request : requests(model->shape().vocab_size)) {
      const auto cache = create_model_cache(Runtime::create({}), model, cache_options());
      known.push_back({request, run_alone(*cache, request)});
    }
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      std::mt19937_64 random(seed);
      ModelCacheOptions options = cache_options();
      options.max_chunk_tokens = 1 + static_cast<int32_t>(random() % 60);
      options.max_tokens = 96 + static_cast<int32_t>(random() % 300);
      options.max_batch_size = 1 + static_cast<int32_t>(random() % 8);
      const auto cache = create_model_cache(Runtime::create({}), model, options);
      ASSERT_EQ(run_random_schedule(*cache, known, random), "") << "seed " << seed;
    }
  }
}

class HostExpertsResidency : public ::testing::Test {
 protected:
  std::shared_ptr<const ResidentModel> load() const {
    ResidentModelOptions options;
    options.plan.source = open_model_source(posix_file_system(), family_.path());
    options.plan.devices.push_back({"card", rig_.card()});
    options.plan.devices.push_back({"cpu", rig_.host()});
    options.plan.devices.back().takes_layers = false;
    options.plan.host_experts = parse_host_experts("all");
    return ResidentModel::load(runtime_, options);
  }

  uint64_t leased(const Device& device) const { return runtime_->leased_bytes(device.name()); }
  static uint64_t held(const Device& device) { return device.memory_use().held_bytes; }
  void expect_leases() const {
    for (const std::shared_ptr<Device>& device : {rig_.card(), rig_.host()})
      EXPECT_EQ(leased(*device), held(*device)) << device->name();
  }

  const FamilyDirectory family_{"qwen3_moe"};
  const CardAndHost rig_;
  const std::shared_ptr<Runtime> runtime_ = Runtime::create({});
};

TEST_F(HostExpertsResidency, WeightsLeaveBothDevicesAndReturn) {
  const auto home = load();
  expect_leases();
  const uint64_t on_card = held(*rig_.card()), on_host = held(*rig_.host());
  EXPECT_GT(on_host, 0U);
  ModelCacheOptions options = cache_options();
  options.engine.start_thread = true;
  const auto cache = create_model_cache(runtime_, home->model(), options, home);
  expect_leases();
  const uint64_t card_cache = held(*rig_.card()) - on_card, host_cache = held(*rig_.host()) - on_host;
  EXPECT_GT(host_cache, 0U);
  const auto answer = [&] {
    JobRequest request;
    request.prompt = {1, 2, 3, 4, 5};
    request.max_new_tokens = 6;
    request.ignore_end_tokens = true;
    request.sampling.temperature = 0.0F;
    return tokens_of(*cache->submit(std::move(request)));
  };
  const TokenIds before = answer();
  for (const ResidencyState to : {ResidencyState::standing_by, ResidencyState::on_disk}) {
    ASSERT_EQ(home->residency().evict(to, kPatient), WaitEnd::ready);
    expect_leases();
    if (to == ResidencyState::standing_by && rig_.card()->has(kernels::kCapabilityParkedWeights)) {
      EXPECT_TRUE(home->model()->is_offloaded());
      EXPECT_EQ(held(*rig_.host()), on_host + host_cache) << "what is on the host stays there";
    }
    if (to == ResidencyState::on_disk) {
      EXPECT_EQ(held(*rig_.card()), card_cache);
      EXPECT_EQ(held(*rig_.host()), host_cache);
    }
    EXPECT_EQ(answer(), before);
    EXPECT_EQ(held(*rig_.card()), on_card + card_cache);
    EXPECT_EQ(held(*rig_.host()), on_host + host_cache);
    expect_leases();
  }
  EXPECT_EQ(home->residency().figures().wakes, 2U);
}

// Another model needs the memory of the host: the experts leave it, and return for the next job.
TEST_F(HostExpertsResidency, ABudgetOfTheHostIsKept) {
  const auto home = load();
  const uint64_t on_host = held(*rig_.host());
  ASSERT_EQ(home->residency().evict(ResidencyState::on_disk, kPatient), WaitEnd::ready);
  runtime_->set_memory_budget(rig_.host()->name(), on_host - 1);
  EXPECT_THROW(home->residency().wake(kPatient), Error);
  EXPECT_EQ(held(*rig_.card()), 0U);
  EXPECT_EQ(held(*rig_.host()), 0U);
  runtime_->set_memory_budget(rig_.host()->name(), on_host);
  ASSERT_EQ(home->residency().wake(kPatient), WaitEnd::ready);
  EXPECT_EQ(held(*rig_.host()), on_host);
}

TEST_F(HostExpertsResidency, AModelThatNeedsTheHostEvictsAnIdleOne) {
  const auto first = load();
  const uint64_t on_host = held(*rig_.host());
  runtime_->set_memory_budget(rig_.host()->name(), on_host + on_host / 2);
  const auto second = load();
  EXPECT_NE(first->residency().state(), ResidencyState::resident);
  EXPECT_EQ(second->residency().state(), ResidencyState::resident);
  EXPECT_LE(held(*rig_.host()), on_host + on_host / 2);
  expect_leases();
}

}  // namespace
}  // namespace quire::testing
