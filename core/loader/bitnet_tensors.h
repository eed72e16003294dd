// BitNet weights (ternary quantization): -1, 0 and 1, times one scale.
#pragma once

#include "core/loader/layer_tensors.h"
#include "core/loader/load_linear.h"

namespace quire {

bool is_bitnet(const LayerTensors& layer);
LinearWeight load_bitnet(WeightReader& reader, const LinearRequest& request,
                         const QuantizationConfig& quantization);
std::vector<int64_t> describe_bitnet(const LayerTensors& layer);

}  // namespace quire
