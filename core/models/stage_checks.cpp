#include "core/models/stage_checks.h"

#include "core/base/error.h"
#include "core/layers/mechanisms.h"

namespace quire {
namespace {

// Returns the bits of kernels::Mechanism that the embedding and the head need.
uint64_t mechanisms_of_ends(const ModelSpec& model) {
  const uint64_t streams = model.num_streams > 1 ? uint64_t{kernels::kMechanismStreams} : 0U;
  return mechanisms(model.head) | mechanisms(model.embedding) | streams;
}

void require_mechanisms(const Device& device, uint64_t needed) {
  const uint64_t lacking = needed & ~device.table().mechanisms;
  if (lacking == 0) return;
  throw Error(ErrorCode::unsupported,
              "the {} backend does not support {}, which this model needs; load it on the CPU",
              device.backend_name(), mechanism_names(lacking));
}

void require_activations(const Device& device, kernels::ActivationDtype activations) {
  using kernels::ActivationDtype;
  const uint64_t needed = kernels::mechanisms_of(activations);
  if ((needed & ~device.table().mechanisms) == 0) return;
  throw Error(ErrorCode::unsupported,
              "activation_dtype: the {} backend does not support {}; use full, or load the model on {}",
              device.backend_name(), mechanism_names(needed),
              activations == ActivationDtype::i8 ? "the CPU" : "a card of compute capability 9.0");
}

// Throws if a layer uses data of an earlier layer on another device.
void require_together(const ModelSpec& model, const PipelineStage& stage) {
  const auto first = static_cast<size_t>(stage.first_layer);
  const auto end = first + static_cast<size_t>(stage.num_layers);
  const bool is_whole =
      static_cast<size_t>(stage.num_layers) == model.layers.size() && !stage.device->is_remote();
  const bool is_tied = model.num_streams > 1 || model.keeps_embedding || model.embedding.layer_inputs;
  for (size_t i = first; i < end; ++i) {
    const bool is_cut = first_source(model.layers[i].mixer, static_cast<int32_t>(i)) < stage.first_layer;
    if (!is_cut && (is_whole || !is_tied)) continue;
    throw Error(
        ErrorCode::unsupported,
        "layer {} uses data of an earlier layer on another device; place the whole model on one device", i);
  }
}

void require_shards(const ModelSpec& model, const PipelineStage& stage, int32_t num_shards) {
  require_num_shards(num_shards);
  if (num_shards > model.hidden_size) {
    throw Error(ErrorCode::invalid_argument,
                "num_shards is {}; it must not exceed the {} columns of the residual stream", num_shards,
                model.hidden_size)
        .at("num_shards");
  }
  if (!stage.device->is_remote()) require_shards_on(*stage.device, num_shards);
}

}  // namespace

void require_num_shards(int32_t num_shards) {
  if (num_shards >= 1 && num_shards <= kMaxShards) return;
  throw Error(ErrorCode::invalid_argument, "num_shards is {}; it must be from 1 to {}", num_shards,
              kMaxShards)
      .at("num_shards");
}

void require_shards_on(const Device& device, int32_t num_shards) {
  if (num_shards == 1 || device.has(kernels::kCapabilityShards)) return;
  throw Error(ErrorCode::unsupported,
              "num_shards is {}; the {} backend does not support shards; use split to place whole layers on "
              "each device",
              num_shards, device.backend_name())
      .at("num_shards");
}

void require_feed_forward(const ModelSpec& model, const std::vector<bool>& layers, const Device& device,
                          kernels::ActivationDtype activations) {
  uint64_t needed = 0;
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i]) needed |= feed_forward_mechanisms(model.layers[i]);
  require_activations(device, activations);
  require_mechanisms(device, needed);
}

void require_same_backend(const Device& first, const Device& other) {
  if (first.shares_backend(other)) return;
  throw Error(ErrorCode::unsupported,
              "num_shards: the shards of a stage are on {} and {}, but they need devices of one backend",
              first.name(), other.name())
      .at("num_shards");
}

void require_stage(const ModelSpec& model, const PipelineStage& stage, const BuildOptions& options) {
  uint64_t needed = mechanisms_of_ends(model);
  for (size_t i = 0; i < static_cast<size_t>(stage.num_layers); ++i)
    needed |= mechanisms(model.layers[static_cast<size_t>(stage.first_layer) + i]);
  require_activations(*stage.device, options.activations);
  require_mechanisms(*stage.device, needed);
  require_shards(model, stage, options.num_shards);
  require_together(model, stage);
}

}  // namespace quire
