// EXL3 tensors of one layer: docs/formats.md, "EXL3". The upstream reader trusts their shapes; this one
// checks them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/loader/layer_tensors.h"
#include "core/loader/load_linear.h"
#include "core/loader/synthetic_values.h"

namespace quire {

LinearWeight load_exl3(WeightReader& reader, const LinearRequest& request,
                       const QuantizationConfig& quantization);
// Returns the sizes as stored, padded to multiples of 128.
std::vector<int64_t> describe_exl3(const LayerTensors& layer);
// Makes a matrix of random codes of the codebook mul1 with the bits of the request.
LinearWeight synthesize_exl3(const SyntheticRequest& request, SyntheticValues& values);

}  // namespace quire
