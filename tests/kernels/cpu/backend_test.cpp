// The backend as the engine uses it: devices, forced instruction sets, failures.
#include <array>
#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/interface/host_memory.h"
#include "tests/kernels/cpu/cpu_device.h"

namespace quire::testing {
namespace {

using kernels::Backend;
using kernels::KernelTable;
using kernels::Status;

TEST(CpuBackend, TheForcedInstructionSetIsTheOneThatRuns) {
  for (const std::string& isa : usable_isas()) {
    CpuDevice device(isa);
    EXPECT_EQ(device.table().name, "cpu-" + isa);
    kernels::DeviceInfo info;
    ASSERT_EQ(kernels::cpu_backend().device_info(device.handle(), &info), Status::ok);
    EXPECT_NE(std::string(info.name).find(isa), std::string::npos) << info.name;
    EXPECT_EQ(info.num_units, 2);
    EXPECT_GT(info.total_bytes, uint64_t{64} << 20);
    EXPECT_GT(info.free_bytes, 0U);
    EXPECT_LE(info.free_bytes, info.total_bytes);
  }
}

TEST(CpuBackend, TheBestInstructionSetIsTheDefault) {
  kernels::Device* device = open_cpu("", 1);
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(kernels::cpu_backend().table(device)->name, "cpu-" + usable_isas().back());
  kernels::cpu_backend().close_device(device);
}

TEST(CpuBackend, AnUnknownInstructionSetIsRefusedByName) {
  std::string why;
  EXPECT_EQ(open_cpu("avx3", 1, &why), nullptr);
  EXPECT_NE(why.find("avx3"), std::string::npos) << why;
}

TEST(CpuBackend, RefusesUnknownDevicesAndOptions) {
  const Backend& backend = kernels::cpu_backend();
  std::array<char, 200> why{};
  EXPECT_EQ(backend.num_devices(why.data(), why.size()), 1);
  kernels::DeviceOptions options;
  kernels::Device* device = nullptr;
  EXPECT_EQ(backend.open_device(1, &options, &device), Status::invalid_argument);
  options.num_threads = -1;
  EXPECT_EQ(backend.open_device(0, &options, &device), Status::invalid_argument);
  EXPECT_EQ(device, nullptr);
}

// After its first fields the table has only function pointers.
TEST(CpuBackend, EveryEntryIsFilled) {
  CpuDevice device("scalar");
  const KernelTable& table = device.table();
  EXPECT_EQ(table.abi, kernels::kBackendAbi);
  EXPECT_EQ(table.activation_dtype, kernels::DType::f32);
  const size_t first = offsetof(KernelTable, memory_use);
  for (size_t offset = first; offset < sizeof(KernelTable); offset += sizeof(void*)) {
    void* entry = nullptr;
    std::memcpy(&entry, reinterpret_cast<const char*>(&table) + offset, sizeof entry);
    EXPECT_NE(entry, nullptr) << "entry " << (offset - first) / sizeof(void*);
  }
}

TEST(CpuBackend, MemoryIsAlignedAndRunningOutReturnsAStatus) {
  CpuDevice device("scalar");
  const KernelTable& table = device.table();
  void* memory = nullptr;
  for (const size_t bytes : {size_t{1}, size_t{1000}, size_t{9} << 20}) {
    ASSERT_EQ(table.allocate(device.handle(), bytes, &memory), Status::ok);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0U);
    ASSERT_EQ(table.fill(device.handle(), memory, 7, bytes), Status::ok);
    uint8_t last = 0;
    ASSERT_EQ(table.download(device.handle(), &last, static_cast<uint8_t*>(memory) + bytes - 1, 1),
              Status::ok);
    EXPECT_EQ(last, 7);
    table.release(device.handle(), memory);
  }
  table.release(device.handle(), nullptr);
  const Status refused = table.allocate(device.handle(), size_t{1} << 60, &memory);
  EXPECT_EQ(refused, Status::out_of_memory);
  EXPECT_NE(std::string(refused.words).find("1152921504606846976"), std::string::npos) << refused.words;
}

uint64_t held_bytes(const CpuDevice& device) {
  kernels::MemoryUse use;
  device.table().memory_use(device.handle(), &use);
  return use.held_bytes;
}

TEST(CpuBackend, MappedMemoryKeepsItsAddressAndIsCounted) {
  CpuDevice device("scalar");
  const KernelTable& table = device.table();
  const size_t unit = table.map_unit;
  const uint64_t before = held_bytes(device);
  void* range = nullptr;
  ASSERT_EQ(table.reserve(device.handle(), 200 * unit, &range), Status::ok);
  EXPECT_EQ(held_bytes(device), before);
  auto* const bytes = static_cast<uint8_t*>(range);
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(table.map(device.handle(), range, 0, 2 * unit), Status::ok);
    ASSERT_EQ(table.map(device.handle(), range, 2 * unit, 100 * unit), Status::ok);
    EXPECT_EQ(held_bytes(device), before + 102 * unit);
    EXPECT_EQ(bytes[102 * unit - 1], 0);
    std::memset(bytes, 7, 102 * unit);
    table.unmap(device.handle(), range, 2 * unit);
    EXPECT_EQ(held_bytes(device), before + 2 * unit);
    EXPECT_EQ(bytes[2 * unit - 1], 7);
    table.unmap(device.handle(), range, 0);
    EXPECT_EQ(held_bytes(device), before);
  }
  ASSERT_EQ(table.map(device.handle(), range, unit, unit), Status::ok);
  table.unreserve(device.handle(), range);
  EXPECT_EQ(held_bytes(device), before);
  table.unreserve(device.handle(), nullptr);
}

