// Tensors of a GGUF model under the names and in the shapes that its class has.
#pragma once

#include "core/loader/weight_directory.h"
#include "core/models/gguf_families.h"
#include "core/models/gguf_model.h"

namespace quire {

// Returns the tensors of the model by the names of the family's class: stacks of experts become
// one matrix for each expert, and rows that the format has in another order get their order. Throws
// ErrorCode::unsupported that names a tensor of a layer that the class does not have.
WeightDirectory gguf_tensors(const GgufModel& model, const GgufFamily& family);

}  // namespace quire
