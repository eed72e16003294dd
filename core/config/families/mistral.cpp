// The Mistral families, including Mixtral (MoE) and Mistral 4, the block of DeepSeek V3 with softmax routing.
#include "core/config/families/deepseek.h"
#include "core/config/families/experts.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

// Mistral's own files have the two elements that rotary embedding turns together side by side in each head.
void pair_rotary(ModelReader& reader) {
  if (!reader.flag("rope_interleave")) return;
  reader.each_layer(
      [](LayerSpec& layer, int32_t) { layer.attention().rope = kernels::RopeStyle::gptj_pairs; });
}

constexpr ArchitectureSpec kMistralRow = {.name = "MistralForCausalLM",
                                          .model_type = "mistral",
                                          .window = WindowRule::every_layer,
                                          .default_max_positions = 131072,
                                          .default_sliding_window = 4096,
                                          .refine = pair_rotary};

constexpr ArchitectureSpec ministral_row() {
  ArchitectureSpec row = renamed(kMistralRow, "MinistralForCausalLM", "ministral");
  row.window = WindowRule::by_layer_type;
  row.window_pattern = 1024;
  return row;
}

// Scales queries by the logarithm of their position in units of the original context.
void scale_queries(ModelReader& reader) {
  pair_rotary(reader);
  const auto settings = reader.fields().find("rope_parameters");
  if (!settings || !settings->is_object()) return;
  const auto beta = settings->find("llama_4_scaling_beta");
  if (!beta) return;
  const auto strength = static_cast<float>(beta->as_number(0.0, 1e3));
  const auto context = settings->at("original_max_position_embeddings").as_int(1, 1 << 30);
  reader.each_layer([&](LayerSpec& layer, int32_t) {
    layer.attention().temperature_beta = strength;
    layer.attention().temperature_floor = static_cast<float>(context);
  });
}

constexpr ArchitectureSpec ministral3_row() {
  ArchitectureSpec row = renamed(kMistralRow, "Ministral3ForCausalLM", "ministral3");
  row.default_sliding_window = 0;
  row.default_norm_epsilon = 1e-5;
  row.default_head_dim = 128;
  row.default_rope_theta = 1000000.0;
  row.refine = scale_queries;
  return row;
}

void mixtral_experts(ModelReader& reader) {
  pair_rotary(reader);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    ExpertsPart experts = routed(reader, i, {"block_sparse_moe.gate", "block_sparse_moe.experts.{}.", true});
    experts.score = kernels::RouterScore::softmax;
    experts.normalised = true;
    ModelReader::set_experts(layer, std::move(experts));
  });
}

constexpr ArchitectureSpec mixtral_row() {
  ArchitectureSpec row = renamed(kMistralRow, "MixtralForCausalLM", "mixtral");
  row.default_norm_epsilon = 1e-5;
  row.default_sliding_window = 0;
  row.default_rope_theta = 1000000.0;
  row.refine = mixtral_experts;
  return row;
}

void mistral4(ModelReader& reader) {
  make_latent(reader, {.query_rank = 1024, .rank = 256, .rest = 64, .rotary = 64, .value = 128});
  scale_queries(reader);
  const bool stacked = reader.flag("stacked_experts", true);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    if (!is_sparse_layer(reader, i)) return;
    ExpertsPart experts = deepseek_experts(reader, i);
    experts.score = kernels::RouterScore::softmax;
    experts.choice_bias = {};
    if (stacked) {
      experts.expert = stacked_expert(reader, i, {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"},
                                      experts.num_experts, expert_width(reader));
    }
    ModelReader::set_experts(layer, std::move(experts));
  });
}

}  // namespace

const ArchitectureSpec kMistral = kMistralRow;
const ArchitectureSpec kMinistral = ministral_row();
const ArchitectureSpec kMinistral3 = ministral3_row();
const ArchitectureSpec kMixtral = mixtral_row();

const ArchitectureSpec kMistral4 = {.name = "Mistral4ForCausalLM",
                                    .model_type = "mistral4",
                                    .rope_style = kernels::RopeStyle::gptj_pairs,
                                    .default_max_positions = 1048576,
                                    .refine = mistral4};

}  // namespace quire::families
