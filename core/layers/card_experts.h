// Host experts of a step with many rows, multiplied by the card of their layer: it reads their matrices from
// host memory, and its products have the bits of the CPU.
#pragma once

#include "core/layers/expert_matrices.h"

namespace quire {

// Largest number of tokens that a card multiplies at a time, which bounds its memory for them.
inline constexpr int32_t kMaxCardTokens = 2048;

// The matrices of one layer's experts.
struct CardExperts {
  const ExpertMatrices& gate_up;
  const ExpertMatrices& down;
  const kernels::MlpSpec& mlp;
};

// Rows of the tokens, num_chosen for each, in host memory; see kernels::PackedExpertsParams.
struct CardRows {
  const float* input = nullptr;
  int32_t num_in = 0;
  const float* input_scale = nullptr;
  const float* weights = nullptr;
  const int32_t* experts = nullptr;
  int32_t num_chosen = 0;
  int32_t tokens = 0;

  CardRows slice(int32_t first, int32_t count) const;
};

// Returns whether the card is faster: reading the matrices of the chosen experts takes it less time than the
// host needs to multiply their rows.
bool pays_on_card(const int32_t* experts, int32_t num_rows, int32_t num_experts);

// Returns the weighted sums of the experts' results for up to kMaxCardTokens tokens, valid until the next
// operation of the card. Waits for them.
const float* sum_on_card(const ForwardPass& pass, const CardExperts& experts, const CardRows& rows);

}  // namespace quire
