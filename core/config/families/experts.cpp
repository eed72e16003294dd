#include "core/config/families/experts.h"

#include "core/base/error.h"

namespace quire::families {
namespace {

constexpr IntField kNumExperts = {
    {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}, 1, kernels::kMaxExperts};
constexpr IntField kNumChosen = {
    {"num_experts_per_tok", "moe_topk", "moe_k", "moe_top_k", "top_k_experts", "num_experts_per_token"},
    1,
    kernels::kMaxExperts};

}  // namespace

int32_t expert_width(const ModelReader& reader) {
  constexpr IntField kWidth = {{"moe_intermediate_size", "intermediate_size", "ffn_hidden_size"}, 1, 1 << 20};
  return reader.fields().require_int(kWidth);
}

ExpertsPart routed(ModelReader& reader, int32_t layer, const ExpertKeys& keys) {
  ExpertsPart part;
  part.num_experts = reader.fields().require_int(kNumExperts);
  part.num_chosen = reader.fields().require_int(kNumChosen);
  part.router = reader.layer_matrix(layer, keys.router, reader.hidden(), part.num_experts);
  const MlpKeys names = keys.mixtral_names
                            ? MlpKeys{"", keys.expert + "w1", keys.expert + "w3", keys.expert + "w2"}
                            : mlp_keys(keys.expert);
  part.expert = reader.mlp(layer, names, expert_width(reader));
  return part;
}

MlpPart stacked_expert(const ModelReader& reader, int32_t layer, const StackKeys& keys, int32_t num_experts,
                       int32_t width) {
  MlpPart part = reader.mlp(layer, {keys.gate_up, "", "", keys.down}, width);
  for (MatrixPart* matrix : {&part.gate_up.front(), &part.down}) {
    matrix->num_slabs = num_experts;
    matrix->transposed = keys.transposed;
  }
  return part;
}

void route_by_sigmoid(ModelReader& reader, ExpertsPart& experts, const std::string& bias_name) {
  experts.score = kernels::RouterScore::sigmoid;
  experts.choice_bias = {bias_name, experts.num_experts};
  experts.num_groups = reader.fields().int_or({{"n_group", "num_expert_group"}, 1, experts.num_experts}, 1);
  experts.chosen_groups = reader.int_or("topk_group", 1, 1, experts.num_groups);
  experts.normalised = reader.flag("norm_topk_prob", true);
  experts.least_sum = 1e-20f;
  experts.scale = reader.number_or("routed_scaling_factor", 1.0, 1e-6, 1e6);
}

bool is_sparse_layer(const ModelReader& reader, int32_t layer, int32_t num_dense) {
  if (const auto sparse = reader.layer_is("mlp_layer_types", layer, "sparse", "dense")) return *sparse;
  const int32_t frequency = reader.int_or("moe_layer_freq", 1, 1, 1024);
  return layer >= reader.int_or("first_k_dense_replace", num_dense, 0, 1024) && layer % frequency == 0;
}

void add_shared(ModelReader& reader, int32_t layer, const std::string& prefix, int32_t width,
                ExpertsPart& experts) {
  if (width > 0) experts.shared = reader.mlp(layer, mlp_keys(prefix), width);
}

}  // namespace quire::families
