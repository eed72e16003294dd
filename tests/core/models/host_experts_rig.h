// A card and the host, for models with host experts.
#pragma once

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/models/host_experts.h"
#include "core/models/model.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/golden_families.h"
#include "tests/support/wrapped_backend.h"

namespace quire::testing {

// The card is the device under test. If that is the CPU, it poses as a card of another backend, so that rows
// go through the functions for cards.
class CardAndHost {
 public:
  explicit CardAndHost(uint64_t card_limit_bytes = 0, uint64_t host_limit_bytes = 0)
      : card_(open_card(card_limit_bytes)), host_(open_host(host_limit_bytes)) {}

  const std::shared_ptr<Device>& card() const { return card_; }
  const std::shared_ptr<Device>& host() const { return host_; }
  WrappedBackend& posing() { return posing_; }

 private:
  std::shared_ptr<Device> open_card(uint64_t limit_bytes) const {
    kernels::DeviceOptions options;
    options.num_threads = 2;
    options.memory_limit_bytes = limit_bytes;
    return open_test_device()->is_host() ? Device::open(posing_.backend(), 0, options)
                                         : open_device_like_test_device(options);
  }
  static std::shared_ptr<Device> open_host(uint64_t limit_bytes) {
    kernels::DeviceOptions options;
    options.num_threads = 2;
    options.memory_limit_bytes = limit_bytes;
    return Device::open(kernels::cpu_backend(), 0, options);
  }

  WrappedBackend posing_{kernels::cpu_backend(), "card"};
  std::shared_ptr<Device> card_;
  std::shared_ptr<Device> host_;
};

// Places all layers on device 0 and the experts of the given layers on device 1.
inline Placement experts_apart(int32_t num_layers, const std::vector<int32_t>& layers) {
  Placement placement = place_on_one_device(num_layers);
  placement.device_of_experts.assign(static_cast<size_t>(num_layers), 0);
  for (const int32_t layer : layers) placement.device_of_experts[static_cast<size_t>(layer)] = 1;
  return placement;
}

inline std::shared_ptr<const Model> load_placed(const std::string& path,
                                                const std::vector<std::shared_ptr<Device>>& devices,
                                                const Placement& placement) {
  ModelOptions options;
  options.source = open_model_source(posix_file_system(), path);
  options.devices = devices;
  options.placement = placement;
  return Model::load(options);
}

// Returns the names of the families with experts.
inline std::vector<std::string> families_with_experts() {
  std::vector<std::string> families;
  for (const std::string& name : golden_families())
    if (golden_family_config(name).find("expert") != std::string::npos) families.push_back(name);
  return families;
}

// Returns the layers with experts that may lie apart; empty if one of them may not.
inline std::vector<int32_t> movable_layers(const std::string& path) {
  const ModelSpec spec = open_model_source(posix_file_system(), path)->config().spec;
  std::vector<int32_t> layers = layers_with_experts(spec);
  for (const int32_t layer : layers)
    if (!host_experts_refusal(spec.layers[static_cast<size_t>(layer)]).empty()) return {};
  return layers;
}

inline std::vector<int32_t> first_half(const std::vector<int32_t>& layers) {
  return {layers.begin(), layers.begin() + static_cast<ptrdiff_t>((layers.size() + 1) / 2)};
}

// Returns ids that depend on the seed alone.
inline TokenIds some_ids(int32_t count, int32_t vocab, uint32_t seed) {
  TokenIds ids;
  for (int32_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    ids.push_back(static_cast<TokenId>((seed >> 8) % static_cast<uint32_t>(vocab)));
  }
  return ids;
}

inline void expect_identical(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

}  // namespace quire::testing
