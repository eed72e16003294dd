#include "core/loader/coded_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/loader/typed_tensor.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

constexpr float kMaxScale = 65504.0f;

float scale_value(const HostTensor& tensor, size_t index) {
  switch (tensor.dtype()) {
    case DType::f16:
      return kernels::half_to_float(tensor.elements<uint16_t>()[index]);
    case DType::bf16:
      return kernels::bfloat16_to_float(tensor.elements<uint16_t>()[index]);
    case DType::f64:
      return static_cast<float>(tensor.elements<double>()[index]);
    case DType::f32:
      return tensor.elements<float>()[index];
    default:
      return kernels::e8m0_to_float(tensor.elements<uint8_t>()[index]);
  }
}

// Returns the type in which scales are kept. E8M0 may be stored as U8.
DType kept_type(const WeightDirectory::Entry& entry) {
  const auto dtype = entry.tensor->type->dtype;
  if (dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32) return *dtype;
  if (dtype == DType::f64) return DType::f32;
  if (dtype == DType::u8 || dtype == DType::f8_e8m0) return DType::f8_e8m0;
  throw Error(ErrorCode::unsupported, "{}: the type {} of scales is not one of F16, BF16, F32 and F8_E8M0",
              describe(entry), entry.tensor->type->name);
}

void require_sound(const HostTensor& tensor, size_t index, const WeightDirectory::Entry& entry) {
  const float value = scale_value(tensor, index);
  if (std::abs(value) <= kMaxScale) return;
  throw Error(ErrorCode::numeric, "{}: element {} is {}, not a finite number of at most {}", describe(entry),
              index, value, kMaxScale);
}

void store_scale(const HostTensor& tensor, size_t from, CodedMatrix& matrix, size_t to) {
  const size_t bytes = kernels::dtype_bytes(matrix.scale_dtype);
  if (tensor.dtype() == DType::f64) {
    const float value = scale_value(tensor, from);
    std::memcpy(&matrix.scales[to * bytes], &value, bytes);
  } else {
    std::memcpy(&matrix.scales[to * bytes], static_cast<const uint8_t*>(tensor.data()) + from * bytes, bytes);
  }
}

}  // namespace

std::vector<int64_t> stored_shape(const LinearRequest& request, std::vector<int64_t> of_one) {
  if (request.part.num_experts > 0) of_one.insert(of_one.begin(), request.part.num_experts);
  return of_one;
}

RowRange output_range(const LinearRequest& request) {
  const LinearPart& part = request.part;
  const int64_t stored = request.num_stored();
  const int64_t span = (int64_t{request.num_out} - 1) * part.step + 1;
  Expects(part.first >= 0 && part.step >= 1 && part.first + span <= stored);
  Expects(part.expert >= 0 && part.expert < std::max(part.num_experts, 1));
  return {stored * std::max(part.num_experts, 1), stored * part.expert + part.first, span};
}

LinearWeight empty_weight(int32_t num_in, int32_t num_out) {
  LinearWeight weight;
  weight.num_in = num_in;
  weight.num_out = num_out;
  weight.padded_out = num_out;
  return weight;
}

void read_codes_by_output(WeightReader& reader, const LinearRequest& request, const std::string& name,
                          std::vector<int64_t> tail, DType dtype, CodedMatrix& matrix) {
  require_type(reader.directory().at(name), dtype);
  std::vector<int64_t> shape = {request.num_stored()};
  shape.insert(shape.end(), tail.begin(), tail.end());
  matrix.codes = reader.read_rows(name, stored_shape(request, std::move(shape)), output_range(request),
                                  request.part.step == 1 ? request.read_by : ReadBy::host);
  const size_t output_bytes = matrix.codes.size_bytes() / static_cast<size_t>(matrix.codes.shape().front());
  Expects(output_bytes % sizeof(uint32_t) == 0);
  matrix.row_words = 1;
  matrix.column_words = static_cast<int64_t>(output_bytes / sizeof(uint32_t)) * request.part.step;
}

