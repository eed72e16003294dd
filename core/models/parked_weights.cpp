#include "core/models/parked_weights.h"

#include "core/base/error.h"

namespace quire {

namespace {

bool parks(const Device& device) {
  return device.has(kernels::kCapabilityParkedWeights);
}

}  // namespace

bool can_offload(const Transformer& transformer) {
  bool any_can = false, all_can = true;
  transformer.each_weight([&](const Device& device, const PreparedWeight&) {
    any_can = any_can || parks(device);
    all_can = all_can && (parks(device) || device.is_host());
  });
  return any_can && all_can;
}

void copy_weights(const Transformer& transformer, OffloadedBytes& bytes) {
  transformer.each_weight([&](const Device& device, const PreparedWeight& weight) {
    bytes.emplace(&device, 0);
    if (parks(device)) weight.copy(device);
  });
}

void offload_weights(const Transformer& transformer, OffloadedBytes& bytes) noexcept {
  for (auto& [device, parked] : bytes) parked = 0;
  transformer.each_weight([&](const Device& device, const PreparedWeight& weight) {
    if (parks(device)) bytes.at(&device) += weight.park(device);
  });
}

void reload_weights(const Transformer& transformer, const std::atomic<bool>& stop) {
  try {
    transformer.each_weight([&](const Device& device, const PreparedWeight& weight) {
      if (stop) throw Error(ErrorCode::cancelled, "the load was cancelled");
      if (parks(device)) weight.bring(device);
    });
  } catch (...) {
    transformer.each_weight([](const Device& device, const PreparedWeight& weight) {
      if (parks(device)) weight.park(device);
    });
    throw;
  }
}

}  // namespace quire
