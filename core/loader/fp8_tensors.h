// The FP8 tensors of one layer, E4M3 codes and their scales: docs/formats.md, "FP8".
#pragma once

#include "core/loader/layer_tensors.h"
#include "core/loader/load_linear.h"
#include "core/loader/synthetic_values.h"

namespace quire {

// Throws ErrorCode::format, ErrorCode::numeric or ErrorCode::unsupported naming the file, the tensor and the
// way out. Scales of activations are passed over: activations are not quantized to FP8 here.
LinearWeight load_fp8(WeightReader& reader, const LinearRequest& request,
                      const QuantizationConfig& quantization);
bool is_fp8(const LayerTensors& layer);
LinearWeight synthesize_fp8(const SyntheticRequest& request, SyntheticValues& values);

}  // namespace quire
