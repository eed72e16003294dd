// Rows of the table of GGUF architectures, by kind of family.
#pragma once

#include <gsl/gsl>

#include "core/models/gguf_families.h"

namespace quire {

// Families with experts under names of their own.
gsl::span<const GgufFamily> expert_gguf_families();
// GPT-2 and its successors.
gsl::span<const GgufFamily> gpt_gguf_families();
// Families whose layers may have a recurrent state.
gsl::span<const GgufFamily> hybrid_gguf_families();

// Normalizes the weights of the chosen experts, so that they sum to one, unless the file decides it.
void normalize_experts(const GgufModel& model, JsonObject& config);
// Adds the multipliers of Granite.
void granite_multipliers(const GgufModel& model, JsonObject& config);
// Adds the sizes of latent attention.
void add_latent_sizes(const GgufModel& model, JsonObject& config);

}  // namespace quire
