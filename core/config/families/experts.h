// Mixture of experts (MoE) in the forms that most families share.
#pragma once

#include "core/config/families/families.h"

namespace quire::families {

struct ExpertKeys {
  std::string router;          // name within a layer
  std::string expert;          // prefix of an expert's matrices, with "{}" for its number
  bool mixtral_names = false;  // w1, w3, w2 instead of gate, up, down
};

// Returns experts with counts from the usual config fields: softmax scores, weights not normalized, no shared
// expert.
ExpertsPart routed(ModelReader& reader, int32_t layer, const ExpertKeys& keys);

// Returns the width of an expert: moe_intermediate_size, or intermediate_size.
int32_t expert_width(const ModelReader& reader);

// Tensors that stack all experts, one for gate and up and one for down: [experts, out, in], or transposed.
struct StackKeys {
  std::string gate_up;
  std::string down;
  bool transposed = false;
};
MlpPart stacked_expert(const ModelReader& reader, int32_t layer, const StackKeys& keys, int32_t num_experts,
                       int32_t width);

// Sets DeepSeek V3 routing: sigmoid scores, a bias for the choice, groups, and weights that are normalized
// and scaled.
void route_by_sigmoid(ModelReader& reader, ExpertsPart& experts, const std::string& bias_name);

// Returns whether the layer has experts: from layer first_k_dense_replace on, or if mlp_layer_types is
// "sparse". `num_dense` is the default of first_k_dense_replace.
bool is_sparse_layer(const ModelReader& reader, int32_t layer, int32_t num_dense = 0);

// Adds a shared expert of the given width, which processes every token.
void add_shared(ModelReader& reader, int32_t layer, const std::string& prefix, int32_t width,
                ExpertsPart& experts);

}  // namespace quire::families
