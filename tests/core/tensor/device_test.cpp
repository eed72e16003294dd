// A failed call of a backend becomes an error with the message of that call.
#include "core/tensor/device.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/case_stride.h"

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

TEST(DeviceFailures, EachOfTwoCallsKeepsItsOwnMessage) {
  const std::shared_ptr<Device> device = open_cpu();
  const kernels::Status first = ask_for(*device, kTooMuch);
  const kernels::Status second = ask_for(*device, kTooMuch + 4096);
  EXPECT_NE(words_of(*device, first).find(std::to_string(kTooMuch)), std::string::npos)
      << words_of(*device, first);
  EXPECT_NE(words_of(*device, second).find(std::to_string(kTooMuch + 4096)), std::string::npos)
      << words_of(*device, second);
}

TEST(DeviceFailures, ThreadsDoNotMixTheirMessages) {
  const std::shared_ptr<Device> device = open_cpu();
  std::vector<int> num_foreign(4, 0);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < num_foreign.size(); ++i) {
    threads.emplace_back([&device, &num_foreign, i] {
      const size_t bytes = kTooMuch + 4096 * i;
      for (int call = 0; call < 2000 / testing::stride_if_sanitized(5); ++call) {
        const std::string words = words_of(*device, ask_for(*device, bytes));
        if (words.find(std::to_string(bytes)) == std::string::npos) ++num_foreign[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_foreign, std::vector<int>(num_foreign.size(), 0));
}

TEST(DeviceFailures, ACodeWithoutMessageIsNamed) {
  const std::shared_ptr<Device> device = open_cpu();
  EXPECT_NE(words_of(*device, kernels::Status::device_lost).find("lost"), std::string::npos);
}

TEST(DeviceFailures, ADeviceThatCannotBeOpenedGivesTheReason) {
  try {
    Device::open(kernels::cpu_backend(), 3, {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cpu:3"), std::string::npos) << error.what();
  }
}

uint64_t held_bytes(const Device& device) {
  return device.memory_use().held_bytes;
}

TEST(ElasticBuffer, GrowsAndShrinksAtItsAddressAndTakesWholeUnits) {
  const std::shared_ptr<Device> device = open_cpu();
  const uint64_t unit = device->table().map_unit;
  const uint64_t before = held_bytes(*device);
  ElasticBuffer buffer(device, 40 * unit, "pages");
  auto* const bytes = buffer.as<uint8_t>();
  EXPECT_EQ(held_bytes(*device), before);
  // Steps of half a unit: some of them need no new unit.
  for (uint64_t halves = 1; halves <= 80; ++halves) {
    buffer.grow(halves * unit / 2);
    EXPECT_EQ(held_bytes(*device), before + ElasticBuffer::taken_bytes(device->table(), halves * unit / 2));
    bytes[halves * unit / 2 - 1] = static_cast<uint8_t>(halves);
  }
  EXPECT_EQ(buffer.as<uint8_t>(), bytes);
  for (uint64_t halves = 80; halves-- > 0;) {
    EXPECT_EQ(bytes[(halves + 1) * unit / 2 - 1], static_cast<uint8_t>(halves + 1));
    buffer.shrink(halves * unit / 2);
    EXPECT_EQ(held_bytes(*device), before + ElasticBuffer::taken_bytes(device->table(), halves * unit / 2));
  }
}

TEST(ElasticBuffer, IsUnchangedIfMemoryRunsOut) {
  kernels::DeviceOptions options;
  options.num_threads = 1;
  options.memory_limit_bytes = uint64_t{1} << 20;
  const auto device = Device::open(kernels::cpu_backend(), 0, options);
  ElasticBuffer buffer(device, uint64_t{4} << 20, "pages");
  buffer.grow(uint64_t{1} << 19);
  EXPECT_THROW(buffer.grow(uint64_t{2} << 20), Error);
  EXPECT_EQ(held_bytes(*device), uint64_t{1} << 19);
  buffer.as<uint8_t>()[(1 << 19) - 1] = 1;
  buffer.grow(uint64_t{1} << 20);
  EXPECT_EQ(held_bytes(*device), uint64_t{1} << 20);
}

}  // namespace
}  // namespace quire
