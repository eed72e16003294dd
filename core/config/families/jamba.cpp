// Jamba: Mamba 1, with attention without RoPE and experts at regular intervals.
#include "core/base/error.h"
#include "core/config/families/experts.h"
#include "core/config/families/mamba.h"

namespace quire::families {
namespace {

// Names and defaults of the fields that give every n-th layer.
struct Interval {
  std::string_view period;
  std::string_view offset;
  int32_t default_period;
  int32_t default_offset;
};
constexpr Interval kAttention = {"attn_layer_period", "attn_layer_offset", 8, 4};
constexpr Interval kExperts = {"expert_layer_period", "expert_layer_offset", 2, 1};

bool has_layer(const ModelReader& reader, const Interval& interval, int32_t layer) {
  const int32_t period = reader.int_or(interval.period, interval.default_period, 1, 1024);
  return layer % period == reader.int_or(interval.offset, interval.default_offset, 0, period - 1);
}

LayerType type_of_layer(const ModelReader& reader, int32_t layer) {
  return has_layer(reader, kAttention, layer) ? LayerType::full : LayerType::recurrent;
}

void jamba(ModelReader& reader) {
  reader.drop_ropes();
  reader.each_recurrent([&](LayerSpec& layer, int32_t i) {
    layer.mixer = mamba1_part(reader, i, "mamba.", {}, "mamba_dt_rank", SelectionNorms::weighted);
  });
  if (reader.int_or("num_experts", 16, 1, kernels::kMaxExperts) == 1) return;
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (!has_layer(reader, kExperts, i)) return;
    ModelReader::set_experts(layer, routed(reader, i, {"feed_forward.router", "feed_forward.experts.{}."}));
  });
}

}  // namespace

const ArchitectureSpec kJamba = {.name = "JambaForCausalLM",
                                 .model_type = "jamba",
                                 .keys = keys_beside_mamba(),
                                 .type_of_layer = type_of_layer,
                                 .default_max_positions = 262144,
                                 .refine = jamba};

}  // namespace quire::families