void read_scales(WeightReader& reader, const LinearRequest& request, const std::string& name,
                 ScaleOrder order, CodedMatrix& matrix) {
  const WeightDirectory::Entry& entry = reader.directory().at(name);
  const auto groups = static_cast<size_t>(matrix.num_groups), outputs = static_cast<size_t>(request.num_out);
  const int64_t stored = request.num_stored();
  matrix.scale_dtype = kept_type(entry);
  const bool by_output = order == ScaleOrder::by_output;
  const HostTensor tensor =
      by_output
          ? reader.read_rows(name, stored_shape(request, {stored, matrix.num_groups}), output_range(request))
          : reader.read_values(name, {matrix.num_groups, stored});
  if (tensor.data() == nullptr) return;
  matrix.scales.resize(groups * outputs * kernels::dtype_bytes(matrix.scale_dtype));
  const auto step = static_cast<size_t>(request.part.step), first = static_cast<size_t>(request.part.first);
  for (size_t g = 0; g < groups; ++g) {
    for (size_t j = 0; j < outputs; ++j) {
      const size_t from =
          by_output ? j * step * groups + g : g * static_cast<size_t>(stored) + first + j * step;
      require_sound(tensor, from, entry);
      store_scale(tensor, from, matrix, g * outputs + j);
    }
  }
}

std::vector<uint32_t> pack_zeros(const LinearRequest& request, const CodedMatrix& matrix, int32_t padded_out,
                                 const std::function<uint32_t(int64_t group, int64_t stored)>& at) {
  const int64_t per_word = 32 / matrix.bits;
  const int64_t words = (padded_out + per_word - 1) / per_word;
  std::vector<uint32_t> zeros(static_cast<size_t>(matrix.num_groups * words));
  for (int64_t g = 0; g < matrix.num_groups; ++g) {
    for (int64_t j = 0; j < request.num_out; ++j) {
      const uint32_t zero = at(g, request.part.first + j * request.part.step);
      zeros[static_cast<size_t>(g * words + j / per_word)] |= zero << (j % per_word * matrix.bits);
    }
  }
  return zeros;
}

// All zeros is how exporters mark rows that are in order (no act-order).
std::vector<int32_t> read_group_of_row(WeightReader& reader, const LinearRequest& request,
                                       const std::string& name, int32_t num_groups, int32_t group_size,
                                       const WeightDirectory::Entry& scales) {
  const WeightDirectory::Entry* entry = reader.directory().find(name);
  const std::string where = describe(entry ? *entry : scales);
  if (entry) {
    const HostTensor tensor = read_typed(reader, name, {request.num_in}, DType::i32);
    const auto rows = tensor.elements<int32_t>();
    const auto bad =
        std::find_if(rows.begin(), rows.end(), [&](int32_t g) { return g < 0 || g >= num_groups; });
    if (bad != rows.end()) {
      throw Error(ErrorCode::format, "{}: row {} is in group {} of {}", where, bad - rows.begin(), *bad,
                  num_groups);
    }
    const bool in_order = std::all_of(rows.begin(), rows.end(), [](int32_t g) { return g == 0; });
    if (!in_order) return {rows.begin(), rows.end()};
  }
  return consecutive_groups(request.num_in, num_groups, group_size, where);
}

std::vector<int32_t> consecutive_groups(int32_t num_in, int32_t num_groups, int32_t group_size,
                                        std::string_view where) {
  int64_t rows_of_group = group_size;
  if (group_size < 0) {
    rows_of_group = num_in;
  } else if (group_size == 0) {
    for (rows_of_group = 1; rows_of_group * num_groups < num_in;) rows_of_group *= 2;
  }
  const auto needed =
      static_cast<int64_t>(ceil_div(static_cast<uint64_t>(num_in), static_cast<uint64_t>(rows_of_group)));
  if (needed != num_groups) {
    throw Error(ErrorCode::format, "{}: {} groups, but {} rows in groups of {} make {}", where, num_groups,
                num_in, rows_of_group, needed);
  }
  std::vector<int32_t> groups(static_cast<size_t>(num_in));
  for (int64_t k = 0; k < num_in; ++k)
    groups[static_cast<size_t>(k)] = static_cast<int32_t>(k / rows_of_group);
  return groups;
}

void reject_stack(const LinearRequest& request, std::string_view format) {
  if (request.part.num_experts == 0) return;
  throw Error(ErrorCode::unsupported,
              "{}: a stack of experts in one tensor is not supported in the format {}",
              printable(request.key), format);
}

}  // namespace quire
