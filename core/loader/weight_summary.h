// How many bits each part of a model spends on a weight.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/loader/weight_directory.h"

namespace quire {

struct WeightShare {
  std::string name;          // a layer's number, or the key of tensors outside the layers
  uint64_t num_weights = 0;  // numbers that the tensors stand for; scales and permutations are not counted
  uint64_t size_bytes = 0;   // all that is stored for them

  double bits_per_weight() const {
    return num_weights == 0 ? 0.0 : static_cast<double>(size_bytes) * 8.0 / static_cast<double>(num_weights);
  }
};

struct WeightSummary {
  std::vector<WeightShare> layers;   // by number
  std::vector<WeightShare> outside;  // by key
  WeightShare total;
};

// From headers alone; nothing is read. `layer_prefix` is what the keys of layers begin with, such as
// "model.layers.".
WeightSummary summarize_weights(const WeightDirectory& directory, std::string_view layer_prefix);

}  // namespace quire
