#include "core/loader/linear_weight.h"

#include <type_traits>

namespace quire {
namespace {

using kernels::WeightFormat;
using kernels::WeightSource;

template <WeightFormat format, typename Matrix>
constexpr bool kStandsFor =
    std::is_same_v<std::variant_alternative_t<static_cast<size_t>(format), decltype(LinearWeight::matrix)>,
                   Matrix>;
static_assert(kStandsFor<WeightFormat::dense, DenseMatrix> && kStandsFor<WeightFormat::exl2, Exl2Matrix> &&
              kStandsFor<WeightFormat::coded, CodedMatrix> && kStandsFor<WeightFormat::blocks, BlockMatrix> &&
              kStandsFor<WeightFormat::trellis, TrellisMatrix>);

template <typename T>
const T* data_or_null(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

// Returns the words of a tensor, which are stored as I32 but used as bits.
const uint32_t* words(const HostTensor& tensor) {
  return static_cast<const uint32_t*>(tensor.data());
}

void describe_matrix(const DenseMatrix& matrix, WeightSource& source) {
  source.dense = {matrix.weight.dtype(), matrix.weight.data(), data_or_null(matrix.scales), matrix.scale_out,
                  matrix.scale_in};
}

void describe_matrix(const Exl2Matrix& matrix, WeightSource& source) {
  source.exl2.q_weight = words(matrix.q_weight);
  source.exl2.q_scale = words(matrix.q_scale);
  source.exl2.q_scale_max = matrix.q_scale_max.elements<uint16_t>().data();
  source.exl2.groups = matrix.groups.data();
  source.exl2.num_groups = gsl::narrow<int32_t>(matrix.groups.size());
  source.exl2.packed_rows = gsl::narrow<int32_t>(matrix.q_weight.shape().front());
}

void describe_matrix(const CodedMatrix& matrix, WeightSource& source) {
  kernels::CodedSource& coded = source.coded;
  coded.bits = matrix.bits;
  coded.codes = words(matrix.codes);
  if (coded.codes != nullptr) coded.codes += matrix.first_word;
  coded.row_words = matrix.row_words;
  coded.column_words = matrix.column_words;
  coded.values = matrix.values;
  if (matrix.zeros.stored) {
    coded.zeros = data_or_null(matrix.zeros.words);
    coded.zero_group_words = (int64_t{source.padded_out} * matrix.bits + 31) / 32;
    coded.zero_column_words = 1;
  }
  coded.zero_offset = matrix.zeros.offset;
  coded.scales = data_or_null(matrix.scales);
  coded.scale_dtype = matrix.scale_dtype;
  coded.group_of_row = matrix.group_of_row.data();
  coded.num_groups = matrix.num_groups;
}

void describe_matrix(const BlockMatrix& matrix, WeightSource& source) {
  source.blocks = {matrix.type, matrix.rows.data()};
}

void describe_matrix(const TrellisMatrix& matrix, WeightSource& source) {
  source.trellis = {matrix.codebook, matrix.half_bits, static_cast<const uint16_t*>(matrix.tiles.data()),
                    matrix.input_scales.data(), matrix.output_scales.data()};
}

const HostTensor& elements_of(const DenseMatrix& matrix) {
  return matrix.weight;
}
const HostTensor& elements_of(const Exl2Matrix& matrix) {
  return matrix.q_weight;
}
const HostTensor& elements_of(const CodedMatrix& matrix) {
  return matrix.codes;
}

const HostTensor& elements_of(const BlockMatrix& matrix) {
  return matrix.rows;
}
const HostTensor& elements_of(const TrellisMatrix& matrix) {
  return matrix.tiles;
}

uint64_t matrix_bytes(const DenseMatrix& matrix) {
  return matrix.weight.size_bytes() + matrix.scales.size() * sizeof(float);
}
uint64_t matrix_bytes(const Exl2Matrix& matrix) {
  return matrix.q_weight.size_bytes() + matrix.q_scale.size_bytes() + matrix.q_scale_max.size_bytes();
}
uint64_t matrix_bytes(const CodedMatrix& matrix) {
  return matrix.codes.size_bytes() + matrix.zeros.words.size() * sizeof(uint32_t) + matrix.scales.size();
}

uint64_t matrix_bytes(const BlockMatrix& matrix) {
  return matrix.rows.size_bytes();
}
uint64_t matrix_bytes(const TrellisMatrix& matrix) {
  return matrix.tiles.size_bytes() +
         (matrix.input_scales.size() + matrix.output_scales.size()) * sizeof(uint16_t);
}

}  // namespace

WeightSource LinearWeight::source() const {
  WeightSource source;
  source.format = format();
  source.num_in = num_in;
  source.num_out = num_out;
  source.padded_out = padded_out;
  std::visit([&source](const auto& held) { describe_matrix(held, source); }, matrix);
  source.unread = bytes_of(unread());
  source.row_order = data_or_null(row_order);
  source.column_order = data_or_null(column_order);
  source.bias = data_or_null(bias);
  source.prescale = prescale;
  return source;
}

UnreadTensor* LinearWeight::unread() const {
  return std::visit([](const auto& held) { return elements_of(held).unread(); }, matrix);
}

uint64_t LinearWeight::size_bytes() const {
  return std::visit([](const auto& held) { return matrix_bytes(held); }, matrix);
}

void fold_row_order(LinearWeight& consumer, gsl::span<LinearWeight* const> producers) {
  if (consumer.row_order.empty()) return;
  for (LinearWeight* producer : producers) {
    if (producer->column_order.empty()) {
      Expects(producer->num_out == consumer.num_in);
      producer->column_order = consumer.row_order;
    } else {
      for (int32_t& column : producer->column_order) column = consumer.row_order[static_cast<size_t>(column)];
    }
  }
  consumer.row_order.clear();
}

}  // namespace quire
