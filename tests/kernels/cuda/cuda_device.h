// Opens the CUDA plug-in as the engine does; helpers for its tests. Without a card tests are skipped.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/interface/half.h"
#include "kernels/interface/kernel_table.h"
#include "tests/support/print_status.h"

namespace quire::kernels {

// Returns the backend. The plug-in stays loaded for the whole process: its kernels must outlive every device.
inline const Backend* cuda_backend() {
  static const Backend* backend = [] {
    void* library = dlopen(QUIRE_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return static_cast<const Backend*>(nullptr);
    const auto entry = reinterpret_cast<BackendEntry>(dlsym(library, "quire_backend_entry"));
    return entry == nullptr ? nullptr : entry(kBackendAbi);
  }();
  return backend;
}

// Returns the number of copies in flight to the emulated card; nullopt on a real card, which does not report
// it.
inline std::optional<int64_t> num_copies_in_flight() {
  void* library = dlopen(QUIRE_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  const auto count = reinterpret_cast<int64_t (*)()>(dlsym(library, "quire_emulated_late_copies"));
  if (count == nullptr) return std::nullopt;
  return count();
}

struct TestContext {
  Device* device = nullptr;
  Context* context = nullptr;
  const KernelTable* table = nullptr;
};

// A deterministic device with a context of small_limits.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    open(true);
    if (device_ != nullptr) make_context(small_limits());
  }
  void TearDown() override { close(); }

  void open(bool deterministic) {
    const Backend* backend = cuda_backend();
    ASSERT_NE(backend, nullptr) << dlerror();
    char why[512] = {};
    if (backend->num_devices(why, sizeof(why)) == 0) GTEST_SKIP() << why;
    DeviceOptions options;
    options.deterministic = deterministic ? 1 : 0;
    ASSERT_EQ(backend->open_device(0, &options, &device_), Status::ok);
    table_ = backend->table(device_);
  }
  void close() {
    if (device_ == nullptr) return;
    if (context_ != nullptr) table_->release_context(context_);
    for (void* memory : memory_) table_->release(device_, memory);
    for (Weight* weight : weights_) table_->release_weight(device_, weight);
    cuda_backend()->close_device(device_);
    context_ = nullptr;
    device_ = nullptr;
    memory_.clear();
    weights_.clear();
  }
  void make_context(ContextLimits limits) {
    ASSERT_EQ(table_->create_context(device_, &limits, &context_), Status::ok);
  }
  static ContextLimits small_limits() {
    ContextLimits limits;
    limits.max_tokens = 512;
    limits.max_sequences = 32;
    limits.max_logit_rows = 64;
    limits.max_sample_edits = 64;
    limits.max_pages_per_sequence = 64;
    limits.max_columns = 8192;
    limits.vocab_size = 8192;
    limits.num_heads = 32;
    limits.head_dim = 256;
    return limits;
  }
  template <typename T>
  T* to_device(const std::vector<T>& values) {
    void* memory = nullptr;
    EXPECT_EQ(table_->allocate(device_, values.size() * sizeof(T), &memory), Status::ok);
    memory_.push_back(memory);
    EXPECT_EQ(table_->upload(device_, memory, values.data(), values.size() * sizeof(T)), Status::ok);
    return static_cast<T*>(memory);
  }
  // Allocates memory filled with a value that no correct result contains.
  template <typename T>
  T* poisoned(size_t count) {
    void* memory = nullptr;
    EXPECT_EQ(table_->allocate(device_, count * sizeof(T), &memory), Status::ok);
    memory_.push_back(memory);
    EXPECT_EQ(table_->fill(device_, memory, 0xff, count * sizeof(T)), Status::ok);
    return static_cast<T*>(memory);
  }
  template <typename T>
  std::vector<T> from_device(const T* memory, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(table_->synchronize(context_), Status::ok);
    EXPECT_EQ(table_->download(device_, values.data(), memory, count * sizeof(T)), Status::ok);
    return values;
  }
  Weight* prepare(const std::vector<WeightSource>& parts) {
    Weight* weight = nullptr;
    EXPECT_EQ(prepare_weight(*table_, device_, parts.data(), static_cast<int32_t>(parts.size()), &weight),
              Status::ok);
    weights_.push_back(weight);
    return weight;
  }

  // Prepares a matrix in a memory block large enough to be offloaded.
  Weight* prepare_large(const std::vector<WeightSource>& parts) {
    constexpr int32_t kRows = 64, kColumns = 16384;
    const std::vector<uint16_t> values(size_t{kRows} * kColumns, 0x3c00);
    WeightSource beside;
    beside.format = WeightFormat::dense;
    beside.num_in = kRows;
    beside.num_out = beside.padded_out = kColumns;
    beside.dense.data = values.data();
    beside.dense.dtype = DType::f16;
    const MatrixSource sources[] = {{parts.data(), static_cast<int32_t>(parts.size())}, {&beside, 1}};
    Weight* weights[2] = {};
    EXPECT_EQ(table_->prepare_weights(device_, sources, 2, weights), Status::ok);
    weights_.insert(weights_.end(), weights, weights + 2);
    return weights[0];
  }
  // Offloads all prepared weights. Returns the bytes freed on the card, and checks them with memory_use.
  uint64_t offload_all() {
    MemoryUse before, after;
    table_->memory_use(device_, &before);
    uint64_t parked = 0;
    for (const Weight* weight : weights_) EXPECT_EQ(table_->copy_weight(device_, weight), Status::ok);
    for (const Weight* weight : weights_) parked += table_->park_weight(device_, weight);
    table_->memory_use(device_, &after);
    EXPECT_EQ(before.held_bytes - after.held_bytes, parked);
    return parked;
  }
  void restore_all() {
    for (const Weight* weight : weights_) EXPECT_EQ(table_->bring_weight(device_, weight), Status::ok);
  }
  bool parks() const { return (table_->capabilities & kCapabilityParkedWeights) != 0; }

  Device* device_ = nullptr;
  Context* context_ = nullptr;
  const KernelTable* table_ = nullptr;
  std::vector<void*> memory_;
  std::vector<Weight*> weights_;
};

inline std::vector<float> random_floats(size_t count, std::mt19937& random, float deviation = 1.0f) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

inline std::vector<uint16_t> to_halves(const std::vector<float>& values) {
  std::vector<uint16_t> halves(values.size());
  for (size_t i = 0; i < values.size(); ++i) halves[i] = float_to_half(values[i]);
  return halves;
}

inline std::vector<float> to_floats(const std::vector<uint16_t>& halves) {
  std::vector<float> values(halves.size());
  for (size_t i = 0; i < halves.size(); ++i) values[i] = half_to_float(halves[i]);
  return values;
}

// Returns |a - b| / |b|; no comparison with NaN passes.
template <typename A, typename B>
double relative_error(const std::vector<A>& a, const std::vector<B>& b) {
  double difference = 0.0, size = 0.0;
  if (a.size() != b.size()) return INFINITY;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference / (size > 0.0 ? size : 1.0));
}

}  // namespace quire::kernels
