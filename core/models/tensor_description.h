// Descriptions of the tensors in a model's files, for inspection and planning.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/loader/weight_directory.h"

namespace quire {

// One tensor of the files. A quantized matrix counts as one, even if it is stored in several tensors.
struct TensorDescription {
  std::string name;            // without the suffix of the format: "model.layers.0.mlp.down_proj"
  std::string format;          // "gptq" (weight_formats.h), or the type of floats or blocks: "f16", "q4_k"
  std::vector<int64_t> shape;  // matrix: [outputs, inputs]; stack of matrices: experts first
  int64_t stored_bytes = 0;    // including scales, orders and biases
  int32_t layer = -1;          // -1: the tensor belongs to no layer
};

// Returns the tensors sorted by layer, then by name. The keys of layers begin with `layer_prefix`:
// "model.layers.".
std::vector<TensorDescription> describe_tensors(const WeightDirectory& directory,
                                                std::string_view layer_prefix);

}  // namespace quire
