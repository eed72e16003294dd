// Mixers that are read from config.json but have no layer yet. A model that has one is refused by name when
// its source is opened (require_built_mixers), so none of the functions below is reached. To add the layer of
// a mixer: write its file, remove the part from UnbuiltPart, and replace its alternative of Mixer in
// transformer_layer.h.
#pragma once

#include <concepts>

#include "core/config/model_config.h"
#include "core/layers/block.h"
#include "core/layers/needs.h"
#include "core/layers/shard_cut.h"

namespace quire {

class LayerBuilder;

template <typename Part, typename... Parts>
concept OneOf = (std::same_as<Part, Parts> || ...);
template <typename Part>
concept UnbuiltPart =
    OneOf<Part, DeltaPart, Mamba2Part, Mamba1Part, LightningPart, ShortConvPart, AttentionAndMambaPart>;

// Throws ErrorCode::unsupported, naming the mixer, if a layer of the model has one of these. `path` is the
// model's source.
void require_built_mixers(const ModelConfig& config, const std::string& path);

[[noreturn]] void refuse_unbuilt();

template <UnbuiltPart Part>
struct UnbuiltLayer {
  void forward(const ForwardPass&, const LayerCache&, const Block&) const { refuse_unbuilt(); }
};

template <UnbuiltPart Part>
void build(const Part&, LayerBuilder&, UnbuiltLayer<Part>&) {
  refuse_unbuilt();
}
template <UnbuiltPart Part>
void cut(Part&, bool, ShardCut&) {
  refuse_unbuilt();
}
template <UnbuiltPart Part>
void needs(const Part&, Needs&) {
  refuse_unbuilt();
}
template <UnbuiltPart Part>
void each_weight(const UnbuiltLayer<Part>&, WeightVisitor&) {
  refuse_unbuilt();
}
template <UnbuiltPart Part>
uint64_t mechanisms(const Part&) {
  refuse_unbuilt();
}
template <UnbuiltPart Part>
bool can_cut_heads(const Part&, const ShardCut&) {
  refuse_unbuilt();
}
template <UnbuiltPart Part>
int32_t source_of_pages(const Part&) {
  refuse_unbuilt();
}
template <UnbuiltPart Part>
int32_t first_source(const Part&, int32_t) {
  refuse_unbuilt();
}

}  // namespace quire
