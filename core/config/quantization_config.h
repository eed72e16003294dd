// Reads `quantization_config` of config.json: how a checkpoint was quantized (EXL2, GPTQ, AWQ, FP8, MXFP4,
// NVFP4, BitNet and compressed-tensors).
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/config_fields.h"
#include "core/config/module_names.h"

namespace quire {

// Quantization of a group of modules, as far as config.json specifies it.
struct QuantizationScheme {
  int32_t bits = 0;        // 0: unspecified
  int32_t group_size = 0;  // inputs that share a scale; -1: all; 0: unspecified
  // FP8: outputs and inputs of a block that shares a scale; 0: unspecified (scales per row or matrix).
  int32_t block_out = 0;
  int32_t block_in = 0;

  bool operator==(const QuantizationScheme&) const = default;
};

// The modules that use one scheme.
struct QuantizedGroup {
  ModuleNames targets;
  QuantizationScheme scheme;
};

// The use of the scale of a BitNet matrix with its values -1, 0 and 1.
enum class BitNetScale : uint8_t { none, multiplies, divides };

// Quantization settings. The tensors determine the format of each matrix; this has the settings that the
// tensors do not show, and the ones that the loader checks them against.
struct QuantizationConfig {
  enum class Method : uint8_t { none, exl2, exl3, gptq, fp8, awq, compressed, mxfp4, nvfp4, bitnet };

  Method method = Method::none;
  double bits = 0.0;          // target bits per weight of the converter; 0: unspecified
  QuantizationScheme scheme;  // of all modules without a group
  bool gptq_act_order = false;
  bool gptq_v2 = false;  // zero points are stored as they are, not minus one
  BitNetScale bitnet_scale = BitNetScale::none;
  std::vector<QuantizedGroup> groups;
  ModuleNames ignored;  // modules that are not quantized

  // Returns the scheme of the first group that matches the module or its class "Linear".
  const QuantizationScheme& scheme_of(std::string_view module) const;
};

// Throws ErrorCode::unsupported if this build cannot read the method, its bit width or its checkpoint format,
// or if the weights need a transform. Throws ErrorCode::format naming a field that is out of range.
QuantizationConfig read_quantization_config(const ConfigFields& fields);

}  // namespace quire
