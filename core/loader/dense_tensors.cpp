#include "core/loader/dense_tensors.h"

#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/loader/coded_tensors.h"

namespace quire {
namespace {

// Copies every step-th row out of contiguous rows.
HostTensor keep_every(HostTensor rows, const LinearRequest& request, std::string_view what) {
  const size_t row_bytes = rows.size_bytes() / static_cast<size_t>(rows.shape().front());
  const size_t bytes = row_bytes * static_cast<size_t>(request.num_out);
  const std::vector<int64_t> shape = {request.num_out, rows.shape().back()};
  if (rows.data() == nullptr) return HostTensor::without_data(rows.dtype(), shape, bytes);
  HostTensor kept(rows.dtype(), shape, bytes, what);
  for (size_t j = 0; j < static_cast<size_t>(request.num_out); ++j) {
    const size_t from = j * static_cast<size_t>(request.part.step) * row_bytes;
    std::memcpy(kept.bytes().data() + j * row_bytes, rows.bytes().data() + from, row_bytes);
  }
  return kept;
}

// Reads outputs of a matrix that is stored as [inputs, outputs].
HostTensor read_columns(WeightReader& reader, const LinearRequest& request, const std::string& name) {
  const int64_t experts = std::max(request.part.num_experts, 1), num_in = request.num_in;
  const HostTensor rows = reader.read_rows(name, stored_shape(request, {num_in, request.num_stored()}),
                                           {num_in * experts, num_in * request.part.expert, num_in});
  const size_t element = kernels::dtype_bytes(rows.dtype());
  const auto inputs = static_cast<size_t>(num_in), outputs = static_cast<size_t>(request.num_out);
  const std::vector<int64_t> shape = {request.num_out, num_in};
  const size_t bytes = inputs * outputs * element;
  if (rows.data() == nullptr) return HostTensor::without_data(rows.dtype(), shape, bytes);
  HostTensor out(rows.dtype(), shape, bytes, describe(reader.directory().at(name)));
  const auto stored = static_cast<size_t>(request.num_stored());
  for (size_t j = 0; j < outputs; ++j) {
    const size_t column =
        static_cast<size_t>(request.part.first) + j * static_cast<size_t>(request.part.step);
    for (size_t k = 0; k < inputs; ++k)
      std::memcpy(out.bytes().data() + (j * inputs + k) * element,
                  rows.bytes().data() + (k * stored + column) * element, element);
  }
  return out;
}

}  // namespace

std::string dense_name(const WeightDirectory& directory, const LinearRequest& request) {
  std::string name = request.key + ".weight";
  return !directory.has(name) && directory.has(request.key) ? request.key : name;
}

HostTensor read_outputs(WeightReader& reader, const LinearRequest& request, const std::string& name) {
  if (request.is_whole() && !request.part.input_major)
    return reader.read_values(name, {request.num_out, request.num_in}, request.read_by);
  if (request.part.input_major) return read_columns(reader, request, name);
  const std::vector<int64_t> shape = stored_shape(request, {request.num_stored(), request.num_in});
  if (request.part.step == 1) return reader.read_rows(name, shape, output_range(request), request.read_by);
  return keep_every(reader.read_rows(name, shape, output_range(request)), request,
                    describe(reader.directory().at(name)));
}

LinearWeight load_dense(WeightReader& reader, const LinearRequest& request, const QuantizationConfig&) {
  const std::string name = dense_name(reader.directory(), request);
  const WeightDirectory::Entry& stored = reader.directory().at(name);
  const auto dtype = stored.tensor->type->dtype;
  if (dtype && dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f32) {
    throw Error(ErrorCode::unsupported, "{}: the type {} is not one of F16, BF16, F32 and F8_E4M3",
                describe(stored), stored.tensor->type->name);
  }
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  DenseMatrix matrix;
  matrix.weight = read_outputs(reader, request, name);
  weight.matrix = std::move(matrix);
  return weight;
}

std::vector<int64_t> describe_dense(const LayerTensors& layer) {
  return layer.at(".weight").tensor->shape;
}

LinearWeight synthesize_dense(const SyntheticRequest& request, SyntheticValues& values) {
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  DenseMatrix matrix;
  matrix.weight = values.normal_halves(request.num_out, request.num_in,
                                       1.0f / std::sqrt(static_cast<float>(request.num_in)), request.key);
  weight.matrix = std::move(matrix);
  return weight;
}

}  // namespace quire
