// Granite: multipliers for the embedding, the attention scores, the block outputs and the logits. HyperCLOVA
// X has them too.
#include <cmath>

#include "core/base/error.h"
#include "core/config/families/experts.h"
#include "core/config/families/mamba.h"

namespace quire::families {
namespace {

void multiply_by(ModelReader& reader, double default_attention) {
  reader.model().embedding.scale = reader.number_or("embedding_multiplier", 1.0, 1e-9, 1e9);
  reader.model().head.scale = 1.0f / reader.number_or("logits_scaling", 1.0, 1e-9, 1e9);
  const float scale = reader.number_or("attention_multiplier", default_attention, 1e-9, 1e9);
  reader.each_attention([&](LayerSpec& layer, int32_t) { layer.attention().scale = scale; });
  reader.scale_blocks(reader.number_or("residual_multiplier", 1.0, 1e-9, 1e9));
}

void multiply(ModelReader& reader) {
  multiply_by(reader, 1.0);
}

// Returns whether experts are stacked, and gate and up of a shared MLP are one matrix. GGUF files have a
// matrix for each.
bool is_stacked(const ModelReader& reader) {
  return reader.flag("stacked_experts", true);
}

void add_experts(ModelReader& reader, const std::string& router, const StackKeys& keys) {
  const bool stacked = is_stacked(reader);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    ExpertsPart experts =
        routed(reader, i, {router, stacked ? "block_sparse_moe." : "block_sparse_moe.experts.{}."});
    experts.score = kernels::RouterScore::softmax_of_chosen;
    if (stacked) experts.expert = stacked_expert(reader, i, keys, experts.num_experts, reader.intermediate());
    ModelReader::set_experts(layer, std::move(experts));
  });
}

void add_stacks(ModelReader& reader) {
  add_experts(reader, "block_sparse_moe.router.layer",
              {"block_sparse_moe.input_linear", "block_sparse_moe.output_linear"});
}

// Returns the MLP that processes every token.
MlpPart shared_mlp(const ModelReader& reader, int32_t layer, int32_t width) {
  if (!is_stacked(reader)) {
    const MlpKeys apart = {"", "shared_mlp.gate_proj", "shared_mlp.up_proj", "shared_mlp.output_linear"};
    return reader.mlp(layer, apart, width);
  }
  return reader.mlp(layer, {"shared_mlp.input_linear", "", "", "shared_mlp.output_linear"}, width);
}

// Adds that MLP beside the experts.
void add_shared_mlp(ModelReader& reader, int32_t default_width) {
  const int32_t width = reader.int_or("shared_intermediate_size", default_width, 0, 1 << 19);
  if (width == 0) return;
  reader.each_layer(
      [&](LayerSpec& layer, int32_t i) { layer.experts()->shared = shared_mlp(reader, i, width); });
}

void granite_moe(ModelReader& reader) {
  add_stacks(reader);
  multiply(reader);
}

void granite_moe_shared(ModelReader& reader) {
  add_stacks(reader);
  add_shared_mlp(reader, 0);
  multiply(reader);
}

// Adds attention sinks, and sets the bases of RoPE by layer.
void add_sinks(ModelReader& reader) {
  if (const auto bases = reader.layer_reals("layer_rope_theta", 0.0, 1e12); !bases.empty())
    reader.set_bases(bases);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    AttentionPart& attention = layer.attention();
    attention.has_sinks = true;
    attention.sinks = {reader.key(i, "self_attn.sinks"), attention.heads.num_heads};
  });
}

void granite_swa(ModelReader& reader) {
  add_sinks(reader);
  multiply(reader);
}

void granite_moe_swa(ModelReader& reader) {
  add_sinks(reader);
  add_experts(reader, "block_sparse_moe.router",
              {"block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.experts.down_proj"});
  add_shared_mlp(reader, 0);
  multiply(reader);
}

