// Mamba-2 as the mixer of a layer, alone or beside attention.
#pragma once

#include "core/layers/attention.h"
#include "core/layers/state_mixer.h"

namespace quire {

struct Mamba2Layer : kernels::StateSpaceSpec {
  PreparedWeight in;  // z, x, B, C, dt
  ConvLayer conv;     // of x, B, C
  DeviceBuffer a_log;
  DeviceBuffer dt_bias;
  DeviceBuffer skip;
  DeviceBuffer norm_weight;
  ResultLayer out;

  void forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const;
};

void build(const Mamba2Part& part, LayerBuilder& builder, Mamba2Layer& layer);
void needs(const Mamba2Part& part, Needs& all);
void each_weight(const Mamba2Layer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const Mamba2Part& part);

// Both read the same rows, and both results are added to the residual stream.
struct AttentionAndMambaLayer {
  AttentionLayer attention;
  Mamba2Layer mamba;

  void forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const;
};

void build(const AttentionAndMambaPart& part, LayerBuilder& builder, AttentionAndMambaLayer& layer);
void cut(AttentionAndMambaPart& part, bool cuts_heads, ShardCut& shard);
void needs(const AttentionAndMambaPart& part, Needs& all);
void each_weight(const AttentionAndMambaLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const AttentionAndMambaPart& part);
bool can_cut_heads(const AttentionAndMambaPart& part, const ShardCut& shard);
int32_t source_of_pages(const AttentionAndMambaPart& part);
int32_t first_source(const AttentionAndMambaPart& part, int32_t layer);

}  // namespace quire
