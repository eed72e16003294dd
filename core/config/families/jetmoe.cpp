// JetMoE: MoE in the feed-forward part and in attention, where each expert holds query heads.
#include "core/config/families/experts.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

void stack(MatrixPart& matrix, int32_t num_experts) {
  matrix.num_slabs = num_experts;
}

HeadExpertsPart head_experts(const ModelReader& reader, int32_t layer, const ExpertsPart& like,
                             int32_t columns) {
  HeadExpertsPart part;
  static_cast<kernels::RouterSpec&>(part) = like;
  part.router =
      reader.layer_matrix(layer, "self_attention.experts.router.layer", reader.hidden(), like.num_experts);
  part.query = reader.layer_matrix(layer, "self_attention.experts.input_linear", reader.hidden(), columns);
  part.output = reader.layer_matrix(layer, "self_attention.experts.output_linear", columns, reader.hidden());
  stack(part.query, like.num_experts);
  stack(part.output, like.num_experts);
  part.output_bias = {reader.key(layer, "self_attention.experts.bias"), reader.hidden()};
  return part;
}

// Each chosen expert contributes as many query heads as there are KV heads.
void jetmoe(ModelReader& reader) {
  const int32_t dim = reader.require("kv_channels", 2, 1024);
  const int32_t kv_heads = reader.require("num_key_value_heads", 1, 1024);
  reader.model().ropes.clear();
  RopeSpec rope;
  rope.config = read_rope_config(reader.fields(), {10000.0, 1.0, reader.max_positions(), 0});
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    ExpertsPart experts = routed(reader, i, {"mlp.router.layer", "mlp."});
    experts.score = kernels::RouterScore::softmax_of_chosen;
    experts.expert = stacked_expert(reader, i, {"mlp.input_linear", "mlp.output_linear"}, experts.num_experts,
                                    reader.intermediate());
    experts.output_bias = {reader.key(i, "mlp.bias"), reader.hidden()};
    AttentionPart& part = layer.attention();
    reader.set_heads(layer, i, {experts.num_chosen * kv_heads, kv_heads, dim, 0});
    part.heads_apart = true;
    part.head_experts = head_experts(reader, i, experts, kv_heads * dim);
    part.qkv = {reader.layer_matrix(i, "self_attention.kv_proj", reader.hidden(), 2 * kv_heads * dim)};
    part.output = {};
    reader.set_rope(layer, rope);
    ModelReader::set_experts(layer, std::move(experts));
  });
}

}  // namespace

const ArchitectureSpec kJetMoe = {.name = "JetMoeForCausalLM",
                                  .model_type = "jetmoe",
                                  .tied_by_default = true,
                                  .default_max_positions = 4096,
                                  .refine = jetmoe};

}  // namespace quire::families
