// The FP8 tensors of one layer, E4M3 codes and their scales: docs/formats.md, "FP8".
#pragma once

#include "core/loader/load_linear.h"

namespace quire {

// Throws ErrorCode::format, ErrorCode::numeric or ErrorCode::unsupported naming the file, the tensor and the
// way out. Scales of activations are passed over: activations are not quantized to FP8 here.
DenseMatrix load_fp8(WeightReader& reader, const LinearRequest& request);

}  // namespace quire
