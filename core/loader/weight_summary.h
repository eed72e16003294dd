// Bits per weight of each part of a model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/loader/weight_directory.h"

namespace quire {

struct WeightShare {
  std::string name;          // number of a layer, or key of a tensor outside the layers
  uint64_t num_weights = 0;  // number of weights represented; scales and permutations are not counted
  uint64_t size_bytes = 0;   // stored size, including scales

  double bits_per_weight() const {
    return num_weights == 0 ? 0.0 : static_cast<double>(size_bytes) * 8.0 / static_cast<double>(num_weights);
  }
};

struct WeightSummary {
  std::vector<WeightShare> layers;   // by number
  std::vector<WeightShare> outside;  // by key
  WeightShare total;
};

// Summarizes the weights from headers alone, without reading tensors. `layer_prefix` is the beginning of the
// keys of layers, such as "model.layers.".
WeightSummary summarize_weights(const WeightDirectory& directory, std::string_view layer_prefix);

}  // namespace quire
