#include "core/config/model_spec.h"

#include <array>
#include <string_view>

namespace quire {
namespace {

constexpr std::array<std::string_view, kernels::kNumMechanisms> kNames = {
    "layer norms",
    "norms without weights",
    "norms of query and key heads",
    "norms over all query or key heads",
    "norms after a block",
    "norms within a block",
    "parallel attention and feed-forward",
    "soft caps of attention",
    "attention in chunks",
    "attention sinks",
    "values of other dimensions than keys",
    "keys shared between values or layers",
    "queries scaled by position or clipped",
    "the activation of the feed-forward part",
    "experts",
    "latent attention",
    "a selection of keys",
    "learned positions",
    "a norm of the embedding",
    "several residual streams or embeddings of layers",
    "experts of attention heads",
    "differential attention",
    "a scale at the end of a layer",
    "activations of 8 bits",
    "FP8 activations",
};

uint64_t of_norm(const std::optional<NormPart>& norm, kernels::Mechanism where) {
  return norm ? kernels::mechanisms_of(*norm) | where : 0U;
}

uint64_t of_norm(const NormPart& norm) {
  const bool is_bare = norm.weight.name.empty();
  return kernels::mechanisms_of(norm) | (is_bare ? uint64_t{kernels::kMechanismBareNorm} : 0U);
}

uint64_t of_mlp(const MlpPart& mlp) {
  return kernels::mechanisms_of(mlp) | of_norm(mlp.sub_norm, kernels::kMechanismSubNorm);
}

uint64_t of_feed_forward(const FeedForwardPart& part) {
  uint64_t bits = part.experts ? uint64_t{kernels::kMechanismExperts} : 0U;
  if (part.dense) bits |= of_mlp(*part.dense);
  return bits;
}

uint64_t of_attention(const AttentionPart& part) {
  uint64_t bits = kernels::mechanisms_of(part) | of_norm(part.sub_norm, kernels::kMechanismSubNorm);
  if (part.latent) bits |= kernels::kMechanismLatent;
  if (part.head_experts) bits |= kernels::kMechanismHeadExperts;
  if (part.differential) bits |= kernels::kMechanismDifferential;
  return bits;
}

}  // namespace

uint64_t mechanisms_of(const LayerSpec& layer) {
  uint64_t bits = of_norm(layer.attention_norm) | of_norm(layer.feed_forward_norm) |
                  of_norm(layer.attention_post_norm, kernels::kMechanismPostNorm) |
                  of_norm(layer.feed_forward_post_norm, kernels::kMechanismPostNorm);
  bits |= of_attention(layer.attention()) | of_feed_forward(layer.feed_forward);
  if (layer.parallel) bits |= kernels::kMechanismParallel;
  if (layer.layer_input || layer.laurel || layer.streams) bits |= kernels::kMechanismStreams;
  if (!layer.output_scale.name.empty()) bits |= kernels::kMechanismLayerScale;
  return bits;
}

uint64_t mechanisms_of_ends(const ModelSpec& model) {
  uint64_t bits = of_norm(model.head.norm) | of_norm(model.embedding.norm, kernels::kMechanismEmbeddingNorm);
  if (!model.embedding.positions_key.empty()) bits |= kernels::kMechanismPositions;
  if (model.embedding.layer_inputs || model.num_streams > 1) bits |= kernels::kMechanismStreams;
  return bits;
}

std::string mechanism_names(uint64_t mechanisms) {
  std::string names;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if ((mechanisms >> i & 1) == 0) continue;
    if (!names.empty()) names += ", ";
    names += kNames[i];
  }
  return names;
}

}  // namespace quire
