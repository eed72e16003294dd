#include "core/loader/fp4_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/loader/coded_tensors.h"
#include "core/loader/typed_tensor.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

// 0, .5, 1, 1.5, 2, 3, 4, 6 and their negatives, doubled and with 12 added: unsigned whole numbers.
constexpr std::array<uint8_t, 16> kDoubledE2m1 = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
constexpr int32_t kDoubledZero = 12;
constexpr float kHalf = 0.5f;
// 6 * 2^13 fits in f16, 6 * 2^14 does not.
constexpr uint8_t kLargestE8m0 = 127 + 13;

LinearWeight empty_fp4(const LinearRequest& request, int32_t group_rows, CodedMatrix& matrix,
                       const WeightDirectory::Entry& codes) {
  if (request.num_in % group_rows != 0) {
    throw Error(ErrorCode::format, "{}: {} inputs are not a multiple of the group size {}", describe(codes),
                request.num_in, group_rows);
  }
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  weight.prescale = kHalf;
  matrix.bits = 4;
  matrix.values = kDoubledE2m1.data();
  matrix.zeros.offset = kDoubledZero;
  matrix.num_groups = request.num_in / group_rows;
  for (int32_t k = 0; k < request.num_in; ++k) matrix.group_of_row.push_back(k / group_rows);
  return weight;
}

void read_e8m0_scales(WeightReader& reader, const LinearRequest& request, const std::string& name,
                      CodedMatrix& matrix) {
  const WeightDirectory::Entry& entry = reader.directory().at(name);
  if (entry.tensor->type->dtype != DType::u8 && entry.tensor->type->dtype != DType::f8_e8m0) {
    throw Error(ErrorCode::format, "{}: has the type {}, but U8 or F8_E8M0 is needed", describe(entry),
                entry.tensor->type->name);
  }
  read_scales(reader, request, name, ScaleOrder::by_output, matrix);
  const auto bad = std::find_if(matrix.scales.begin(), matrix.scales.end(),
                                [](uint8_t scale) { return scale > kLargestE8m0; });
  if (bad == matrix.scales.end()) return;
  throw Error(ErrorCode::numeric, "{}: has the scale 2^{}, with which weights may exceed the range of f16",
              describe(entry), *bad - 127);
}

// Reads the E4M3 scales of each group, combined with the scale of the whole matrix.
void read_e4m3_scales(WeightReader& reader, const LinearRequest& request, const std::string& name,
                      const std::function<float(float)>& with_global, CodedMatrix& matrix) {
  const WeightDirectory::Entry& entry = reader.directory().at(name);
  require_type(entry, DType::f8_e4m3);
  matrix.scale_dtype = DType::f32;
  const HostTensor tensor = reader.read_rows(
      name, stored_shape(request, {request.num_stored(), matrix.num_groups}), output_range(request));
  if (tensor.data() == nullptr) return;
  const auto codes = tensor.elements<uint8_t>();
  const auto groups = static_cast<size_t>(matrix.num_groups), outputs = static_cast<size_t>(request.num_out);
  matrix.scales.resize(groups * outputs * sizeof(float));
  for (size_t g = 0; g < groups; ++g) {
    for (size_t j = 0; j < outputs; ++j) {
      const size_t from = j * static_cast<size_t>(request.part.step) * groups + g;
      const float scale = with_global(kernels::e4m3_to_float(codes[from]));
      if (!(std::abs(scale) * 6.0f <= 65504.0f)) {
        throw Error(ErrorCode::numeric,
                    "{}: element {} gives the scale {}, with which weights may exceed the range of f16",
                    describe(entry), from, scale);
      }
      std::memcpy(&matrix.scales[(g * outputs + j) * sizeof(float)], &scale, sizeof scale);
    }
  }
}

// Returns the scale of the matrix, or that of its expert from the scales of a stack.
float read_global(WeightReader& reader, const LinearRequest& request, const std::string& name) {
  const WeightDirectory::Entry& entry = reader.directory().at(name);
  const std::vector<float> values = reader.read_floats(name, entry.tensor->shape);
  const auto expected = static_cast<size_t>(std::max(request.part.num_experts, 1));
  const float value = values.size() == expected ? values[static_cast<size_t>(request.part.expert)] : 0.0f;
  if (value > 0.0f) return value;
  throw Error(values.size() == expected ? ErrorCode::numeric : ErrorCode::format,
              "{}: has the shape {} and the value {}, but {} numbers above 0 are needed", describe(entry),
              shape_text(entry.tensor->shape), value, expected);
}

constexpr int32_t kMxGroup = 32;
constexpr int32_t kNvGroup = 16;

LinearWeight load_fp4_codes(WeightReader& reader, const LinearRequest& request, const std::string& name,
                            LinearWeight weight, CodedMatrix matrix) {
  read_codes_by_output(reader, request, name, {request.num_in / 2}, DType::u8, matrix);
  weight.matrix = std::move(matrix);
  return weight;
}

}  // namespace

