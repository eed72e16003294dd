// Host experts multiplied by the card of their layer, with the bits of the CPU: all of a step with many rows,
// whose matrices it reads from host memory, and those in its slots in any step.
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
  const kernels::ExpertPlace* places = nullptr;  // of each expert; nullptr: the card has no slots
  int32_t num_chosen = 0;
  int32_t tokens = 0;

  int32_t num_rows() const { return tokens * num_chosen; }
  CardRows slice(int32_t first, int32_t count) const;
};

// Returns the number of chosen experts that are not in slots.
int32_t num_lacking(const CardRows& rows);
// Returns whether it is faster if the card multiplies all rows: reading the matrices that it lacks takes it
// less time than the host needs for the rows that the card would leave to it.
bool pays_on_card(const CardRows& rows);

// Returns the weighted sums of the experts' results for up to kMaxCardTokens tokens, valid until the next
// operation of the card. Waits for them.
const float* sum_on_card(const ForwardPass& pass, const CardExperts& experts, const CardRows& rows);

// Returns whether experts of these rows are in slots, and the card can multiply them beside the host.
bool are_in_slots(const CardRows& rows);
// Starts the products of the rows whose experts are in slots. finish_on_card waits for them, and writes the
// results of these experts to their rows of `outputs`.
void start_on_card(const ForwardPass& pass, const CardExperts& experts, const CardRows& rows);
void finish_on_card(const ForwardPass& pass, float* outputs);

// Copies the experts that have a slot but are not there.
void fill_slots(const ForwardPass& pass, const CardExperts& experts, const kernels::ExpertPlace* places);

}  // namespace quire
