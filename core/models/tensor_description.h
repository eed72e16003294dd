// What a model's files hold, matrix by matrix, for inspection and for planning.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/loader/weight_directory.h"

namespace quire {

// One tensor of the files; a quantized matrix is one, whatever it is stored in.
struct TensorDescription {
  std::string name;            // without the suffix of the format: "model.layers.0.mlp.down_proj"
  std::string format;          // "gptq" (weight_formats.h), or the type of floats: "f16"
  std::vector<int64_t> shape;  // of a matrix [outputs, inputs], of a stack with experts first
  int64_t stored_bytes = 0;    // scales, orders and biases included
  int32_t layer = -1;          // -1 where it belongs to none
};

// Sorted by layer, then by name. `layer_prefix` is what the keys of layers begin with: "model.layers.".
std::vector<TensorDescription> describe_tensors(const WeightDirectory& directory,
                                                std::string_view layer_prefix);

}  // namespace quire
