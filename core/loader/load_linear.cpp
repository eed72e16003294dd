#include "core/loader/load_linear.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/loader/exl2_tensors.h"
#include "core/loader/fp8_tensors.h"
#include "core/loader/gptq_tensors.h"

namespace quire {
namespace {

using kernels::WeightFormat;

constexpr std::string_view suffix_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::dense:
      return ".weight";
    case WeightFormat::exl2:
      return ".q_weight";
    case WeightFormat::gptq:
      return ".qweight";
  }
  return "";
}

LinearWeight load_dense(WeightReader& reader, const LinearRequest& request) {
  const std::string name = request.key + ".weight";
  const WeightDirectory::Entry& stored = reader.directory().at(name);
  LinearWeight weight;
  weight.num_in = request.num_in;
  weight.num_out = request.num_out;
  weight.padded_out = request.num_out;
  if (stored.tensor->type->dtype == DType::f8_e4m3) {
    weight.matrix = load_fp8(reader, request);
    return weight;
  }
  DenseMatrix matrix;
  matrix.weight = reader.read_values(name, {request.num_out, request.num_in});
  const DType dtype = matrix.weight.dtype();
  if (dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f32) {
    throw Error(ErrorCode::unsupported, "{}: the type {} is not one of F16, BF16, F32 and F8_E4M3",
                describe(stored), dtype_name(dtype));
  }
  weight.matrix = std::move(matrix);
  return weight;
}

// [num_out] or, in a padded file, [padded_out]. All zeros, as GPTQ exporters write where there is none,
// counts as absent.
std::vector<float> load_bias(WeightReader& reader, const LinearRequest& request, int32_t padded_out) {
  const std::string name = request.key + ".bias";
  const WeightDirectory::Entry* entry = reader.directory().find(name);
  if (!entry) {
    if (!request.needs_bias) return {};
    throw Error(ErrorCode::format, "{}: no file holds the tensor \"{}\" that the configuration asks for",
                reader.directory().path(), printable(name));
  }
  const bool padded = entry->tensor->shape == std::vector<int64_t>{padded_out};
  std::vector<float> bias = reader.read_floats(name, {padded ? padded_out : request.num_out});
  bias.resize(static_cast<size_t>(request.num_out));
  const bool all_zero = std::all_of(bias.begin(), bias.end(), [](float value) { return value == 0.0f; });
  return all_zero ? std::vector<float>() : bias;
}

}  // namespace

std::optional<WeightFormat> find_weight_format(const WeightDirectory& directory, std::string_view key) {
  std::optional<WeightFormat> found;
  for (const WeightFormat format : {WeightFormat::exl2, WeightFormat::gptq, WeightFormat::dense}) {
    const std::string name = std::string(key) + std::string(suffix_of(format));
    if (!directory.has(name)) continue;
    if (found) {
      throw Error(ErrorCode::format, "{}: both \"{}{}\" and \"{}\" are there; one of them must go",
                  directory.path(), printable(key), suffix_of(*found), printable(name));
    }
    found = format;
  }
  return found;
}

HostTensor load_table(WeightReader& reader, const std::string& name, int32_t rows, int32_t columns) {
  HostTensor table = reader.read_values(name, {rows, columns});
  const DType dtype = table.dtype();
  if (dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32) return table;
  throw Error(ErrorCode::unsupported, "{}: the type {} of a table is not one of F16, BF16 and F32",
              describe(reader.directory().at(name)), dtype_name(dtype));
}

LinearWeight load_linear(WeightReader& reader, const LinearRequest& request) {
  Expects(request.num_in > 0 && request.num_out > 0);
  const auto format = find_weight_format(reader.directory(), request.key);
  if (!format) {
    throw Error(ErrorCode::format, "{}: no file holds \"{}\" as .q_weight, .qweight or .weight",
                reader.directory().path(), printable(request.key));
  }
  LinearWeight weight;
  switch (*format) {
    case WeightFormat::dense:
      weight = load_dense(reader, request);
      break;
    case WeightFormat::exl2:
      weight = load_exl2(reader, request);
      break;
    case WeightFormat::gptq:
      weight = load_gptq(reader, request);
      break;
  }
  weight.bias = load_bias(reader, request, weight.padded_out);
  weight.prescale = request.prescale;
  return weight;
}

}  // namespace quire
