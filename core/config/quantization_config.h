// `quantization_config`: what a checkpoint says about how it was quantized.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/config_fields.h"
#include "core/config/module_names.h"

namespace quire {

// How some modules are quantized, as far as it is said.
struct QuantizationScheme {
  int32_t bits = 0;        // 0: not said
  int32_t group_size = 0;  // inputs that share a scale; -1: all; 0: not said
  // FP8: outputs and inputs of the blocks that share a scale; 0: not said, scales are of rows or matrices.
  int32_t block_out = 0;
  int32_t block_in = 0;

  bool operator==(const QuantizationScheme&) const = default;
};

// The modules of one scheme.
struct QuantizedGroup {
  ModuleNames targets;
  QuantizationScheme scheme;
};

// What the one number beside a matrix of BitNet does to its -1, 0 and 1.
enum class BitNetScale : uint8_t { none, multiplies, divides };

// The format of a matrix is decided by its tensors; this holds what the tensors do not tell, and what they
// are held against.
struct QuantizationConfig {
  enum class Method : uint8_t { none, exl2, gptq, fp8, awq, compressed, mxfp4, nvfp4, bitnet };

  Method method = Method::none;
  double bits = 0.0;          // as asked of the converter; 0: not said
  QuantizationScheme scheme;  // of all modules that no group names
  bool gptq_act_order = false;
  bool gptq_v2 = false;  // zeros are stored as they are, not less one
  BitNetScale bitnet_scale = BitNetScale::none;
  std::vector<QuantizedGroup> groups;
  ModuleNames ignored;  // modules that are left as they were

  // Of the first group that names the module, or its class "Linear".
  const QuantizationScheme& scheme_of(std::string_view module) const;
};

// Throws ErrorCode::unsupported where the method, its width or its checkpoint format is none that this build
// reads, or where the result depends on a transform; ErrorCode::format naming a field that is out of range.
QuantizationConfig read_quantization_config(const ConfigFields& fields);

}  // namespace quire
