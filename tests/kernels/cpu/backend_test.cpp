// The backend as the engine meets it: devices, forced instruction sets, failures.
#include <array>
#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
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

TEST(CpuBackend, TheBestInstructionSetIsTakenWhereNoneIsForced) {
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

TEST(CpuBackend, RefusesWhatItDoesNotHave) {
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

// The table has nothing but function pointers after its first fields.
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

TEST(CpuBackend, MemoryIsAlignedAndItsLackIsAStatus) {
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

TEST(CpuBackend, LeavesSamplingToTheHost) {
  CpuDevice device("scalar");
  const kernels::SampleParams params;
  EXPECT_EQ(device.table().sample(device.context(), &params), Status::unsupported);
  EXPECT_EQ(device.table().capabilities & kernels::kCapabilityDeviceSampling, 0U);
  EXPECT_NE(device.table().capabilities & kernels::kCapabilityDeterministic, 0U);
}

}  // namespace
}  // namespace quire::testing
