// RecurrentGemma (Griffin): layers of the RG-LRU, and every third layer attention with a window and one KV
// head.
#include <bit>
#include <cmath>

#include "core/base/error.h"
#include "core/config/families/delta.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

// The kinds repeat until all layers have one.
LayerType type_of_layer(const ModelReader& reader, int32_t layer) {
  const auto list = reader.fields().find(FieldNames{"block_types", "_block_types"});
  if (!list) return layer % 3 == 2 ? LayerType::sliding : LayerType::recurrent;
  if (!list->is_array() || list->elements().empty())
    throw Error(ErrorCode::format, "{} must be a list of kinds of layers", list->where());
  const JsonView entry = list->items()[static_cast<size_t>(layer) % list->elements().size()];
  const std::string& word = entry.as_string();
  if (word == "recurrent") return LayerType::recurrent;
  if (word == "attention") return LayerType::sliding;
  throw Error(ErrorCode::unsupported, "{}: \"{}\" is not supported; supported are recurrent and attention",
              entry.where(), printable(word, 32));
}

RgLruPart rg_lru_part(const ModelReader& reader, int32_t layer) {
  const std::string prefix = "temporal_block.", lru = prefix + "rg_lru.";
  RgLruPart part;
  part.channels = reader.int_or("lru_width", reader.hidden(), 1, 65536);
  part.num_blocks = reader.heads().num_heads;
  if (part.channels % part.num_blocks != 0) {
    throw Error(ErrorCode::format, "{}.lru_width: {} is not a multiple of {} heads", reader.fields().where(),
                part.channels, part.num_blocks);
  }
  const int32_t width = part.channels / part.num_blocks;
  const auto projection = [&](std::string_view name) {
    return reader.layer_matrix(layer, prefix + std::string(name), reader.hidden(), part.channels,
                               BiasRule::required);
  };
  const auto gate = [&](std::string_view name) {
    MatrixPart matrix = reader.layer_matrix(layer, lru + std::string(name), width, width);
    matrix.num_slabs = part.num_blocks;
    matrix.transposed = true;
    return matrix;
  };
  part.in = {projection("linear_x"), projection("linear_y")};
  part.conv = delta_conv(reader, layer, {prefix + "conv_1d"}, {part.channels},
                         reader.int_or("conv1d_width", 4, 2, 64));
  part.conv.silu = false;
  part.conv.bias = {reader.key(layer, prefix + "conv_1d.bias"), part.channels};
  part.step_gate = gate("recurrent_gate_weight");
  part.input_gate = gate("input_gate_weight");
  part.step_bias = {reader.key(layer, lru + "recurrent_gate_bias"), part.channels};
  part.input_bias = {reader.key(layer, lru + "input_gate_bias"), part.channels};
  part.decay = {reader.key(layer, lru + "recurrent_param"), part.channels};
  part.out =
      reader.layer_matrix(layer, prefix + "linear_out", part.channels, reader.hidden(), BiasRule::required);
  return part;
}

// Rounds to nearest, as the family's class does with the scale of its embedding.
float rounded_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t is_odd = bits >> 16 & 1;
  return std::bit_cast<float>((bits + 0x7fff + is_odd) & 0xffff0000);
}

// The gate of the RG-LRU's result has the activation of the MLP.
void require_gelu(const ModelReader& reader) {
  if (reader.activation() == kernels::Activation::gelu_tanh) return;
  throw Error(ErrorCode::unsupported, "{}.hidden_activation: only gelu_pytorch_tanh is supported",
              reader.fields().where());
}

// The MLP is half as wide as intermediate_size.
void recurrent_gemma(ModelReader& reader) {
  require_gelu(reader);
  reader.model().embedding.scale = rounded_to_bf16(std::sqrt(static_cast<float>(reader.hidden())));
  reader.model().head.softcap = reader.number_or("logits_soft_cap", 30.0, 0.0, 1e6);
  const MlpKeys keys = mlp_keys("mlp_block.");
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.feed_forward = reader.mlp(i, keys, reader.intermediate() / 2);
  });
  reader.each_recurrent([&](LayerSpec& layer, int32_t i) { layer.mixer = rg_lru_part(reader, i); });
}

constexpr TensorKeys griffin_keys() {
  TensorKeys keys;
  keys.attention_norm = "temporal_pre_norm";
  keys.mlp_norm = "channel_pre_norm";
  keys.query = "temporal_block.q_proj";
  keys.key = "temporal_block.k_proj";
  keys.value = "temporal_block.v_proj";
  keys.attention_output = "temporal_block.o_proj";
  keys.final_norm = "model.final_norm";
  return keys;
}

}  // namespace

const ArchitectureSpec kRecurrentGemma = {.name = "RecurrentGemmaForCausalLM",
                                          .model_type = "recurrent_gemma",
                                          .keys = griffin_keys(),
                                          .norm_offset = 1.0f,
                                          .type_of_layer = type_of_layer,
                                          .qkv_bias = by_flag("attention_bias"),
                                          .attention_output_bias = kAlways,
                                          .mlp_bias = kAlways,
                                          .window = WindowRule::by_layer_type,
                                          .tied_by_default = true,
                                          .default_activation = "gelu_pytorch_tanh",
                                          .default_partial_rotary = 0.5,
                                          .default_max_positions = 8192,
                                          .default_sliding_window = 2048,
                                          .refine = recurrent_gemma};

}  // namespace quire::families
