// AWQ tensors of one layer, 4-bit quantization as packed by AutoAWQ's "gemm" version: docs/formats.md, "AWQ".
#pragma once

#include <vector>

#include "core/loader/layer_tensors.h"
#include "core/loader/load_linear.h"

namespace quire {

bool is_awq(const LayerTensors& layer);
LinearWeight load_awq(WeightReader& reader, const LinearRequest& request,
                      const QuantizationConfig& quantization);
std::vector<int64_t> describe_awq(const LayerTensors& layer);

}  // namespace quire
