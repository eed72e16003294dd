#include "core/loader/awq_tensors.h"

#include <array>

#include "core/base/error.h"
#include "core/loader/coded_tensors.h"
#include "core/loader/typed_tensor.h"

namespace quire {
namespace {

constexpr int32_t kBits = 4;
constexpr int64_t kPerWord = 8;
// Column, among the eight columns of a word, of the i-th nibble from the low bits up.
constexpr std::array<int64_t, 8> kColumnOfNibble = {0, 2, 4, 6, 1, 3, 5, 7};
// Inverse of kColumnOfNibble.
constexpr std::array<int64_t, 8> kNibbleOfColumn = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t code_at(gsl::span<const uint32_t> words, int64_t row, int64_t column, int64_t row_words) {
  const uint32_t word = words[static_cast<size_t>(row * row_words + column / kPerWord)];
  return (word >> (4 * kNibbleOfColumn[static_cast<size_t>(column % kPerWord)])) & 15U;
}

// Repacks words of eight columns of a row into words of eight rows of a column, eight by eight codes at a
// time.
void transpose_codes(gsl::span<const uint32_t> stored, int64_t rows, int64_t columns,
                     gsl::span<uint32_t> out) {
  const int64_t row_words = columns / kPerWord;
  for (int64_t r = 0; r < rows / kPerWord; ++r) {
    for (int64_t j = 0; j < row_words; ++j) {
      std::array<uint32_t, 8> made{};
      for (int64_t t = 0; t < kPerWord; ++t) {
        const uint32_t word = stored[static_cast<size_t>((r * kPerWord + t) * row_words + j)];
        for (size_t i = 0; i < 8; ++i) made[i] |= ((word >> (4 * i)) & 15U) << (4 * t);
      }
      for (size_t i = 0; i < 8; ++i)
        out[static_cast<size_t>(r * columns + j * kPerWord + kColumnOfNibble[i])] = made[i];
    }
  }
}

HostTensor read_codes(WeightReader& reader, const std::string& name, int64_t rows, int64_t columns) {
  const HostTensor stored = read_typed_values(reader, name, {rows, columns / kPerWord}, DType::i32);
  const std::vector<int64_t> shape = {rows / kPerWord, columns};
  if (stored.data() == nullptr) return HostTensor::without_data(DType::i32, shape, stored.size_bytes());
  HostTensor out(DType::i32, shape, stored.size_bytes(), describe(reader.directory().at(name)));
  transpose_codes(stored.elements<uint32_t>(), rows, columns, out.elements<uint32_t>());
  return out;
}

void read_zeros(WeightReader& reader, const LinearRequest& request, CodedMatrix& matrix) {
  const int64_t words = request.num_stored() / kPerWord;
  const HostTensor tensor =
      read_typed_values(reader, request.key + ".qzeros", {matrix.num_groups, words}, DType::i32);
  matrix.zeros.stored = true;
  if (tensor.data() == nullptr) return;
  matrix.zeros.words = pack_zeros(request, matrix, request.num_out, [&](int64_t g, int64_t n) {
    return code_at(tensor.elements<uint32_t>(), g, n, words);
  });
}

}  // namespace

// Returns whether there are eight times as many scales as words in a row: one word packs eight columns.
bool is_awq(const LayerTensors& layer) {
  return layer.extent(".scales", 1) != 0 &&
         layer.extent(".scales", 1) == layer.extent(".qweight", 1) * kPerWord;
}

LinearWeight load_awq(WeightReader& reader, const LinearRequest& request,
                      const QuantizationConfig& quantization) {
  reject_stack(request, "awq");
  const auto& codes = reader.directory().at(request.key + ".qweight");
  const auto& scales = reader.directory().at(request.key + ".scales");
  require_rank(scales, 2);
  const int64_t columns = request.num_stored();
  if (request.num_in % kPerWord != 0 || columns % kPerWord != 0) {
    throw Error(ErrorCode::format, "{}: {} inputs and {} outputs must be multiples of {}", describe(codes),
                request.num_in, columns, kPerWord);
  }
  const int64_t num_groups = scales.tensor->shape[0];
  if (num_groups < 1 || num_groups > request.num_in) {
    throw Error(ErrorCode::format, "{}: {} groups for {} rows", describe(scales), num_groups, request.num_in);
  }
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  CodedMatrix matrix;
  matrix.bits = kBits;
  matrix.num_groups = static_cast<int32_t>(num_groups);
  matrix.group_of_row = consecutive_groups(request.num_in, matrix.num_groups,
                                           quantization.scheme_of(request.key).group_size, describe(scales));
  read_scales(reader, request, request.key + ".scales", ScaleOrder::by_group, matrix);
  read_zeros(reader, request, matrix);
  matrix.codes = read_codes(reader, request.key + ".qweight", request.num_in, columns);
  matrix.first_word = request.part.first;
  matrix.row_words = columns;
  matrix.column_words = request.part.step;
  weight.matrix = std::move(matrix);
  return weight;
}

std::vector<int64_t> describe_awq(const LayerTensors& layer) {
  return {layer.extent(".qweight", 1) * kPerWord, layer.extent(".qweight", 0)};
}

}  // namespace quire
