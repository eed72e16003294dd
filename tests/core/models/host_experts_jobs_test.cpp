// Jobs of models with host experts: the same tokens in any schedule, and weights that leave both devices and
// return.
#include <gtest/gtest.h>

#include "core/engine/model/model_cache.h"
#include "core/engine/model/resident_model.h"
#include "core/models/stage_sizes.h"
#include "tests/core/models/exl2_experts.h"
#include "tests/support/expect_error.h"
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

// Runs the known jobs in some random schedules.
void expect_same_in_schedules(const std::shared_ptr<const Model>& model, const std::vector<KnownJob>& known,
                              uint64_t card_expert_bytes) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    std::mt19937_64 random(seed);
    ModelCacheOptions options = cache_options();
    options.card_expert_bytes = static_cast<int64_t>(card_expert_bytes);
    options.max_chunk_tokens = 1 + static_cast<int32_t>(random() % 60);
    options.max_tokens = 96 + static_cast<int32_t>(random() % 300);
    options.max_batch_size = 1 + static_cast<int32_t>(random() % 8);
    const auto cache = create_model_cache(Runtime::create({}), model, options);
    ASSERT_EQ(run_random_schedule(*cache, known, random), "") << "seed " << seed;
  }
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
    expect_same_in_schedules(model, known, 0);
  }
}

class ExpertsOnCards : public ::testing::Test {
 protected:
  std::shared_ptr<const Model> load() const {
    return load_exl2_experts("qwen3_moe", rig_,
                             layers_with_experts(Exl2ExpertsSource("qwen3_moe").config().spec));
  }
  uint64_t slot_bytes(const Model& model) const {
    return position_of_stage(*model.transformer(), 0).packed.slot_bytes;
  }

  const CardAndHost rig_;
};

// Jobs, preemptions and other chunks than alone change which experts are in slots, and no token.
TEST_F(ExpertsOnCards, GiveTheSameBitsInAnySchedule) {
  const auto model = load();
  std::vector<KnownJob> known;
  for (const JobRequest& request : requests(model->shape().vocab_size)) {
    const auto cache = create_model_cache(Runtime::create({}), model, cache_options());
    known.push_back({request, run_alone(*cache, request)});
  }
  for (const uint64_t num_slots : {1, 3, 1000})
    expect_same_in_schedules(model, known, num_slots * slot_bytes(*model));
}

// Each cache has slots of its own, and takes turns with the other on both devices.
TEST_F(ExpertsOnCards, CachesOfOneModelHaveTheirOwnSlots) {
  const auto model = load();
  const auto runtime = Runtime::create({});
  ModelCacheOptions options = cache_options();
  options.engine.start_thread = true;
  const auto plain = create_model_cache(runtime, model, options);
  options.card_expert_bytes = static_cast<int64_t>(5 * slot_bytes(*model));
  const auto first = create_model_cache(runtime, model, options);
  const auto second = create_model_cache(runtime, model, options);
  const auto request = [&](int32_t seed, int32_t num_prompt) {
    JobRequest of_seed;
    of_seed.prompt = some_ids(num_prompt, model->shape().vocab_size, static_cast<uint32_t>(seed));
    of_seed.max_new_tokens = 12;
    of_seed.ignore_end_tokens = true;
    of_seed.sampling.temperature = 0.0F;
    return of_seed;
  };
  for (int32_t round = 0; round < 4; ++round) {
    const auto a = first->submit(request(round, 5)), b = second->submit(request(round + 7, 40));
    const auto expected_a = plain->submit(request(round, 5)),
               expected_b = plain->submit(request(round + 7, 40));
    EXPECT_EQ(tokens_of(*a), tokens_of(*expected_a));
    EXPECT_EQ(tokens_of(*b), tokens_of(*expected_b));
  }
  const bool has_slots = rig_.card()->has(kernels::kCapabilityPackedExperts);
  for (const auto& cache : {first, second}) EXPECT_EQ(cache->stats().card_experts.hits > 0, has_slots);
  EXPECT_EQ(plain->stats().card_experts.hits, 0U);
}

