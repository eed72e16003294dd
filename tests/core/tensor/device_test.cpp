// A failed call of a backend becomes an error that speaks of that call.
#include "core/tensor/device.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "kernels/cpu/cpu_backend.h"

namespace quire {
namespace {

kernels::Status ask_for(const Device& device, size_t bytes) {
  void* memory = nullptr;
  return device.table().allocate(device.handle(), bytes, &memory);
}

std::string words_of(const Device& device, const kernels::Status& status) {
  try {
    device.check(status, "taking memory");
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::shared_ptr<Device> open_cpu() {
  kernels::DeviceOptions options;
  options.num_threads = 1;
  return Device::open(kernels::cpu_backend(), 0, options);
}

constexpr size_t kTooMuch = size_t{1} << 60;

TEST(DeviceFailures, EachOfTwoCallsKeepsItsOwnWords) {
  const std::shared_ptr<Device> device = open_cpu();
  const kernels::Status first = ask_for(*device, kTooMuch);
  const kernels::Status second = ask_for(*device, kTooMuch + 4096);
  EXPECT_NE(words_of(*device, first).find(std::to_string(kTooMuch)), std::string::npos)
      << words_of(*device, first);
  EXPECT_NE(words_of(*device, second).find(std::to_string(kTooMuch + 4096)), std::string::npos)
      << words_of(*device, second);
}

TEST(DeviceFailures, ThreadsDoNotSwapTheirWords) {
  const std::shared_ptr<Device> device = open_cpu();
  std::vector<int> num_foreign(4, 0);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < num_foreign.size(); ++i) {
    threads.emplace_back([&device, &num_foreign, i] {
      const size_t bytes = kTooMuch + 4096 * i;
      for (int call = 0; call < 2000; ++call) {
        const std::string words = words_of(*device, ask_for(*device, bytes));
        if (words.find(std::to_string(bytes)) == std::string::npos) ++num_foreign[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_foreign, std::vector<int>(num_foreign.size(), 0));
}

TEST(DeviceFailures, ACodeWithoutWordsIsNamed) {
  const std::shared_ptr<Device> device = open_cpu();
  EXPECT_NE(words_of(*device, kernels::Status::device_lost).find("lost"), std::string::npos);
}

TEST(DeviceFailures, ADeviceThatCannotBeOpenedSaysWhy) {
  try {
    Device::open(kernels::cpu_backend(), 3, {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cpu:3"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace quire
