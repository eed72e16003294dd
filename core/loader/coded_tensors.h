// What the formats of grouped codes have in common: reading codes, scales, zeros and groups of the outputs
// that a layer has, whatever way they are stored.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/loader/load_linear.h"

namespace quire {

// [experts,] rows [, more]: the shape of a tensor of the stack, or of one matrix.
std::vector<int64_t> stored_shape(const LinearRequest& request, std::vector<int64_t> of_one);

// The stored outputs from the layer's first to its last, of its expert.
RowRange output_range(const LinearRequest& request);

// A weight of that size without its matrix.
LinearWeight empty_weight(int32_t num_in, int32_t num_out);

// Codes that lie in one piece for each output: `tail` is the shape that those of one output have.
void read_codes_by_output(WeightReader& reader, const LinearRequest& request, const std::string& name,
                          std::vector<int64_t> tail, DType dtype, CodedMatrix& matrix);

// Where the scale of an output and a group lies.
enum class ScaleOrder : uint8_t { by_output, by_group };

// A float tensor of scales: [stored outputs, groups] or [groups, stored outputs], as finite numbers of at
// most 65504. Keeps its type, which is f16, bf16 or f32; F64 becomes f32, and the bytes of an E8M0 tensor
// stay.
void read_scales(WeightReader& reader, const LinearRequest& request, const std::string& name,
                 ScaleOrder order, CodedMatrix& matrix);

// Zeros of all groups and outputs of the layer, packed anew: `at` gives the code of a group and a stored
// output.
std::vector<uint32_t> pack_zeros(const LinearRequest& request, const CodedMatrix& matrix, int32_t padded_out,
                                 const std::function<uint32_t(int64_t group, int64_t stored)>& at);

// The group of each row: by the tensor `name` ([num_in] I32) where it is there and not all zeros, else k /
// group size. `group_size` is what the configuration says (-1: one group, 0: nothing said, then the smallest
// power of two that makes num_groups groups suffice).
std::vector<int32_t> read_group_of_row(WeightReader& reader, const LinearRequest& request,
                                       const std::string& name, int32_t num_groups, int32_t group_size,
                                       const WeightDirectory::Entry& scales);

// Throws ErrorCode::format beginning with `where` where the rows do not make exactly num_groups groups.
std::vector<int32_t> consecutive_groups(int32_t num_in, int32_t num_groups, int32_t group_size,
                                        std::string_view where);

// Throws ErrorCode::unsupported where the layer is one of a stack, which no file of that format holds.
void refuse_stack(const LinearRequest& request, std::string_view format);

}  // namespace quire
