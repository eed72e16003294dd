// Tensors of one layer as packed by compressed-tensors, integers of 4 and 8 bits: docs/formats.md,
// "compressed-tensors".
#pragma once

#include <vector>

#include "core/loader/layer_tensors.h"
#include "core/loader/load_linear.h"

namespace quire {

bool is_packed(const LayerTensors& layer);
LinearWeight load_packed(WeightReader& reader, const LinearRequest& request,
                         const QuantizationConfig& quantization);
std::vector<int64_t> describe_packed(const LayerTensors& layer);

}  // namespace quire
