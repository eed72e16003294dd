// Shared parts of the formats with quantized groups: read the codes, scales, zeros and groups of the outputs
// of a layer, however they are stored.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/loader/load_linear.h"

namespace quire {

// Returns [experts,] rows [, more]: the shape of a tensor of a stack of experts, or of one matrix.
std::vector<int64_t> stored_shape(const LinearRequest& request, std::vector<int64_t> of_one);

// Returns the range from the layer's first stored output to its last, within its expert.
RowRange output_range(const LinearRequest& request);

// Returns a weight of that size without a matrix.
LinearWeight empty_weight(int32_t num_in, int32_t num_out);

// Reads codes that are contiguous for each output; `tail` is the shape of the codes of one output.
void read_codes_by_output(WeightReader& reader, const LinearRequest& request, const std::string& name,
                          std::vector<int64_t> tail, DType dtype, CodedMatrix& matrix);

// Storage order of the scales of outputs and groups.
enum class ScaleOrder : uint8_t { by_output, by_group };

// Reads a float tensor of scales, [stored outputs, groups] or [groups, stored outputs]; values must be finite
// and at most 65504. f16, bf16 and f32 keep their type, F64 becomes f32, and an E8M0 tensor is copied byte by
// byte.
void read_scales(WeightReader& reader, const LinearRequest& request, const std::string& name,
                 ScaleOrder order, CodedMatrix& matrix);

// Packs the zeros of all groups and outputs of the layer again; `at` returns the code of a group and a stored
// output.
std::vector<uint32_t> pack_zeros(const LinearRequest& request, const CodedMatrix& matrix, int32_t padded_out,
                                 const std::function<uint32_t(int64_t group, int64_t stored)>& at);

// Returns the group of each row: from the tensor `name` ([num_in] I32, act-order) if it exists and is not all
// zeros, otherwise k / group size. `group_size` is the value of the configuration. -1 means one group; 0
// means unspecified, and the smallest power of two for which num_groups groups suffice is used.
std::vector<int32_t> read_group_of_row(WeightReader& reader, const LinearRequest& request,
                                       const std::string& name, int32_t num_groups, int32_t group_size,
                                       const WeightDirectory::Entry& scales);

// Throws ErrorCode::format beginning with `where` if the rows do not make exactly num_groups groups.
std::vector<int32_t> consecutive_groups(int32_t num_in, int32_t num_groups, int32_t group_size,
                                        std::string_view where);

// Throws ErrorCode::unsupported if the layer is part of a stack of experts, which no file of that format
// contains.
void reject_stack(const LinearRequest& request, std::string_view format);

}  // namespace quire
