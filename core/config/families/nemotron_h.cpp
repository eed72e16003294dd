// Nemotron-H and Nemotron 3: each layer is one block, of Mamba 2, attention without RoPE, an MLP or experts.
#include "core/config/families/experts.h"
#include "core/config/families/mamba.h"

namespace quire::families {
namespace {

constexpr MambaFields kFields = {.num_heads = "mamba_num_heads",
                                 .head_dim = "mamba_head_dim",
                                 .num_groups = "n_groups",
                                 .state_dim = "ssm_state_size",
                                 .num_taps = "conv_kernel",
                                 .expand = "expand",
                                 .projection_bias = "use_bias",
                                 .conv_bias = "use_conv_bias"};

// The MLPs have no gate: down(relu(up(x))^2).
MlpKeys keys_within(const std::string& prefix) {
  return {"", "", prefix + "up_proj", prefix + "down_proj"};
}

void narrow(ModelReader& reader, int32_t layer, int32_t width, ExpertsPart& experts) {
  const BiasRule bias = reader.bias(by_flag("mlp_bias"));
  experts.narrow =
      NarrowPart{reader.layer_matrix(layer, "mixer.fc1_latent_proj", reader.hidden(), width, bias),
                 reader.layer_matrix(layer, "mixer.fc2_latent_proj", width, reader.hidden(), bias)};
  experts.expert.gate_up.front().num_in = width;
  experts.expert.down.num_out = width;
}

ExpertsPart experts_part(ModelReader& reader, int32_t layer) {
  ExpertsPart experts = routed(reader, layer, {"mixer.gate", "mixer.experts.{}."});
  route_by_sigmoid(reader, experts, reader.key(layer, "mixer.gate.e_score_correction_bias"));
  experts.expert = reader.mlp(layer, keys_within("mixer.experts.{}."), expert_width(reader));
  for (MatrixPart* matrix : {&experts.expert.gate_up.front(), &experts.expert.down})
    matrix->bias = BiasRule::none;
  const int32_t num_shared = reader.int_or("n_shared_experts", 1, 0, 1024);
  if (num_shared > 0) {
    const int32_t width = reader.require("moe_shared_expert_intermediate_size", 1, 1 << 20);
    experts.shared = reader.mlp(layer, keys_within("mixer.shared_experts."), width);
  }
  if (const int32_t width = reader.int_or("moe_latent_size", 0, 1, 65536); width > 0)
    narrow(reader, layer, width, experts);
  return experts;
}

// A block has one norm, before it.
void set_feed_forward(LayerSpec& layer, FeedForwardSpec part) {
  std::swap(layer.attention_norm, layer.feed_forward_norm);
  layer.feed_forward = std::move(part);
}

void nemotron_h(ModelReader& reader) {
  reader.drop_ropes();
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    reader.drop_feed_forward(layer);
    if (reader.layer_type(i) == LayerType::recurrent) {
      layer.mixer = mamba2_part(reader, i, "mixer.", kFields,
                                {.num_heads = 128, .head_dim = 64, .num_groups = 8, .state_dim = 128},
                                InnerSize::by_heads);
    } else if (reader.layer_type(i) == LayerType::mlp) {
      set_feed_forward(layer,
                       reader.mlp(i, keys_within("mixer."), reader.require("intermediate_size", 1, 1 << 20)));
    } else if (reader.layer_type(i) == LayerType::experts) {
      set_feed_forward(layer, experts_part(reader, i));
    }
  });
}

// The default of the class, for files without any list of layers.
LayerType type_of_layer(const ModelReader&, int32_t layer) {
  constexpr LayerType kTypes[] = {LayerType::recurrent, LayerType::experts, LayerType::full, LayerType::mlp};
  return kTypes[layer % 4];
}

constexpr TensorKeys nemotron_h_keys() {
  TensorKeys keys;
  keys.embedding = "backbone.embeddings";
  keys.layers = "backbone.layers.";
  keys.attention_norm = "norm";
  keys.query = "mixer.q_proj";
  keys.key = "mixer.k_proj";
  keys.value = "mixer.v_proj";
  keys.attention_output = "mixer.o_proj";
  keys.final_norm = "backbone.norm_f";
  return keys;
}

}  // namespace

const ArchitectureSpec kNemotronH = {.name = "NemotronHForCausalLM",
                                     .model_type = "nemotron_h",
                                     .keys = nemotron_h_keys(),
                                     .gated_mlp = false,
                                     .has_dense_mlp = false,
                                     .type_of_layer = type_of_layer,
                                     .has_one_part_layers = true,
                                     .qkv_bias = by_flag("attention_bias"),
                                     .attention_output_bias = by_flag("attention_bias"),
                                     .mlp_bias = by_flag("mlp_bias"),
                                     .default_activation = "relu2",
                                     .default_norm_epsilon = 1e-5,
                                     .default_max_positions = 4096,
                                     .default_head_dim = 128,
                                     .refine = nemotron_h};

}  // namespace quire::families
