// Memory that the library frees goes back to the system: weights that were evicted, and whole models.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

// Returns the resident bytes of this process, without pages of files.
int64_t resident_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  int64_t kibibytes = 0;
  while (file >> word) {
    if (word == "Anonymous:") file >> kibibytes;
  }
  return kibibytes << 10;
}

void use(quire_model* model) {
  const OwnedCache cache = make_cache(model);
  const OwnedRequest request = make_request("Once upon a time", 8);
  const OwnedJob job(quire_job_submit(cache.get(), request.get(), nullptr));
  EXPECT_EQ(collect(job.get()).tokens.size(), 8U);
}

class FreedMemory : public ::testing::Test {
 protected:
  OwnedRuntime runtime = make_runtime();

  OwnedModel load() const { return load_model(runtime.get(), embedded_model_path()); }
  void load_use_and_free() const { use(load().get()); }
};

TEST_F(FreedMemory, EvictedWeightsAreNoLongerResident) {
  const OwnedModel model = load();
  const auto weights =
      static_cast<int64_t>(std::filesystem::file_size(embedded_model_path() + "/output.safetensors"));
  Report report;
  for (int round = 0; round < 3; ++round) {
    use(model.get());
    const int64_t before = resident_bytes();
    ASSERT_EQ(
        quire_model_evict(model.get(), QUIRE_MODEL_STATE_ON_DISK, QUIRE_WAIT_FOREVER, nullptr, report.out()),
        1)
        << report.message();
    const int64_t freed = before - resident_bytes();
    std::cout << freed << " of " << weights << " bytes were freed\n";
    EXPECT_GE(freed, weights / 10 * 8) << "round " << round;
    ASSERT_EQ(quire_model_wake(model.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()), 1)
        << report.message();
  }
}

TEST_F(FreedMemory, AStormOfLoadsDoesNotGrowTheProcess) {
  constexpr int kThreads = 3, kRounds = 6;
  const auto storm = [&] {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int round = 0; round < kRounds; ++round) load_use_and_free();
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  load_use_and_free();
  const int64_t after_one = resident_bytes();
  storm();
  const int64_t after_storm = resident_bytes();
  storm();
  const int64_t after_two = resident_bytes();
  std::cout << after_one << " bytes after one model, " << after_storm << " after a storm, " << after_two
            << " after another\n";
  EXPECT_LE(after_two - after_storm, 8 << 20) << "less than the weights of one model";
}

}  // namespace
}  // namespace quire::testing
