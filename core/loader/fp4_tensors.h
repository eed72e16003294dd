// 4-bit floats (E2M1) in groups: MXFP4 in the layouts of gpt-oss and compressed-tensors, NVFP4 in those of
// compressed-tensors and ModelOpt: docs/formats.md, "MXFP4" and "NVFP4".
#pragma once

#include <vector>

#include "core/loader/layer_tensors.h"
#include "core/loader/load_linear.h"
#include "core/loader/synthetic_values.h"

namespace quire {

// gpt-oss: a stack of experts under KEY_blocks and KEY_scales.
bool is_mxfp4_stack(const LayerTensors& layer);
LinearWeight load_mxfp4_stack(WeightReader& reader, const LinearRequest& request,
                              const QuantizationConfig& quantization);
std::vector<int64_t> describe_mxfp4_stack(const LayerTensors& layer);

bool is_mxfp4(const LayerTensors& layer);
LinearWeight load_mxfp4(WeightReader& reader, const LinearRequest& request,
                        const QuantizationConfig& quantization);
std::vector<int64_t> describe_mxfp4(const LayerTensors& layer);
LinearWeight synthesize_mxfp4(const SyntheticRequest& request, SyntheticValues& values);

bool is_nvfp4(const LayerTensors& layer);
LinearWeight load_nvfp4(WeightReader& reader, const LinearRequest& request,
                        const QuantizationConfig& quantization);

// ModelOpt names: `weight`, `weight_scale`, `weight_scale_2`.
bool is_modelopt_nvfp4(const LayerTensors& layer);
LinearWeight load_modelopt_nvfp4(WeightReader& reader, const LinearRequest& request,
                                 const QuantizationConfig& quantization);
std::vector<int64_t> describe_modelopt_nvfp4(const LayerTensors& layer);

}  // namespace quire
