// One transformer layer: a mixer, which combines tokens, then a feed-forward part, and the optional parts
// that some families have around the two.
#pragma once

#include <optional>
#include <variant>

#include "core/layers/attention.h"
#include "core/layers/connection.h"
#include "core/layers/delta_rule.h"
#include "core/layers/empty.h"
#include "core/layers/laurel.h"
#include "core/layers/layer_input.h"
#include "core/layers/lightning.h"
#include "core/layers/mamba1.h"
#include "core/layers/mamba2.h"
#include "core/layers/mlp_and_experts.h"
#include "core/layers/pair_attention.h"
#include "core/layers/rg_lru.h"
#include "core/layers/shared_block.h"
#include "core/layers/short_conv.h"
#include "core/layers/streams.h"

namespace quire {

// Layers of MixerSpec and FeedForwardSpec, in the order of their alternatives.
using Mixer =
    std::variant<AttentionLayer, EmptyLayer, DeltaLayer, Mamba2Layer, Mamba1Layer, LightningLayer,
                 ShortConvLayer, AttentionAndMambaLayer, RgLruLayer, SharedBlockLayer, PairAttentionLayer>;
using FeedForward = std::variant<MlpLayer, ExpertsLayer, MlpAndExpertsLayer, EmptyLayer>;

// A feed-forward part with its norms.
struct FeedForwardBlock {
  NormLayer norm;
  std::optional<NormLayer> post_norm;
  FeedForward part;
  bool on_host = false;  // host experts: it is on the device of ForwardPass::at_experts
};

struct TransformerLayer {
  NormLayer mixer_norm;
  std::optional<NormLayer> mixer_post_norm;
  Mixer mixer;
  FeedForwardBlock feed_forward;
  bool parallel = false;     // both blocks read the input of the layer
  bool shares_norm = false;  // both blocks use the norm of the mixer
  std::variant<std::monostate, StreamsLayer, ConnectionsLayer> streams;
  std::optional<LaurelLayer> laurel;
  std::optional<LayerInputLayer> layer_input;
  float output_scale = 1.0f;

  // Number of breaks in `forward`, one before each block. The step may be paused or aborted there.
  static constexpr int32_t kNumBreaks = 2;
  void forward(const ForwardPass& pass, const LayerCache& cache) const;

  // Returns the bytes of the weights.
  uint64_t bytes() const;
  // Return the bytes of weights that a step of `num_tokens` tokens reads, see Transformer::step_bytes: of all
  // weights, and of those on the device of the host experts.
  uint64_t step_bytes(int32_t num_tokens) const;
  uint64_t host_step_bytes(int32_t num_tokens) const;
  // Returns the number of multiplications of all matrices for one token.
  int64_t token_products() const;
  // Return the device memory of the weights, on the device of the layer and on that of the host experts. The
  // matrices of a device share one allocation.
  uint64_t taken_bytes(const Device& device) const;
  uint64_t host_taken_bytes(const Device& device) const;

 private:
  struct Inputs {
    const void* of_mixer = nullptr;
    const void* of_feed_forward = nullptr;
  };
  Inputs normalise_input(const ForwardPass& pass) const;
  // Adds the result of the feed-forward part to the residual stream. `input`: see Block.
  void run_feed_forward(const ForwardPass& pass, const void* input) const;
  // Does the same on the device of the host experts. The residual stream goes there and comes back.
  void run_host_experts(const ForwardPass& pass) const;
  // Replaces the residual stream by `norm` of it, times the norm's stream_scale. Returns the normalised rows,
  // without the factor, in the activation dtype.
  static const void* normalise_residual(const ForwardPass& pass, const NormLayer& norm);
};

// Returns the experts of a layer; nullptr if it has none.
const ExpertsLayer* experts_of(const TransformerLayer& layer);
// Return the experts if they lie on the host in a form that a card can multiply; otherwise nullptr.
const ExpertsLayer* packed_experts_of(const TransformerLayer& layer);
ExpertsLayer* packed_experts_of(TransformerLayer& layer);
// Builds a layer. `of_feed_forward` builds the feed-forward block and its norms; it is `builder` itself
// unless they are host experts.
void build(const LayerSpec& spec, int32_t layer_idx, LayerBuilder& builder, LayerBuilder& of_feed_forward,
           TransformerLayer& layer);
// Cuts a layer for one shard. Layers that share pages must be cut alike, so the caller decides `cuts_heads`
// for all of them together.
void cut(LayerSpec& spec, bool cuts_heads, ShardCut& shard);
// `with_feed_forward`: false if the layer has host experts, whose memory needs_feed_forward requires.
void needs(const LayerSpec& spec, Needs& all, bool with_feed_forward = true);
void needs_feed_forward(const LayerSpec& spec, Needs& all);
// Visits all weights: those on the device of the layer, then those of the host experts.
void each_weight(const TransformerLayer& layer, WeightVisitor& visitor);
void each_weight_here(const TransformerLayer& layer, WeightVisitor& visitor);
void each_host_weight(const TransformerLayer& layer, WeightVisitor& visitor);
// Return the bits of kernels::Mechanism that the layer and its feed-forward block need.
uint64_t mechanisms(const LayerSpec& spec);
uint64_t feed_forward_mechanisms(const LayerSpec& spec);

// Like the functions of the same names in attention.h, but for any mixer.
bool can_cut_heads(const MixerSpec& mixer, const ShardCut& shard);
int32_t source_of_pages(const MixerSpec& mixer);
int32_t first_source(const MixerSpec& mixer, int32_t layer);

}  // namespace quire
