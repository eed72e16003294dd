#include "tests/kernels/cpu/cpu_device.h"

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace quire::testing {

using kernels::Status;

uint64_t fresh_seed() {
  static const uint64_t seed = [] {
    const char* given = std::getenv("QUIRE_TEST_SEED");
    const uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::printf("QUIRE_TEST_SEED=%llu\n", static_cast<unsigned long long>(value));
    return value;
  }();
  return seed;
}

kernels::Device* open_cpu(const std::string& isa, int32_t num_threads, std::string* why) {
  ::setenv("QUIRE_CPU_ISA", isa.c_str(), 1);
  kernels::DeviceOptions options;
  options.num_threads = num_threads;
  kernels::Device* device = nullptr;
  const Status status = kernels::cpu_backend().open_device(0, &options, &device);
  ::unsetenv("QUIRE_CPU_ISA");
  if (why != nullptr) *why = status.words;
  return status == Status::ok ? device : nullptr;
}

std::vector<std::string> usable_isas() {
  std::vector<std::string> usable;
  for (const char* isa : {"scalar", "avx2", "avx512"}) {
    kernels::Device* device = open_cpu(isa, 1);
    if (device == nullptr) continue;
    kernels::cpu_backend().close_device(device);
    usable.emplace_back(isa);
  }
  return usable;
}

kernels::ContextLimits CpuDevice::small_limits() {
  kernels::ContextLimits limits;
  limits.max_tokens = 700;
  limits.max_sequences = 16;
  limits.max_logit_rows = 16;
  limits.max_pages_per_sequence = 256;
  limits.max_columns = 1024;
  limits.vocab_size = 1000;
  limits.num_heads = 32;
  limits.head_dim = 256;
  return limits;
}

CpuDevice::CpuDevice(const std::string& isa, int32_t num_threads, kernels::ContextLimits limits)
    : device_(open_cpu(isa, num_threads)), table_(kernels::cpu_backend().table(device_)) {
  EXPECT_EQ(table_->create_context(device_, &limits, &context_), Status::ok);
}

CpuDevice::~CpuDevice() {
  table_->release_context(context_);
  kernels::cpu_backend().close_device(device_);
}

CpuWeight::CpuWeight(CpuDevice& device, const std::vector<kernels::WeightSource>& parts) : device_(device) {
  EXPECT_EQ(kernels::prepare_weight(device.table(), device.handle(), parts.data(),
                                    static_cast<int32_t>(parts.size()), &weight_),
            Status::ok);
}

std::vector<float> run_linear(CpuDevice& device, const kernels::Weight* weight,
                              const std::vector<float>& input, int32_t rows, int32_t num_out) {
  std::vector<float> output(static_cast<size_t>(rows) * static_cast<size_t>(num_out), -77.0f);
  kernels::LinearParams params;
  params.weight = weight;
  params.input = input.data();
  params.rows = rows;
  params.output = output.data();
  EXPECT_EQ(device.table().linear(device.context(), &params), Status::ok);
  return output;
}

std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

}  // namespace quire::testing
