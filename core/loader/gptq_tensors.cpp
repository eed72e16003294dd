#include "core/loader/gptq_tensors.h"

#include <cmath>

#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/loader/coded_tensors.h"
#include "core/loader/typed_tensor.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

// Returns the number of stored columns: the layer's outputs, possibly padded to a multiple of 32.
int32_t check_columns(const WeightDirectory::Entry& weight, const LinearRequest& request) {
  const int64_t columns = weight.tensor->shape[1];
  const int64_t needed = request.num_stored();
  const auto padded = static_cast<int64_t>(round_up(static_cast<uint64_t>(needed), 32));
  if ((columns != needed && columns != padded) || columns % 8 != 0) {
    throw Error(ErrorCode::format, "{}: has {} columns, but {} outputs are needed", describe(weight), columns,
                needed);
  }
  return checked_cast<int32_t>(columns, describe(weight));
}

// Returns the bits of a code, derived from the number of rows of words.
int32_t check_bits(const WeightDirectory::Entry& weight, const LinearRequest& request) {
  const int64_t rows = weight.tensor->shape[0], num_in = request.num_in;
  for (const int32_t bits : {4, 8}) {
    if (num_in * bits % 32 == 0 && rows == num_in * bits / 32) return bits;
  }
  for (const int64_t bits : {2, 3}) {
    if (rows == num_in * bits / 32) {
      throw Error(ErrorCode::unsupported, "{}: {} bit GPTQ is not supported, only 4 and 8 bit",
                  describe(weight), bits);
    }
  }
  throw Error(ErrorCode::format, "{}: has the shape {}, but {} inputs need {} rows of 4 bits or {} of 8",
              describe(weight), shape_text(weight.tensor->shape), num_in, num_in / 8, num_in / 4);
}

void read_zeros(WeightReader& reader, const LinearRequest& request, int32_t columns, LinearWeight& weight,
                CodedMatrix& matrix) {
  const int64_t words = int64_t{columns} * matrix.bits / 32;
  const HostTensor tensor =
      read_typed_values(reader, request.key + ".qzeros", {matrix.num_groups, words}, DType::i32);
  matrix.zeros.stored = true;
  if (tensor.data() == nullptr) return;
  const auto stored = tensor.elements<uint32_t>();
  if (request.is_whole()) {
    matrix.zeros.words.assign(stored.begin(), stored.end());
    return;
  }
  const int64_t per_word = 32 / matrix.bits;
  matrix.zeros.words = pack_zeros(request, matrix, weight.padded_out, [&](int64_t g, int64_t n) {
    const uint32_t word = stored[static_cast<size_t>(g * words + n / per_word)];
    return (word >> (n % per_word * matrix.bits)) & ((1U << matrix.bits) - 1U);
  });
}

// Reads the scales. Those of a whole matrix keep their padding, so that its words can be used unchanged.
void read_gptq_scales(WeightReader& reader, const LinearRequest& request, int32_t columns,
                      LinearWeight& weight, CodedMatrix& matrix) {
  LinearRequest stored = request;
  if (request.is_whole()) stored.num_out = columns;
  stored.part.num_stored = columns;
  weight.padded_out = stored.num_out;
  read_scales(reader, stored, request.key + ".scales", ScaleOrder::by_group, matrix);
}

}  // namespace

bool is_gptq(const LayerTensors& layer) {
  return layer.extent(".scales", 1) != layer.extent(".qweight", 1) * 8 || layer.extent(".scales", 1) == 0;
}

LinearWeight load_gptq(WeightReader& reader, const LinearRequest& request,
                       const QuantizationConfig& quantization) {
  reject_stack(request, "gptq");
  const auto& stored = reader.directory().at(request.key + ".qweight");
  const auto& scales = reader.directory().at(request.key + ".scales");
  require_rank(stored, 2);
  require_rank(scales, 2);
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  CodedMatrix matrix;
  matrix.bits = check_bits(stored, request);
  const int32_t columns = check_columns(stored, request);
  const int64_t num_groups = scales.tensor->shape[0];
  if (num_groups < 1 || num_groups > request.num_in) {
    throw Error(ErrorCode::format, "{}: {} groups for {} rows", describe(scales), num_groups, request.num_in);
  }
  matrix.num_groups = static_cast<int32_t>(num_groups);
  matrix.zeros.offset = quantization.gptq_v2 ? 0 : 1;
  matrix.group_of_row = read_group_of_row(reader, request, request.key + ".g_idx", matrix.num_groups,
                                          quantization.scheme_of(request.key).group_size, scales);
  read_gptq_scales(reader, request, columns, weight, matrix);
  read_zeros(reader, request, columns, weight, matrix);
  matrix.codes = read_typed_values(reader, request.key + ".qweight",
                                   {int64_t{request.num_in} * matrix.bits / 32, columns}, DType::i32,
                                   request.is_whole() ? request.read_by : ReadBy::host);
  matrix.first_word = request.part.first;
  matrix.row_words = columns;
  matrix.column_words = request.part.step;
  weight.matrix = std::move(matrix);
  return weight;
}

std::vector<int64_t> describe_gptq(const LayerTensors& layer) {
  const int64_t columns = layer.extent(".qweight", 1), zeros = layer.extent(".qzeros", 1);
  const int64_t per_word = zeros > 0 && columns / zeros == 4 ? 4 : 8;
  return {columns, layer.extent(".qweight", 0) * per_word};
}

LinearWeight synthesize_gptq(const SyntheticRequest& request, SyntheticValues& values) {
  constexpr int32_t kGroupRows = 128;
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  CodedMatrix matrix;
  matrix.num_groups = request.num_in / kGroupRows;
  matrix.codes = values.random_words(request.num_in / 8, request.num_out, request.key);
  matrix.row_words = request.num_out;
  matrix.column_words = 1;
  matrix.zeros.stored = true;
  matrix.zeros.offset = 1;
  const size_t num_scales = static_cast<size_t>(matrix.num_groups) * static_cast<size_t>(request.num_out);
  if (values.has_data()) {
    matrix.zeros.words.assign(num_scales / 8, 0x77777777U);
    const float deviation = 1.0f / (std::sqrt(static_cast<float>(request.num_in)) * 4.6f);
    const uint16_t scale = kernels::float_to_half(deviation);
    for (size_t i = 0; i < num_scales; ++i) {
      matrix.scales.push_back(static_cast<uint8_t>(scale & 0xffU));
      matrix.scales.push_back(static_cast<uint8_t>(scale >> 8));
    }
  }
  for (int32_t row = 0; row < request.num_in; ++row) matrix.group_of_row.push_back(row / kGroupRows);
  weight.matrix = std::move(matrix);
  return weight;
}

}  // namespace quire