// Weights that are loaded again may be others: no expert of the old ones stays in a slot.
TEST_F(ExpertsOnCards, SlotsAreEmptiedWithTheirWeights) {
  const std::vector<int32_t> layers = layers_with_experts(Exl2ExpertsSource("qwen3_moe").config().spec);
  const auto first = load(), second = load_exl2_experts("qwen3_moe", rig_, layers, 2);
  const TokenIds text = some_ids(70, first->shape().vocab_size, 3);
  std::shared_ptr<const Model> current = first;
  RunnerOptions options;
  options.card_expert_bytes = uint64_t{1} << 30;
  TransformerRunner runner(first, options, [&] { return current->transformer(); });
  for (int32_t round = 0; round < 4; ++round) {
    current = round % 2 == 0 ? first : second;
    const std::vector<float> expected = TransformerRunner(current, {}).logits(text, 70);
    runner.acquire_weights();
    for (const int32_t chunk : {1, 70, 1}) expect_identical(runner.logits(text, chunk), expected);
    runner.release_weights();
  }
}

// A card without the memory for its slots refuses the cache, and keeps nothing of it.
TEST_F(ExpertsOnCards, ACacheWhoseSlotsDoNotFitIsRefused) {
  if (!rig_.card()->has(kernels::kCapabilityPackedExperts)) GTEST_SKIP() << "the card has no packed experts";
  const CardAndHost small(uint64_t{600} << 20);
  const auto model = load_exl2_experts("qwen3_moe", small,
                                       layers_with_experts(Exl2ExpertsSource("qwen3_moe").config().spec));
  const uint64_t before = small.card()->memory_use().held_bytes;
  const auto with_slots = [&](uint64_t bytes) {
    ModelCacheOptions options = cache_options();
    options.card_expert_bytes = static_cast<int64_t>(bytes);
    return create_model_cache(Runtime::create({}), model, options);
  };
  (void)with_slots(2 * slot_bytes(*model));
  const auto filler =
      DeviceBuffer(small.card(), (uint64_t{600} << 20) - before - (uint64_t{8} << 20), "a filler");
  expect_error(ErrorCode::out_of_memory, {"the cache of"}, [&] { (void)with_slots(2 * slot_bytes(*model)); });
}

class HostExpertsResidency : public ::testing::Test {
 protected:
  std::shared_ptr<const ResidentModel> load() const {
    return load(open_model_source(posix_file_system(), family_.path()));
  }
  std::shared_ptr<const ResidentModel> load(std::shared_ptr<ModelSource> source) const {
    ResidentModelOptions options;
    options.plan.source = std::move(source);
    options.plan.devices.push_back({"card", rig_.card()});
    options.plan.devices.push_back({"cpu", rig_.host()});
    options.plan.devices.back().takes_layers = false;
    options.plan.host_experts = parse_host_experts("all");
    return ResidentModel::load(runtime_, options);
  }

  uint64_t leased(const Device& device) const { return runtime_->leased_bytes(device.name()); }
  static uint64_t held(const Device& device) { return device.memory_use().held_bytes; }
  // Expects that the weights leave both devices and return, and that a cache gives the same tokens then.
  void expect_return(const std::shared_ptr<const ResidentModel>& home,
                     const std::vector<ResidencyState>& states) const;
  void expect_leases() const {
    for (const std::shared_ptr<Device>& device : {rig_.card(), rig_.host()})
      EXPECT_EQ(leased(*device), held(*device)) << device->name();
  }

  const FamilyDirectory family_{"qwen3_moe"};
  const CardAndHost rig_;
  const std::shared_ptr<Runtime> runtime_ = Runtime::create({});
};

TEST_F(HostExpertsResidency, WeightsLeaveBothDevicesAndReturn) {
  expect_return(load(), {ResidencyState::standing_by, ResidencyState::on_disk});
}

// Random weights have no files to return from.
TEST_F(HostExpertsResidency, SlotsStayWhileWeightsStandBy) {
  expect_return(load(std::make_shared<Exl2ExpertsSource>("qwen3_moe")), {ResidencyState::standing_by});
}

void HostExpertsResidency::expect_return(const std::shared_ptr<const ResidentModel>& home,
                                         const std::vector<ResidencyState>& states) const {
  expect_leases();
  const uint64_t on_card = held(*rig_.card()), on_host = held(*rig_.host());
  EXPECT_GT(on_host, 0U);
  ModelCacheOptions options = cache_options();
  options.engine.start_thread = true;
  options.card_expert_bytes = 1 << 20;
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
  for (const ResidencyState to : states) {
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
  EXPECT_EQ(home->residency().figures().wakes, states.size());
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
