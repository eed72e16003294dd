#include "core/loader/gptq_tensors.h"

#include <algorithm>
#include <cmath>

#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/loader/exl2_tensors.h"
#include "core/loader/typed_tensor.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

constexpr int64_t kCodesPerWord = 8;

// Other layouts share the tensor names; they are recognised by shape, to say what they are.
void require_four_bits(const WeightDirectory::Entry& weight, const LinearRequest& request) {
  const int64_t num_in = request.num_in;
  const int64_t num_out = request.num_out;
  const std::vector<int64_t>& shape = weight.tensor->shape;
  if (num_in % kCodesPerWord == 0 && shape[0] == num_in / kCodesPerWord) return;
  if (shape == std::vector<int64_t>{num_in, num_out / kCodesPerWord}) {
    throw Error(ErrorCode::unsupported, "{}: the AWQ layout is not supported, only GPTQ's", describe(weight));
  }
  for (const int64_t bits : {2, 3, 8}) {
    if (shape[0] == num_in * bits / 32) {
      throw Error(ErrorCode::unsupported, "{}: {} bit GPTQ is not supported, only 4 bit", describe(weight),
                  bits);
    }
  }
  throw Error(ErrorCode::format, "{}: has the shape {} where {} inputs need {} rows", describe(weight),
              shape_text(shape), num_in, num_in / kCodesPerWord);
}

// Columns as stored: the layer's outputs, or those padded to 32.
int32_t check_columns(const WeightDirectory::Entry& weight, const LinearRequest& request) {
  const int64_t columns = weight.tensor->shape[1];
  const auto padded = static_cast<int64_t>(round_up(static_cast<uint64_t>(request.num_out), 32));
  if ((columns != request.num_out && columns != padded) || columns % kCodesPerWord != 0) {
    throw Error(ErrorCode::format, "{}: has {} columns where {} outputs are needed", describe(weight),
                columns, request.num_out);
  }
  return checked_cast<int32_t>(columns, describe(weight));
}

// Scales as half floats, whatever float type the file has.
std::vector<uint16_t> read_scales(WeightReader& reader, const std::string& name,
                                  const std::vector<int64_t>& shape) {
  const HostTensor tensor = reader.read_values(name, shape);
  if (tensor.data() == nullptr) return {};
  const std::string where = describe(reader.directory().at(name));
  std::vector<uint16_t> halves;
  if (tensor.dtype() == DType::f16) {
    const auto elements = tensor.elements<uint16_t>();
    halves.assign(elements.begin(), elements.end());
  } else {
    for (const float value : to_floats(tensor.view(), where)) halves.push_back(kernels::float_to_half(value));
  }
  require_finite_halves(halves, where);
  return halves;
}

// g_idx of all zeros is how exporters say that rows are in order.
std::vector<int32_t> read_group_of_row(WeightReader& reader, const LinearRequest& request,
                                       int32_t num_groups) {
  const std::string name = request.key + ".g_idx";
  const WeightDirectory::Entry* entry = reader.directory().find(name);
  const std::string where = describe(entry ? *entry : reader.directory().at(request.key + ".scales"));
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
  return consecutive_groups(request.num_in, num_groups, request.gptq_group_size, where);
}

}  // namespace

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
    throw Error(ErrorCode::format, "{}: {} groups where {} rows in groups of {} make {}", where, num_groups,
                num_in, rows_of_group, needed);
  }
  std::vector<int32_t> groups(static_cast<size_t>(num_in));
  for (int64_t k = 0; k < num_in; ++k)
    groups[static_cast<size_t>(k)] = static_cast<int32_t>(k / rows_of_group);
  return groups;
}

LinearWeight load_gptq(WeightReader& reader, const LinearRequest& request) {
  const auto name = [&request](std::string_view suffix) { return request.key + std::string(suffix); };
  const auto& stored = reader.directory().at(name(".qweight"));
  const auto& scales = reader.directory().at(name(".scales"));
  require_rank(stored, 2);
  require_rank(scales, 2);
  require_four_bits(stored, request);
  LinearWeight weight;
  weight.num_in = request.num_in;
  weight.num_out = request.num_out;
  weight.padded_out = check_columns(stored, request);
  const int64_t num_groups = scales.tensor->shape[0];
  if (num_groups < 1 || num_groups > request.num_in) {
    throw Error(ErrorCode::format, "{}: {} groups for {} rows", describe(scales), num_groups, request.num_in);
  }
  GptqMatrix matrix;
  matrix.zero_offset = request.gptq_zero_offset;
  matrix.group_of_row = read_group_of_row(reader, request, static_cast<int32_t>(num_groups));
  matrix.scales = read_scales(reader, name(".scales"), {num_groups, weight.padded_out});
  matrix.q_zeros =
      read_typed_values(reader, name(".qzeros"), {num_groups, weight.padded_out / kCodesPerWord}, DType::i32);
  matrix.q_weight = read_typed_values(reader, name(".qweight"),
                                      {request.num_in / kCodesPerWord, weight.padded_out}, DType::i32);
  weight.matrix = std::move(matrix);
  return weight;
}

}  // namespace quire
