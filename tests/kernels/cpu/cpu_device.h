// Devices of the CPU backend for tests, one per instruction set of this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "tests/support/print_status.h"
#include "tests/support/quantized_fixture.h"

namespace quire::testing {

// Returns a seed that differs from run to run, and prints it; the environment variable QUIRE_TEST_SEED
// overrides it.
uint64_t fresh_seed();

// Returns the instruction sets that can run here, "scalar" first.
std::vector<std::string> usable_isas();

// Opens a device with an instruction set forced through the environment.
kernels::Device* open_cpu(const std::string& isa, int32_t num_threads, std::string* why = nullptr);

// An open device with a context for small shapes.
class CpuDevice {
 public:
  explicit CpuDevice(const std::string& isa, int32_t num_threads = 2,
                     kernels::ContextLimits limits = small_limits());
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;
  ~CpuDevice();

  static kernels::ContextLimits small_limits();
  const kernels::KernelTable& table() const { return *table_; }
  kernels::Device* handle() const { return device_; }
  kernels::Context* context() const { return context_; }

 private:
  kernels::Device* device_;
  const kernels::KernelTable* table_;
  kernels::Context* context_ = nullptr;
};

// A prepared matrix that lives as long as its device.
class CpuWeight {
 public:
  CpuWeight(CpuDevice& device, const std::vector<kernels::WeightSource>& parts);
  CpuWeight(const CpuWeight&) = delete;
  CpuWeight& operator=(const CpuWeight&) = delete;
  ~CpuWeight() { device_.table().release_weight(device_.handle(), weight_); }
  const kernels::Weight* get() const { return weight_; }

 private:
  CpuDevice& device_;
  kernels::Weight* weight_ = nullptr;
};

// Computes y = x W (+ bias) on the device; rows of x are contiguous.
std::vector<float> run_linear(CpuDevice& device, const kernels::Weight* weight,
                              const std::vector<float>& input, int32_t rows, int32_t num_out);

// Returns the bits of floats, so that NaN equals NaN and 0 differs from -0.
std::vector<uint32_t> bits_of(const std::vector<float>& values);

// Test parameter: an instruction set.
class EachIsa : public ::testing::TestWithParam<std::string> {};

// Returns the instruction set, the test's parameter, as the name of the instance.
inline std::string isa_of(const ::testing::TestParamInfo<std::string>& test) {
  return test.param;
}
#define QUIRE_FOR_EACH_ISA(suite) \
  INSTANTIATE_TEST_SUITE_P(Isa, suite, ::testing::ValuesIn(::quire::testing::usable_isas()), isa_of)

}  // namespace quire::testing
