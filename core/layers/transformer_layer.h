// One layer: a mixer, which lets tokens see each other, then a feed-forward part, and what some families have
// around the two.
#pragma once

#include <optional>
#include <variant>

#include "core/layers/attention.h"
#include "core/layers/laurel.h"
#include "core/layers/layer_input.h"
#include "core/layers/mlp_and_experts.h"
#include "core/layers/streams.h"

namespace quire {

// The layers of MixerSpec and FeedForwardSpec, in the order of their alternatives.
using Mixer = std::variant<AttentionLayer>;
using FeedForward = std::variant<MlpLayer, ExpertsLayer, MlpAndExpertsLayer>;

struct TransformerLayer {
  NormLayer mixer_norm;
  std::optional<NormLayer> mixer_post_norm;
  Mixer mixer;
  NormLayer feed_forward_norm;
  std::optional<NormLayer> feed_forward_post_norm;
  FeedForward feed_forward;
  bool parallel = false;     // both blocks read the input of the layer
  bool shares_norm = false;  // and the norm of the mixer serves both
  std::optional<StreamsLayer> streams;
  std::optional<LaurelLayer> laurel;
  std::optional<LayerInputLayer> layer_input;
  float output_scale = 1.0f;

  // Takes a break before each of its blocks.
  static constexpr int32_t kNumBreaks = 2;
  void forward(const ForwardPass& pass, const LayerCache& cache) const;

  // Bytes of the weights.
  uint64_t bytes() const;
  // Bytes of weights that a step of so many tokens reads; see Transformer::step_bytes.
  uint64_t step_bytes(int32_t num_tokens) const;
  // Multiplications of the matrices for one token.
  int64_t token_products() const;
  // Device memory that the weights take: the matrices were prepared together.
  uint64_t taken_bytes(const Device& device) const;

 private:
  struct Inputs {
    const void* of_mixer = nullptr;
    const void* of_feed_forward = nullptr;
  };
  Inputs normalise_input(const ForwardPass& pass) const;
};

void build(const LayerSpec& spec, int32_t layer_idx, LayerBuilder& builder, TransformerLayer& layer);
// Layers that share pages are cut alike: `cuts_heads` is decided for all of them.
void cut(LayerSpec& spec, bool cuts_heads, ShardCut& shard);
void needs(const LayerSpec& spec, Needs& all);
void each_weight(const TransformerLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const LayerSpec& spec);

// The functions of attention.h about pages and heads, for any mixer.
bool can_cut_heads(const MixerSpec& mixer, const ShardCut& shard);
int32_t source_of_pages(const MixerSpec& mixer);
int32_t first_source(const MixerSpec& mixer, int32_t layer);

}  // namespace quire
