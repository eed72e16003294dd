// `quantization_config`: what a checkpoint says about how it was quantized.
#pragma once

#include <cstdint>

#include "core/config/config_fields.h"

namespace quire {

// The format of a matrix is decided by its tensors; this holds what the tensors do not tell.
struct QuantizationConfig {
  enum class Method : uint8_t { none, exl2, gptq, fp8 };

  Method method = Method::none;
  double bits = 0.0;            // as asked of the converter; 0: not said
  int32_t gptq_group_size = 0;  // rows of a group; -1: one group for all; 0: not said
  bool gptq_act_order = false;
  bool gptq_v2 = false;  // zeros are stored as they are, not less one
  // Outputs and inputs of the blocks that share a scale; 0: not said, scales are of rows or matrices.
  int32_t fp8_block_out = 0;
  int32_t fp8_block_in = 0;
};

// Throws ErrorCode::unsupported where the method, its width or its checkpoint format is none that this build
// reads, ErrorCode::format naming a field that is out of range.
QuantizationConfig read_quantization_config(const ConfigFields& fields);

}  // namespace quire
