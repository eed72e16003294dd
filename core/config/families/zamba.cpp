// Zamba2: Mamba 2, and layers in which a block of attention and an MLP precedes it. The blocks are few, and
// layers use them in turn, each with an adapter of its own.
#include <cmath>

#include "core/base/error.h"
#include "core/config/families/mamba.h"

namespace quire::families {
namespace {

constexpr MambaFields kFields = {.num_heads = "n_mamba_heads",
                                 .head_dim = "mamba_headdim",
                                 .num_groups = "mamba_ngroups",
                                 .state_dim = "mamba_d_state",
                                 .num_taps = "mamba_d_conv",
                                 .expand = "mamba_expand",
                                 .projection_bias = "add_bias_linear",
                                 .conv_bias = "use_conv_bias"};

// Returns the kinds of layers of the class: those of the model of 2.7B.
LayerType type_of_layer(const ModelReader&, int32_t layer) {
  const bool has_block = (layer > 0 && layer <= 42 && layer % 6 == 0) || layer == 47 || layer == 51;
  return has_block ? LayerType::full : LayerType::recurrent;
}

Mamba2Part mamba_part(const ModelReader& reader, int32_t layer, const std::string& prefix) {
  Mamba2Part part =
      mamba2_part(reader, layer, prefix, kFields,
                  {.num_heads = 8, .head_dim = 0, .num_groups = 1, .state_dim = 64}, InnerSize::expanded);
  part.gated_norm->epsilon = 1e-5f;  // independent of the epsilon of other norms
  return part;
}

// A use of a block.
struct BlockUse {
  int32_t number = 0;       // counted over all blocks; a part of the name of the adapter
  int32_t first_layer = 0;  // the first layer that uses the block, where files have its tensors
};

int32_t adapter_rank(const ModelReader& reader) {
  return reader.int_or("adapter_rank", 128, 1, 65536);
}

std::vector<LowRankPart> qkv_adapters(const ModelReader& reader, const MatrixParts& qkv,
                                      const BlockUse& use) {
  std::vector<LowRankPart> adapters;
  for (size_t i = 0; i < qkv.size(); ++i) {
    const std::string key =
        fmt::format("shared_transformer.self_attn.linear_{}_adapter_list.{}.", "qkv"[i], use.number);
    const int32_t rank = adapter_rank(reader);
    adapters.push_back({reader.layer_matrix(use.first_layer, key + "0", qkv[i].num_in, rank),
                        reader.layer_matrix(use.first_layer, key + "1", rank, qkv[i].num_out)});
  }
  return adapters;
}

// Attention reads the residual stream and the embedding, side by side.
AttentionPart attention_part(ModelReader& reader, LayerSpec& layer, const BlockUse& use) {
  const int32_t wide = 2 * reader.hidden();
  kernels::HeadShape heads = reader.heads();
  heads.head_dim = wide / heads.num_heads;
  reader.int_or("attention_hidden_size", wide, wide, wide);
  reader.int_or("attention_head_dim", heads.head_dim, heads.head_dim, heads.head_dim);
  reader.set_heads(layer, use.first_layer, heads);
  AttentionPart& part = layer.attention();
  for (MatrixPart& matrix : part.qkv) matrix.num_in = wide;
  if (reader.flag("use_shared_attention_adapter")) part.adapters = qkv_adapters(reader, part.qkv, use);
  part.scale = 1.0f / std::sqrt(static_cast<float>(heads.head_dim) / 2.0f);
  ModelReader::drop_rope(layer);
  if (reader.flag("use_mem_rope")) {
    RopeSpec rope;
    rope.config = read_rope_config(reader.fields(), {10000.0, 1.0, reader.max_positions(), 0});
    reader.set_rope(layer, rope);
  }
  return std::move(part);
}

SharedBlockPart block_part(ModelReader& reader, LayerSpec& layer, int32_t index, const BlockUse& use) {
  const std::string prefix = "shared_transformer.", mlp = prefix + "feed_forward.";
  const std::string adapter = fmt::format("{}gate_up_proj_adapter_list.{}.", mlp, use.number);
  const int32_t width = reader.int_or("intermediate_size", int64_t{4} * reader.hidden(), 1, 1 << 20);
  const int32_t rank = adapter_rank(reader);
  SharedBlockPart part;
  part.norm = reader.norm(reader.key(use.first_layer, prefix + "input_layernorm"), 2 * reader.hidden());
  part.attention = attention_part(reader, layer, use);
  part.feed_forward_norm = reader.layer_norm(use.first_layer, prefix + "pre_ff_layernorm");
  part.mlp = reader.mlp(use.first_layer, {mlp + "gate_up_proj", "", "", mlp + "down_proj"}, width);
  part.adapter = {reader.layer_matrix(use.first_layer, adapter + "0", reader.hidden(), rank),
                  reader.layer_matrix(use.first_layer, adapter + "1", rank, 2 * width)};
  part.linear = reader.layer_matrix(index, "linear", reader.hidden(), reader.hidden());
  part.mamba = mamba_part(reader, index, "mamba_decoder.mamba.");
  return part;
}

void require_supported(const ModelReader& reader) {
  if (reader.flag("use_long_context"))
    throw Error(ErrorCode::unsupported, "{}.use_long_context: true is not supported",
                reader.fields().where());
}

void zamba2(ModelReader& reader) {
  require_supported(reader);
  const auto num_blocks = static_cast<size_t>(reader.int_or("num_mem_blocks", 1, 1, 1024));
  std::vector<int32_t> first_layers;  // of each block
  int32_t num_uses = 0;
  reader.model().ropes.clear();
  reader.model().keeps_embedding = true;
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    reader.drop_feed_forward(layer);
    if (reader.layer_type(i) == LayerType::recurrent) {
      layer.mixer = mamba_part(reader, i, "mamba.");
      return;
    }
    if (first_layers.size() < num_blocks) first_layers.push_back(i);
    const BlockUse use = {num_uses, first_layers[static_cast<size_t>(num_uses) % num_blocks]};
    ++num_uses;
    layer.mixer = block_part(reader, layer, i, use);
    layer.attention_norm = reader.layer_norm(i, "mamba_decoder.input_layernorm");
  });
}

constexpr TensorKeys zamba_keys() {
  TensorKeys keys;
  keys.query = "shared_transformer.self_attn.q_proj";
  keys.key = "shared_transformer.self_attn.k_proj";
  keys.value = "shared_transformer.self_attn.v_proj";
  keys.attention_output = "shared_transformer.self_attn.o_proj";
  keys.final_norm = "model.final_layernorm";
  return keys;
}

}  // namespace

const ArchitectureSpec kZamba2 = {.name = "Zamba2ForCausalLM",
                                  .model_type = "zamba2",
                                  .keys = zamba_keys(),
                                  .has_dense_mlp = false,
                                  .type_of_layer = type_of_layer,
                                  .mlp_bias = by_flag("add_bias_linear"),
                                  .tied_by_default = true,
                                  .default_activation = "gelu",
                                  .default_norm_epsilon = 1e-5,
                                  .default_max_positions = 4096,
                                  .has_head_dim = false,
                                  .refine = zamba2};

}  // namespace quire::families
