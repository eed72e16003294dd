// Matrices of unquantized floats: F16, BF16, F32.
#pragma once

#include <vector>

#include "core/loader/layer_tensors.h"
#include "core/loader/load_linear.h"
#include "core/loader/synthetic_values.h"

namespace quire {

// Returns the name of the tensor with the codes or floats of a plain matrix: KEY.weight or, in a stack, KEY
// itself.
std::string dense_name(const WeightDirectory& directory, const LinearRequest& request);

// Returns the layer's outputs of a matrix, [num_out, num_in]. The elements may have any type of whole bytes.
HostTensor read_outputs(WeightReader& reader, const LinearRequest& request, const std::string& name);

LinearWeight load_dense(WeightReader& reader, const LinearRequest& request,
                        const QuantizationConfig& quantization);
std::vector<int64_t> describe_dense(const LayerTensors& layer);
LinearWeight synthesize_dense(const SyntheticRequest& request, SyntheticValues& values);

}  // namespace quire
