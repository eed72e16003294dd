#include "core/models/host_experts.h"

#include "core/base/error.h"
#include "core/models/stage_checks.h"

namespace quire {

std::vector<int32_t> layers_with_experts(const ModelSpec& model) {
  std::vector<int32_t> layers;
  for (size_t i = 0; i < model.layers.size(); ++i)
    if (model.layers[i].experts() != nullptr) layers.push_back(gsl::narrow<int32_t>(i));
  return layers;
}

// The block must read and write nothing but the residual stream, which is all that goes to the other device.
std::string host_experts_refusal(const LayerSpec& layer) {
  if (layer.experts() == nullptr) return "it has no experts";
  if (layer.parallel || layer.shares_norm) return "it reads the same rows as attention, which it runs beside";
  if (!std::holds_alternative<std::monostate>(layer.streams))
    return "it reads several residual streams or hyper-connections";
  return {};
}

void require_host_experts(const ModelSpec& model, const std::vector<bool>& on_host, const Device* device,
                          const BuildOptions& options) {
  if (device == nullptr) return;
  if (options.num_shards > 1) {
    throw Error(ErrorCode::unsupported,
                "host_experts: num_shards is {}; experts in host memory need a model without shards",
                options.num_shards)
        .at("host_experts");
  }
  for (size_t i = 0; i < on_host.size(); ++i) {
    if (!on_host[i]) continue;
    if (const std::string reason = host_experts_refusal(model.layers[i]); !reason.empty()) {
      throw Error(ErrorCode::unsupported,
                  "host_experts: the feed-forward block of layer {} cannot lie in host memory: {}", i, reason)
          .at("host_experts");
    }
  }
  require_feed_forward(model, on_host, *device, options.activations);
}

}  // namespace quire
