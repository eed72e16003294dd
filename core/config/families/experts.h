// Routed experts as most families have them.
#pragma once

#include "core/config/families/families.h"

namespace quire::families {

struct ExpertKeys {
  std::string router;  // within a layer
  std::string expert;  // what stands before the names of an expert's matrices, with "{}" for its number
  bool mixtral_names = false;  // w1, w3, w2 for gate, up, down
};

// Numbers of experts by the fields that families use; softmax, nothing normalised, no shared expert.
ExpertsPart routed(ModelReader& reader, int32_t layer, const ExpertKeys& keys);

// The width of an expert: moe_intermediate_size, or intermediate_size.
int32_t expert_width(const ModelReader& reader);

// An expert of one stacked tensor for gate and up and one for down, [experts, out, in] or transposed.
struct StackKeys {
  std::string gate_up;
  std::string down;
  bool transposed = false;
};
MlpPart stacked_expert(const ModelReader& reader, int32_t layer, const StackKeys& keys, int32_t num_experts,
                       int32_t width);

// DeepSeek V3's way: sigmoid scores, a bias for the choice, groups, weights that sum to one and are scaled.
void route_by_sigmoid(ModelReader& reader, ExpertsPart& experts, const std::string& bias_name);

// Experts from layer first_k_dense_replace on, or where mlp_layer_types says "sparse".
bool is_sparse_layer(const ModelReader& reader, int32_t layer);

// An expert that every token goes to: so many times as wide as a routed one.
void add_shared(ModelReader& reader, int32_t layer, const std::string& prefix, int32_t width,
                ExpertsPart& experts);

}  // namespace quire::families