TEST(CpuBackendDeathTest, UnmappedMemoryIsInaccessible) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  CpuDevice device("scalar");
  const KernelTable& table = device.table();
  void* range = nullptr;
  ASSERT_EQ(table.reserve(device.handle(), 2 * table.map_unit, &range), Status::ok);
  ASSERT_EQ(table.map(device.handle(), range, 0, table.map_unit), Status::ok);
  auto* const bytes = static_cast<volatile uint8_t*>(range);
  bytes[0] = 1;
  EXPECT_DEATH(bytes[table.map_unit] = 1, "");
  table.unmap(device.handle(), range, 0);
  EXPECT_DEATH(bytes[0] = 1, "");
  table.unreserve(device.handle(), range);
}

TEST(CpuBackend, MappingObeysTheLimitOfTheDevice) {
  kernels::DeviceOptions options;
  options.num_threads = 1;
  options.memory_limit_bytes = 3 * kernels::kHostMapUnit;
  kernels::Device* device = nullptr;
  ASSERT_EQ(kernels::cpu_backend().open_device(0, &options, &device), Status::ok);
  const KernelTable& table = *kernels::cpu_backend().table(device);
  void* range = nullptr;
  ASSERT_EQ(table.reserve(device, 100 * table.map_unit, &range), Status::ok);
  ASSERT_EQ(table.map(device, range, 0, 2 * table.map_unit), Status::ok);
  EXPECT_EQ(table.map(device, range, 2 * table.map_unit, 2 * table.map_unit), Status::out_of_memory);
  EXPECT_EQ(table.map(device, range, 2 * table.map_unit, table.map_unit), Status::ok);
  void* too_large = nullptr;
  EXPECT_EQ(table.reserve(device, size_t{1} << 62, &too_large), Status::out_of_memory);
  EXPECT_EQ(too_large, nullptr);
  table.unreserve(device, range);
  kernels::cpu_backend().close_device(device);
}

TEST(CpuBackend, LeavesSamplingToTheHost) {
  CpuDevice device("scalar");
  const kernels::SampleParams params;
  EXPECT_EQ(device.table().sample(device.context(), &params), Status::unsupported);
  EXPECT_EQ(device.table().capabilities & kernels::kCapabilityDeviceSampling, 0U);
  EXPECT_NE(device.table().capabilities & kernels::kCapabilityDeterministic, 0U);
}

}  // namespace
}  // namespace quire::testing
