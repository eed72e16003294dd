// GPTQ tensors of one layer, 4-bit and 8-bit quantization: docs/formats.md, "GPTQ". `g_idx` gives the group
// of each row (act-order).
#pragma once

#include <vector>

#include "core/loader/layer_tensors.h"
#include "core/loader/load_linear.h"
#include "core/loader/synthetic_values.h"

namespace quire {

bool is_gptq(const LayerTensors& layer);
LinearWeight load_gptq(WeightReader& reader, const LinearRequest& request,
                       const QuantizationConfig& quantization);
std::vector<int64_t> describe_gptq(const LayerTensors& layer);
LinearWeight synthesize_gptq(const SyntheticRequest& request, SyntheticValues& values);

}  // namespace quire
