#include "core/models/parked_weights.h"

#include "core/base/error.h"

namespace quire {

bool can_offload(const Transformer& transformer) {
  bool all_can = true;
  transformer.each_weight([&](const Device& device, const PreparedWeight&) {
    all_can = all_can && device.has(kernels::kCapabilityParkedWeights);
  });
  return all_can;
}

void copy_weights(const Transformer& transformer, OffloadedBytes& bytes) {
  transformer.each_weight([&](const Device& device, const PreparedWeight& weight) {
    bytes.emplace(&device, 0);
    weight.copy(device);
  });
}

void offload_weights(const Transformer& transformer, OffloadedBytes& bytes) noexcept {
  for (auto& [device, parked] : bytes) parked = 0;
  transformer.each_weight(
      [&](const Device& device, const PreparedWeight& weight) { bytes.at(&device) += weight.park(device); });
}

void reload_weights(const Transformer& transformer, const std::atomic<bool>& stop) {
  try {
    transformer.each_weight([&](const Device& device, const PreparedWeight& weight) {
      if (stop) throw Error(ErrorCode::cancelled, "the load was cancelled");
      weight.bring(device);
    });
  } catch (...) {
    transformer.each_weight([](const Device& device, const PreparedWeight& weight) { weight.park(device); });
    throw;
  }
}

}  // namespace quire
