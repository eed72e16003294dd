#include "core/layers/rotary.h"

#include "core/layers/layer_builder.h"

namespace quire {

void build(const RopeSpec& part, const LayerBuilder& builder, RotaryLayer& layer) {
  const auto frequencies = [&](bool is_short) {
    std::vector<float> values = inverse_frequencies(part.config, part.rotary_dim, is_short);
    if (part.reversed) {
      for (float& value : values) value = -value;
    }
    return builder.floats(values, "rotary frequencies");
  };
  layer.rotary_dim = part.rotary_dim;
  layer.inv_freq = frequencies(false);
  layer.magnitude = static_cast<float>(part.config.magnitude);
  if (part.config.kind != RopeKind::longrope) return;
  layer.short_inv_freq = frequencies(true);
  layer.short_magnitude = static_cast<float>(part.config.short_magnitude);
  layer.short_context = part.config.original_max_positions;
}

void each_weight(const RotaryLayer& layer, WeightVisitor& visitor) {
  visitor.vector(layer.inv_freq);
  visitor.vector(layer.short_inv_freq);
}

void RotaryLayer::forward(const ForwardPass& pass, const RopeTables& tables) const {
  const bool is_short = short_inv_freq.bytes() != 0 && pass.max_seq_len <= short_context;
  kernels::RopeAnglesParams params;
  params.inv_freq = (is_short ? short_inv_freq : inv_freq).as<float>();
  params.rotary_dim = rotary_dim;
  params.magnitude = is_short ? short_magnitude : magnitude;
  params.positions = pass.batch.positions;
  params.num_tokens = pass.batch.num_tokens;
  params.cos = tables.cos;
  params.sin = tables.sin;
  pass.context.check(pass.context.table().rope_angles(pass.context.handle(), &params), "rotary angles");
}

}  // namespace quire
