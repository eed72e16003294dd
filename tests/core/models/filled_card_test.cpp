// Two models are loaded at once while another process allocates and frees memory of the GPU at random. Each
// load ends with a model or with one out-of-memory error, and a loaded model computes the usual results.
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <poll.h>
#include <random>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/model/model_cache.h"
#include "core/engine/model/resident_model.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/job_tokens.h"

extern char** environ;

namespace quire::testing {
namespace {

constexpr const char* kFill = "--fill";
constexpr uint64_t kMostFree = uint64_t{200} << 20;  // two of these models and their caches need 160 MiB
constexpr uint64_t kPiece = uint64_t{2} << 20;

uint64_t free_bytes(const Device& device) {
  return device.info().free_bytes;
}

// Body of the other process: first allocates all but a little, then varies that rest until its input ends.
int fill(uint64_t most_free) {
  const std::shared_ptr<Device> device = open_test_device();
  std::vector<DeviceBuffer> base, pieces;
  const auto take = [&](std::vector<DeviceBuffer>& to, uint64_t bytes) {
    try {
      to.emplace_back(device, bytes, "a filled card");
    } catch (const Error&) {
      return false;
    }
    return true;
  };
  for (uint64_t bytes = uint64_t{1} << 40; bytes >= kPiece; bytes /= 2)
    while (bytes + most_free <= free_bytes(*device) && take(base, bytes)) {
    }
  std::mt19937_64 random(20261124);
  if (write(STDOUT_FILENO, "f", 1) != 1) return 1;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (poll(&input, 1, static_cast<int>(random() % 20)) == 0) {
    const uint64_t target = random() % most_free;
    while (free_bytes(*device) > target && take(pieces, kPiece)) {
    }
    while (free_bytes(*device) < target && !pieces.empty()) pieces.pop_back();
  }
  return 0;
}

// Runs this program again as that process, which ends with this object.
class Filler {
 public:
  explicit Filler(uint64_t most_free) {
    std::array<int, 2> to{}, from{};
    if (pipe2(to.data(), O_CLOEXEC) != 0 || pipe2(from.data(), O_CLOEXEC) != 0) std::abort();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    const std::string bytes = std::to_string(most_free);
    std::string program = "filled_card_test", word = kFill, argument = bytes;
    const std::array<char*, 4> arguments{program.data(), word.data(), argument.data(), nullptr};
    const int error = posix_spawn(&process_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    input_ = to[1];
    char ready = 0;
    is_there_ = error == 0 && read(from[0], &ready, 1) == 1;
    close(from[0]);
  }
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;
  ~Filler() {
    close(input_);
    int status = 0;
    if (process_ > 0) waitpid(process_, &status, 0);
  }
  bool is_there() const { return is_there_; }

 private:
  pid_t process_ = -1;
  int input_ = -1;
  bool is_there_ = false;
};

class FullGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_->is_host()) GTEST_SKIP() << "QUIRE_TEST_DEVICE names no card";
  }

  std::shared_ptr<const ResidentModel> load() const {
    ResidentModelOptions options;
    options.plan.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
    options.plan.devices.emplace_back().device = device_;
    return ResidentModel::load(runtime_, options);
  }
  TokenIds answer(const std::shared_ptr<const ResidentModel>& home) const {
    ModelCacheOptions options;
    options.page_tokens = 16;
    options.max_batch_size = 2;
    options.max_tokens = options.max_seq_len = 32;
    const auto cache = create_model_cache(runtime_, home->model(), options, home);
    JobRequest request;
    request.prompt = TokenIds{1, 200, 201};
    request.max_new_tokens = 2;
    request.ignore_end_tokens = true;
    request.sampling.temperature = 0.0F;
    const auto job = cache->submit(std::move(request));
    TokenIds tokens = tokens_of(*job);
    const JobResult result = job->result();
    if (result.error != ErrorCode::ok) throw Error(result.error, "{}", result.message);
    return tokens;
  }

  // Counts of the results of a load and of a job after it.
  struct Ends {
    std::atomic<int> loaded{0}, computed{0}, refused{0};
  };
  void try_one(const TokenIds& expected, Ends& ends) const {
    try {
      const auto home = load();
      ++ends.loaded;
      EXPECT_EQ(answer(home), expected);
      ++ends.computed;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
      EXPECT_NE(std::string(error.what()), "");
      ++ends.refused;
    }
  }

  const std::shared_ptr<Device> device_ = open_test_device();
  const std::shared_ptr<Runtime> runtime_ = Runtime::create({});
};

TEST_F(FullGpuTest, EachOfTwoLoadsHasOneResult) {
  TokenIds expected;
  {
    const auto home = load();
    expected = answer(home);
  }
  Ends ends;
  {
    const Filler filler(kMostFree);
    ASSERT_TRUE(filler.is_there());
    for (int round = 0; round < 12; ++round) {
      std::thread beside([&] { try_one(expected, ends); });
      try_one(expected, ends);
      beside.join();
    }
  }
  std::cout << ends.loaded << " loaded, " << ends.computed << " computed, " << ends.refused << " refused\n";
  EXPECT_EQ(ends.computed + ends.refused, 24);
  EXPECT_GT(ends.refused, 0) << "the card was never full";
  EXPECT_EQ(device_->memory_use().held_bytes, 0U);
  EXPECT_EQ(runtime_->leased_bytes(device_->name()), 0U);
  EXPECT_EQ(answer(load()), expected) << "the other process is gone";
}

}  // namespace
}  // namespace quire::testing

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], quire::testing::kFill) == 0)
    return quire::testing::fill(std::strtoull(argv[2], nullptr, 10));
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