// Attention has no RoPE unless position_embedding_type asks for it. Without experts the shared MLP is alone.
void granite_moe_hybrid(ModelReader& reader) {
  const std::string positions = reader.fields().string_or({"position_embedding_type"}, "nope");
  if (positions != "rope" && positions != "nope") {
    throw Error(ErrorCode::unsupported,
                "{}.position_embedding_type: \"{}\" is not supported; supported are rope and nope",
                reader.fields().where(), printable(positions, 32));
  }
  if (positions == "nope") reader.drop_ropes();
  reader.each_recurrent([&](LayerSpec& layer, int32_t i) {
    layer.mixer = mamba2_part(reader, i, "mamba.", {}, {.head_dim = 0}, InnerSize::expanded);
  });
  constexpr int32_t kSharedWidth = 1024;
  if (reader.int_or("num_local_experts", 8, 0, kernels::kMaxExperts) > 0) {
    add_stacks(reader);
    add_shared_mlp(reader, kSharedWidth);
  } else {
    const int32_t width = reader.int_or("shared_intermediate_size", kSharedWidth, 1, 1 << 19);
    reader.each_layer(
        [&](LayerSpec& layer, int32_t i) { layer.feed_forward = shared_mlp(reader, i, width); });
  }
  multiply(reader);
}

LayerType recurrent(const ModelReader&, int32_t) {
  return LayerType::recurrent;
}

// HyperCLOVA X has norms after the blocks too, and multiplies the logits by logits_scaling instead of
// dividing them.
void hyper_clova_x(ModelReader& reader) {
  if (reader.flag("use_post_norm", true)) {
    reader.each_layer([&](LayerSpec& layer, int32_t i) {
      layer.attention_post_norm = reader.layer_norm(i, "post_norm1");
      layer.feed_forward_post_norm = reader.layer_norm(i, "post_norm2");
    });
  }
  multiply_by(reader, 1.0 / std::sqrt(reader.heads().head_dim));
  reader.model().head.scale = 1.0f / reader.model().head.scale;
}

constexpr ArchitectureSpec kGraniteRow = {.name = "GraniteForCausalLM",
                                          .model_type = "granite",
                                          .qkv_bias = by_flag("attention_bias"),
                                          .attention_output_bias = by_flag("attention_bias"),
                                          .mlp_bias = by_flag("mlp_bias"),
                                          .refine = multiply};

constexpr ArchitectureSpec granite_moe_row() {
  ArchitectureSpec row = renamed(kGraniteRow, "GraniteMoeForCausalLM", "granitemoe");
  row.mlp_bias = kNever;
  row.refine = granite_moe;
  return row;
}

constexpr ArchitectureSpec granite_moe_shared_row() {
  ArchitectureSpec row = renamed(granite_moe_row(), "GraniteMoeSharedForCausalLM", "granitemoeshared");
  row.refine = granite_moe_shared;
  return row;
}

constexpr ArchitectureSpec granite_moe_hybrid_row() {
  ArchitectureSpec row = renamed(granite_moe_row(), "GraniteMoeHybridForCausalLM", "granitemoehybrid");
  row.type_of_layer = recurrent;
  row.refine = granite_moe_hybrid;
  return row;
}

constexpr ArchitectureSpec with_windows(ArchitectureSpec row) {
  row.window = WindowRule::by_layer_type_from_first;
  row.window_pattern = 4;
  row.default_sliding_window = 128;
  return row;
}

constexpr ArchitectureSpec granite_swa_row() {
  ArchitectureSpec row = renamed(with_windows(kGraniteRow), "GraniteSWAForCausalLM", "granite_swa");
  row.tied_by_default = true;
  row.default_norm_epsilon = 1e-5;
  row.default_max_positions = 8192;
  row.refine = granite_swa;
  return row;
}

constexpr ArchitectureSpec granite_moe_swa_row() {
  ArchitectureSpec row =
      renamed(with_windows(granite_moe_row()), "GraniteMoeSWAForCausalLM", "granitemoe_swa");
  row.refine = granite_moe_swa;
  return row;
}

constexpr ArchitectureSpec hyper_clova_x_row() {
  ArchitectureSpec row = renamed(kGraniteRow, "HyperCLOVAXForCausalLM", "hyperclovax");
  row.refine = hyper_clova_x;
  return row;
}

}  // namespace

const ArchitectureSpec kGranite = kGraniteRow;
const ArchitectureSpec kGraniteMoe = granite_moe_row();
const ArchitectureSpec kGraniteMoeShared = granite_moe_shared_row();
const ArchitectureSpec kGraniteMoeHybrid = granite_moe_hybrid_row();
const ArchitectureSpec kGraniteSwa = granite_swa_row();
const ArchitectureSpec kGraniteMoeSwa = granite_moe_swa_row();
const ArchitectureSpec kHyperClovaX = hyper_clova_x_row();

}  // namespace quire::families