bool is_mxfp4_stack(const LayerTensors& layer) {
  return layer.is("_blocks", "U8") && layer.has("_scales");
}

LinearWeight load_mxfp4_stack(WeightReader& reader, const LinearRequest& request, const QuantizationConfig&) {
  const std::string name = request.key + "_blocks";
  CodedMatrix matrix;
  LinearWeight weight = empty_fp4(request, kMxGroup, matrix, reader.directory().at(name));
  read_e8m0_scales(reader, request, request.key + "_scales", matrix);
  read_codes_by_output(reader, request, name, {matrix.num_groups, kMxGroup / 2}, DType::u8, matrix);
  weight.matrix = std::move(matrix);
  return weight;
}

std::vector<int64_t> describe_mxfp4_stack(const LayerTensors& layer) {
  std::vector<int64_t> shape = layer.at("_blocks").tensor->shape;
  if (shape.size() < 2) return shape;
  const int64_t bytes = shape.back();
  shape.pop_back();
  shape.back() *= bytes * 2;
  return shape;
}

bool is_mxfp4(const LayerTensors& layer) {
  return layer.is(".weight_packed", "U8") && !layer.has(".weight_global_scale");
}

LinearWeight load_mxfp4(WeightReader& reader, const LinearRequest& request, const QuantizationConfig&) {
  const std::string name = request.key + ".weight_packed";
  CodedMatrix matrix;
  LinearWeight weight = empty_fp4(request, kMxGroup, matrix, reader.directory().at(name));
  read_e8m0_scales(reader, request, request.key + ".weight_scale", matrix);
  return load_fp4_codes(reader, request, name, std::move(weight), std::move(matrix));
}

std::vector<int64_t> describe_mxfp4(const LayerTensors& layer) {
  std::vector<int64_t> shape = layer.at(".weight_packed").tensor->shape;
  if (!shape.empty()) shape.back() *= 2;
  return shape;
}

LinearWeight synthesize_mxfp4(const SyntheticRequest& request, SyntheticValues& values) {
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  weight.prescale = kHalf;
  CodedMatrix matrix;
  matrix.values = kDoubledE2m1.data();
  matrix.zeros.offset = kDoubledZero;
  matrix.num_groups = request.num_in / kMxGroup;
  matrix.scale_dtype = DType::f8_e8m0;
  matrix.codes = values.random_words(request.num_out, request.num_in / 8, request.key);
  matrix.row_words = 1;
  matrix.column_words = request.num_in / 8;
  for (int32_t k = 0; k < request.num_in; ++k) matrix.group_of_row.push_back(k / kMxGroup);
  // The root mean square of the values is 2.9.
  const double exponent = -std::log2(2.9 * std::sqrt(static_cast<double>(request.num_in)));
  if (values.has_data()) {
    matrix.scales.assign(static_cast<size_t>(matrix.num_groups) * static_cast<size_t>(request.num_out),
                         static_cast<uint8_t>(127 + std::lround(exponent)));
  }
  weight.matrix = std::move(matrix);
  return weight;
}

bool is_nvfp4(const LayerTensors& layer) {
  return layer.is(".weight_packed", "U8") && layer.has(".weight_global_scale");
}

LinearWeight load_nvfp4(WeightReader& reader, const LinearRequest& request, const QuantizationConfig&) {
  const std::string name = request.key + ".weight_packed";
  CodedMatrix matrix;
  LinearWeight weight = empty_fp4(request, kNvGroup, matrix, reader.directory().at(name));
  const float global = read_global(reader, request, request.key + ".weight_global_scale");
  read_e4m3_scales(
      reader, request, request.key + ".weight_scale", [global](float scale) { return scale / global; },
      matrix);
  return load_fp4_codes(reader, request, name, std::move(weight), std::move(matrix));
}

bool is_modelopt_nvfp4(const LayerTensors& layer) {
  return layer.is(".weight", "U8") && layer.has(".weight_scale_2");
}

LinearWeight load_modelopt_nvfp4(WeightReader& reader, const LinearRequest& request,
                                 const QuantizationConfig&) {
  const std::string name = request.key + ".weight";
  CodedMatrix matrix;
  LinearWeight weight = empty_fp4(request, kNvGroup, matrix, reader.directory().at(name));
  const float global = read_global(reader, request, request.key + ".weight_scale_2");
  read_e4m3_scales(
      reader, request, request.key + ".weight_scale", [global](float scale) { return scale * global; },
      matrix);
  return load_fp4_codes(reader, request, name, std::move(weight), std::move(matrix));
}

std::vector<int64_t> describe_modelopt_nvfp4(const LayerTensors& layer) {
  std::vector<int64_t> shape = layer.at(".weight").tensor->shape;
  if (!shape.empty()) shape.back() *= 2;
  return shape;
}

}  // namespace quire
