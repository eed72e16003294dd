// FP8 tensors of one layer (quantization to E4M3 codes with scales): docs/formats.md, "FP8".
#pragma once

#include "core/loader/layer_tensors.h"
#include "core/loader/load_linear.h"
#include "core/loader/synthetic_values.h"

namespace quire {

// Reads the layer. Throws ErrorCode::format, ErrorCode::numeric or ErrorCode::unsupported naming the file,
// the tensor and the remedy. Ignores scales of activations, because activations are not quantized to FP8.
LinearWeight load_fp8(WeightReader& reader, const LinearRequest& request,
                      const QuantizationConfig& quantization);
bool is_fp8(const LayerTensors& layer);
LinearWeight synthesize_fp8(const SyntheticRequest& request, SyntheticValues& values);

}  // namespace quire
