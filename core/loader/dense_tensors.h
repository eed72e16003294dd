// Matrices of floats as they are: F16, BF16, F32.
#pragma once

#include <vector>

#include "core/loader/layer_tensors.h"
#include "core/loader/load_linear.h"
#include "core/loader/synthetic_values.h"

namespace quire {

// Where the codes or floats of a plain matrix lie: under KEY.weight, or, in a stack, under KEY itself.
std::string dense_name(const WeightDirectory& directory, const LinearRequest& request);

// The outputs of the layer, of a matrix in any type of the size of its own: [num_out, num_in].
HostTensor read_outputs(WeightReader& reader, const LinearRequest& request, const std::string& name);

LinearWeight load_dense(WeightReader& reader, const LinearRequest& request,
                        const QuantizationConfig& quantization);
std::vector<int64_t> describe_dense(const LayerTensors& layer);
LinearWeight synthesize_dense(const SyntheticRequest& request, SyntheticValues& values);

}  // namespace quire
