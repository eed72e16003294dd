// The embedded model is evicted from its device and loaded back, from host memory if the device supports it,
// otherwise from its files. The leased memory equals the allocated memory, and no output depends on eviction.
// On the emulated GPU (tests/cuda_emulation) the copies complete as late as possible.
#include <dlfcn.h>
#include <filesystem>
#include <iostream>
#include <thread>

#include <gtest/gtest.h>

#include "core/engine/model/model_cache.h"
#include "core/engine/model/resident_model.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/fault_loop.h"
#include "tests/support/job_tokens.h"
#include "tests/support/temp_directory.h"

namespace quire::testing {
namespace {

const Wait kPatient{kPatience, nullptr};

// A load takes seconds under a sanitizer.
#ifdef QUIRE_SANITIZED
constexpr int kSlowness = 10;
#else
constexpr int kSlowness = 1;
#endif

// Returns a function that only the emulated GPU has.
template <typename Function>
Function* emulated_function(const char* name) {
  const char* folder = std::getenv("QUIRE_BACKEND_DIR");
  if (folder == nullptr) return nullptr;
  void* library = dlopen((std::string(folder) + "/libquire_cuda.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

// Does not advance, so that drafts are used whenever there are some. Waits end when they are notified.
class StillClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(std::chrono::seconds(1)); }
  bool wait_until(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, TimePoint,
                  const std::function<bool()>& ready) const override {
    return condition.wait_for(lock, kPatience, ready);
  }
};

class ModelEvictionTest : public ::testing::Test {
 protected:
  explicit ModelEvictionTest(RuntimeOptions options = {}) : runtime_(Runtime::create(std::move(options))) {}

  std::shared_ptr<const ResidentModel> load() { return load_on(device_); }
  std::shared_ptr<const ResidentModel> load_on(const std::shared_ptr<Device>& device,
                                               const std::string& drafter = "none") {
    ResidentModelOptions options;
    options.plan.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
    options.plan.devices.emplace_back().device = device;
    options.plan.drafter = drafter;
    open_drafter(posix_file_system(), options.plan);
    return ResidentModel::load(runtime_, options);
  }

  std::shared_ptr<Engine> open(const std::shared_ptr<const ResidentModel>& home) {
    ModelCacheOptions options;
    options.page_tokens = 16;
    options.max_batch_size = 4;
    options.max_tokens = options.max_seq_len = 64;
    return create_model_cache(runtime_, home->model(), options, home);
  }

  static std::shared_ptr<Job> submit(Engine& cache, const std::string& prompt) {
    JobRequest request;
    request.prompt = TokenIds{1};
    for (const char c : prompt) request.prompt.push_back(100 + c);
    request.max_new_tokens = 2;
    request.ignore_end_tokens = true;
    request.sampling.temperature = 0.0F;
    return cache.submit(std::move(request));
  }
  static TokenIds answer(Engine& cache, const std::string& prompt) {
    return tokens_of(*submit(cache, prompt));
  }

  void await_idle(const ResidentModel& home) const {
    while (!home.residency().place_on(device_->name())->is_idle) std::this_thread::yield();
  }

  static void await_rest(const WeightResidency& residency) {
    while (residency.state() == ResidencyState::moving) std::this_thread::yield();
  }
  int num_rounds() const {
    return parks() ? 6 : 20 / kSlowness + 2;
  }  // an emulated GPU takes seconds for each

  bool parks() const { return device_->has(kernels::kCapabilityParkedWeights); }
  kernels::MemoryUse use() const { return device_->memory_use(); }
  uint64_t leased() const { return runtime_->leased_bytes(device_->name()); }
  uint64_t pinned() const { return runtime_->leased_bytes(kPinnedMemory); }

  const std::shared_ptr<Device> device_ = open_test_device();
  const std::shared_ptr<Runtime> runtime_;
};

RuntimeOptions on_a_still_clock() {
  static const StillClock clock;
  RuntimeOptions options;
  options.clock = &clock;
  return options;
}

class DraftNetworkEvictionTest : public ModelEvictionTest {
 protected:
  DraftNetworkEvictionTest() : ModelEvictionTest(on_a_still_clock()) {}
};

TEST_F(ModelEvictionTest, OutputsAreTheSameAndLeasesMatch) {
  const auto home = load();
  const uint64_t whole = use().held_bytes;
  EXPECT_EQ(leased(), whole);
  const auto cache = open(home);
  const uint64_t of_cache = use().held_bytes - whole;
  const uint64_t leased_of_cache = leased() - whole;
  const uint64_t staging = use().pinned_bytes;
  const TokenIds before = answer(*cache, "a king");
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(home->residency().evict(ResidencyState::standing_by, kPatient), WaitEnd::ready);
    EXPECT_EQ(home->residency().state(), ResidencyState::standing_by);
    const uint64_t rest = use().held_bytes - of_cache;
    EXPECT_EQ(leased() - leased_of_cache, rest);
    if (parks()) {
      EXPECT_LT(rest, whole / 2) << "vectors and small matrices stay";
      EXPECT_EQ(pinned(), whole - rest);
      EXPECT_EQ(use().pinned_bytes - staging, pinned()) << "copied once";
    } else {
      EXPECT_EQ(rest, 0U);
      EXPECT_EQ(pinned(), 0U);
    }
    EXPECT_EQ(answer(*cache, "a king"), before) << round;
    EXPECT_EQ(home->residency().state(), ResidencyState::resident);
    EXPECT_EQ(use().held_bytes, whole + of_cache);
    EXPECT_EQ(leased(), whole + leased_of_cache);
  }
  EXPECT_EQ(home->residency().figures().wakes, 2U);
}

TEST_F(DraftNetworkEvictionTest, LeavesAndReturnsWithItsModel) {
  const auto home = load_on(device_, QUIRE_EMBEDDED_MODEL);
  const uint64_t whole = use().held_bytes;
  EXPECT_EQ(leased(), whole);
  EXPECT_EQ(home->model()->weight_bytes(), whole);
  EXPECT_GT(home->model()->drafter_bytes(), whole / 3);
  const auto cache = open(home);
  const uint64_t of_cache = use().held_bytes - whole, leased_of_cache = leased() - whole;
  const auto draft = [&] {
    JobRequest request;
    request.prompt = {1, 120, 130, 140};
    request.max_new_tokens = 30;
    request.ignore_end_tokens = true;
    request.sampling.temperature = 0.0F;
    const auto job = cache->submit(std::move(request));
    const TokenIds tokens = tokens_of(*job);
    EXPECT_GT(job->result().accepted_draft_tokens, 0);
    return tokens;
  };
  const TokenIds before = draft();
  for (const ResidencyState to : {ResidencyState::standing_by, ResidencyState::on_disk}) {
    ASSERT_EQ(home->residency().evict(ResidencyState::standing_by, kPatient), WaitEnd::ready);
    ASSERT_EQ(home->residency().evict(to, kPatient), WaitEnd::ready);
    EXPECT_EQ(use().held_bytes - of_cache, leased() - leased_of_cache);
    EXPECT_EQ(draft(), before);
    EXPECT_EQ(use().held_bytes, whole + of_cache);
    EXPECT_EQ(leased(), whole + leased_of_cache);
  }
}

// The cache of the model has the sizes of the network that it was loaded with.
TEST_F(DraftNetworkEvictionTest, AnotherInItsPlaceIsRefused) {
  const TempDirectory drafter;
  const auto put = [&](const std::string& model) {
    for (const auto& file : std::filesystem::directory_iterator(drafter.path()))
      std::filesystem::remove(file);
    std::filesystem::copy(model, drafter.path());
  };
  const std::string tiny = std::string(QUIRE_TEST_DATA) + "/architectures/llama3";
  put(tiny);
  const auto home = load_on(device_, drafter.path());
  const auto cache = open(home);
  const TokenIds before = answer(*cache, "a king");
  const uint64_t whole = home->model()->weight_bytes(), all = leased();
  ASSERT_EQ(home->residency().evict(ResidencyState::standing_by, kPatient), WaitEnd::ready);
  ASSERT_EQ(home->residency().evict(ResidencyState::on_disk, kPatient), WaitEnd::ready);
  put(QUIRE_EMBEDDED_MODEL);
  try {
    home->residency().wake(kPatient);
    FAIL() << "another network was loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::format) << error.what();
  }
  EXPECT_EQ(leased(), all - whole) << "the weights are still away";
  put(tiny);
  EXPECT_EQ(answer(*cache, "a king"), before);
}

TEST_F(ModelEvictionTest, OnDiskNoMemoryIsHeld) {
  const auto home = load();
  const uint64_t staging = use().pinned_bytes;
  ASSERT_EQ(home->residency().evict(ResidencyState::standing_by, kPatient), WaitEnd::ready);
  ASSERT_EQ(home->residency().evict(ResidencyState::on_disk, kPatient), WaitEnd::ready);
  EXPECT_EQ(use().held_bytes, 0U);
  EXPECT_EQ(use().pinned_bytes, staging);
  EXPECT_EQ(leased(), 0U);
  EXPECT_EQ(pinned(), 0U);
  ASSERT_EQ(home->residency().wake(kPatient), WaitEnd::ready);
  const auto cache = open(home);
  EXPECT_EQ(answer(*cache, "a king").size(), 2U);
}

TEST_F(ModelEvictionTest, WithoutABudgetForTheCopyItIsReloadedFromItsFiles) {
  runtime_->set_memory_budget(kPinnedMemory, 1);
  const auto home = load();
  const auto cache = open(home);
  const TokenIds before = answer(*cache, "a king");
  ASSERT_EQ(home->residency().evict(ResidencyState::standing_by, kPatient), WaitEnd::ready);
  EXPECT_EQ(pinned(), 0U);
  EXPECT_EQ(answer(*cache, "a king"), before);
}

TEST_F(ModelEvictionTest, AWakeWithoutMemoryLeavesItEvicted) {
  const auto home = load();
  const uint64_t whole = use().held_bytes;
  ASSERT_EQ(home->residency().evict(ResidencyState::standing_by, kPatient), WaitEnd::ready);
  const uint64_t away = use().held_bytes;
  runtime_->set_memory_budget(device_->name(), whole - 1);
  EXPECT_THROW(home->residency().wake(kPatient), Error);
  EXPECT_EQ(home->residency().state(), ResidencyState::standing_by);
  EXPECT_EQ(use().held_bytes, away);
  runtime_->set_memory_budget(device_->name(), whole);
  ASSERT_EQ(home->residency().wake(kPatient), WaitEnd::ready);
  EXPECT_EQ(use().held_bytes, whole);
  EXPECT_EQ(leased(), whole);
}

// The device has too little free memory, which the budget does not account for.
TEST_F(ModelEvictionTest, AWakeThatFailsMidwayOnTheDeviceLeavesItEvicted) {
  if (!parks()) GTEST_SKIP() << "QUIRE_TEST_DEVICE names no card";
  kernels::DeviceOptions options;
  uint64_t whole = 0;
  {
    const auto probe = load();
    whole = use().held_bytes;
  }
  options.memory_limit_bytes = whole + (uint64_t{64} << 20);
  const auto device = open_device_like_test_device(options);
  const auto home = load_on(device);
  ASSERT_EQ(home->residency().evict(ResidencyState::standing_by, kPatient), WaitEnd::ready);
  const uint64_t away = device->memory_use().held_bytes;
  {
    const DeviceBuffer taken(device, options.memory_limit_bytes - away - (whole - away) / 2, "a test");
    const uint64_t held = device->memory_use().held_bytes;
    auto& model = const_cast<Model&>(*home->model());
    EXPECT_THROW(model.reload_weights(std::atomic<bool>(false)), Error);
    EXPECT_EQ(device->memory_use().held_bytes, held);
    EXPECT_TRUE(model.is_offloaded());
    EXPECT_THROW(home->residency().wake(kPatient), Error);
    EXPECT_EQ(device->memory_use().held_bytes, held);
    EXPECT_EQ(home->residency().state(), ResidencyState::standing_by);
  }
  ASSERT_EQ(home->residency().wake(kPatient), WaitEnd::ready);
  EXPECT_EQ(device->memory_use().held_bytes, whole);
}

TEST_F(ModelEvictionTest, ACancelledWakeLeavesItEvicted) {
  if (!parks()) GTEST_SKIP() << "QUIRE_TEST_DEVICE names no card";
  const auto home = load();
  ASSERT_EQ(home->residency().evict(ResidencyState::standing_by, kPatient), WaitEnd::ready);
  const uint64_t away = use().held_bytes;
  auto& model = const_cast<Model&>(*home->model());
  EXPECT_THROW(model.reload_weights(std::atomic<bool>(true)), Error);
  EXPECT_EQ(use().held_bytes, away);
  EXPECT_TRUE(model.is_offloaded());
  ASSERT_EQ(home->residency().wake(kPatient), WaitEnd::ready);
}

// Each allocation of pinned memory fails in turn: the model is evicted nevertheless, and no part of the copy
// remains.
TEST_F(ModelEvictionTest, WithoutPinnedMemoryItIsReloadedFromItsFiles) {
  const auto refuse_pinned = emulated_function<void(int64_t)>("quire_emulated_refuse_pinned");
  if (refuse_pinned == nullptr) GTEST_SKIP() << "QUIRE_TEST_DEVICE names no emulated card";
  const auto home = load();
  const auto cache = open(home);
  const uint64_t staging = use().pinned_bytes;
  const TokenIds before = answer(*cache, "a king");
  int64_t nth = 1;
  for (bool parked = false; !parked && nth < 100; ++nth) {
    SCOPED_TRACE(nth);
    refuse_pinned(nth);
    ASSERT_EQ(home->residency().evict(ResidencyState::standing_by, kPatient), WaitEnd::ready);
    refuse_pinned(0);
    parked = home->model()->is_offloaded();
    EXPECT_EQ(use().pinned_bytes - staging, pinned());
    EXPECT_EQ(pinned() > 0, parked);
    ASSERT_EQ(home->residency().wake(kPatient), WaitEnd::ready);
  }
  EXPECT_GT(nth, 3);
  EXPECT_EQ(answer(*cache, "a king"), before);
}

// Each allocation during eviction and reload fails, once or from then on: the weights are in one place or the
// other, the leased bytes equal the held bytes, and the output is the same.
TEST_F(ModelEvictionTest, AnyAllocationMayFail) {
  const auto home = load();
  const auto cache = open(home);
  const uint64_t of_cache = leased() - use().held_bytes;
  const uint64_t staging = use().pinned_bytes;
  const TokenIds before = answer(*cache, "a");
  await_idle(*home);
  WeightResidency& residency = home->residency();
  // Reloading from files is a load, whose allocations load_faults_test makes fail.
  const auto count_faults = [&](ResidencyState from, FaultScope scope, int64_t stride, const auto& move) {
    const auto run = [&](const FaultPoint& point) {
      SCOPED_TRACE(::testing::Message() << point);
      if (from == ResidencyState::resident)
        residency.wake(kPatient);
      else
        residency.evict(from, kPatient);
      EXPECT_EQ(residency.state(), from);
      int64_t num_failed = 0;
      try {
        const AllocationFault fault(point.nth, point.span, scope);
        const auto count = gsl::finally([&] { num_failed = fault.num_failed(); });
        move();
        await_rest(residency);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
      } catch (const std::bad_alloc&) {  // allocations made by the wait itself
      }
      await_rest(residency);
      EXPECT_EQ(leased() - of_cache, use().held_bytes);
      EXPECT_EQ(pinned(), use().pinned_bytes - staging);
      EXPECT_EQ(home->model()->weights() != nullptr, residency.state() == ResidencyState::resident);
      return num_failed > 0 && !HasFailure();
    };
    return for_each_fault(run, stride);
  };
  const int64_t out =
      count_faults(ResidencyState::resident, FaultScope::this_thread, parks() ? 1 : 41 * kSlowness,
                   [&] { residency.evict(ResidencyState::standing_by, kPatient); });
  const int64_t back = count_faults(ResidencyState::standing_by, FaultScope::all_threads,
                                    parks() ? 1 : 211 * kSlowness, [&] { residency.wake(kPatient); });
  EXPECT_EQ(residency.wake(kPatient), WaitEnd::ready);
  EXPECT_EQ(answer(*cache, "a"), before);
  EXPECT_GT(out, 2);
  EXPECT_GT(back, 2);
  std::cout << out << " and " << back << " faults\n";
}

// Jobs are submitted while the model is evicted or loading; it is evicted whenever it is idle.
TEST_F(ModelEvictionTest, JobsGenerateTheSameTextWhileTheModelIsEvictedAndReloaded) {
  const auto home = load();
  const auto first = open(home);
  const auto second = open(home);
  const TokenIds king = answer(*first, "a king"), queen = answer(*first, "a queen");
  std::atomic<bool> is_over{false};
  std::thread mover([&] {
    for (; !is_over; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      home->residency().evict(ResidencyState::standing_by, kPatient);
  });
  for (int i = 0; i < num_rounds(); ++i) {
    std::thread beside([&] { EXPECT_EQ(answer(*second, "a queen"), queen) << i; });
    EXPECT_EQ(answer(*first, "a king"), king) << i;
    beside.join();
    // Make sure that it is loaded, or evicted, before the next round: on a slow machine the mover may get no
    // chance.
    if (i % 2 == 0)
      EXPECT_EQ(home->residency().wake(kPatient), WaitEnd::ready) << i;
    else
      EXPECT_EQ(home->residency().evict(ResidencyState::standing_by, kPatient), WaitEnd::ready) << i;
  }
  is_over = true;
  mover.join();
  EXPECT_EQ(home->residency().figures().failed_wakes, 0U);
  EXPECT_GT(home->residency().figures().wakes, 0U);
  std::cout << home->residency().figures().wakes << " wakes\n";
}

TEST_F(ModelEvictionTest, WaitingJobsAreComputedOnceItIsReloaded) {
  const auto home = load();
  const auto first = open(home);
  const auto second = open(home);
  const TokenIds king = answer(*first, "a king");
  ASSERT_EQ(home->residency().evict(ResidencyState::standing_by, kPatient), WaitEnd::ready);
  std::vector<std::shared_ptr<Job>> jobs;
  for (Engine* cache : {first.get(), second.get(), first.get()}) jobs.push_back(submit(*cache, "a king"));
  for (const auto& job : jobs) EXPECT_EQ(tokens_of(*job), king);
  EXPECT_EQ(home->residency().figures().wakes, 1U);
}

TEST_F(ModelEvictionTest, ClosingDuringAMoveFreesEverything) {
  const uint64_t staging = [&] {
    const auto probe = load();
    return use().pinned_bytes;
  }();
  for (int round = 0; round < 4; ++round) {
    auto home = load();
    auto cache = open(home);
    answer(*cache, "a");
    ASSERT_EQ(home->residency().evict(ResidencyState::standing_by, kPatient), WaitEnd::ready);
    auto job = submit(*cache, "a king");
    if (round % 2 == 1) home->residency().wake(Wait{std::chrono::microseconds(100) * round, nullptr});
    cache->close();
    job.reset();
    cache.reset();
    home.reset();
    while (leased() > 0 || pinned() > 0) std::this_thread::yield();  // a thread may still be running
    EXPECT_EQ(use().held_bytes, 0U);
    EXPECT_EQ(use().pinned_bytes, staging);
  }
}

// Two models that do not fit together take turns.
TEST_F(ModelEvictionTest, TwoModelsInTheMemoryOfOneTakeTurns) {
  const auto first = load();
  const uint64_t whole = use().held_bytes;
  const auto cache = open(first);
  const TokenIds before = answer(*cache, "a king");
  await_idle(*first);
  runtime_->set_memory_budget(device_->name(), leased() + whole / 2);
  const auto second = load();  // evicts the first
  EXPECT_EQ(first->residency().state(), ResidencyState::standing_by);
  EXPECT_EQ(second->residency().state(), ResidencyState::resident);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(answer(*cache, "a king"), before);
    EXPECT_EQ(second->residency().state(), ResidencyState::standing_by);
    await_idle(*first);
    ASSERT_EQ(second->residency().wake(kPatient), WaitEnd::ready);
    EXPECT_EQ(first->residency().state(), ResidencyState::standing_by);
  }
}

// Without memory for both, the memory that the first model keeps on the GPU is freed too, and it is reloaded
// from its files.
TEST_F(ModelEvictionTest, RemainingMemoryIsFreedBeforeALoadIsRefused) {
  const auto first = load();
  runtime_->set_memory_budget(device_->name(), use().held_bytes);
  auto second = load();
  EXPECT_EQ(first->residency().state(), ResidencyState::standing_by);
  EXPECT_EQ(second->residency().state(), ResidencyState::resident);
  EXPECT_EQ(leased(), use().held_bytes);
  EXPECT_EQ(pinned(), 0U);
  second.reset();
  ASSERT_EQ(first->residency().wake(kPatient), WaitEnd::ready);
  const auto cache = [&] {
    runtime_->set_memory_budget(device_->name(), 0);
    return open(first);
  }();
  EXPECT_EQ(answer(*cache, "a king").size(), 2U);
}

}  // namespace
}  // namespace quire::testing
