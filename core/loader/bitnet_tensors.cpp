#include "core/loader/bitnet_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/loader/coded_tensors.h"
#include "core/loader/typed_tensor.h"

namespace quire {
namespace {

constexpr int32_t kPerByte = 4;  // outputs; they are a quarter of all outputs apart
constexpr size_t kPerWord = 8;
constexpr int32_t kZero = 1;  // codes 0, 1 and 2 are -1, 0 and 1
constexpr float kMaxScale = 65504.0f;

void require_ternary(gsl::span<const uint8_t> bytes, const WeightDirectory::Entry& entry) {
  const auto has_three = [](uint8_t byte) { return (byte & (byte >> 1) & 0x55U) != 0; };
  const auto bad = std::find_if(bytes.begin(), bytes.end(), has_three);
  if (bad == bytes.end()) return;
  throw Error(ErrorCode::numeric,
              "{}: element {} has the code 3, but only 0, 1 and 2 are valid; create or copy the file again",
              describe(entry), bad - bytes.begin());
}

// Returns the codes of eight bytes at that bit position, four bits each.
uint32_t word_of(uint64_t bytes, int32_t shift) {
  uint64_t codes = (bytes >> shift) & 0x0303030303030303U;
  codes = (codes | codes >> 4) & 0x00FF00FF00FF00FFU;
  codes = (codes | codes >> 8) & 0x0000FFFF0000FFFFU;
  return static_cast<uint32_t>(codes | codes >> 16);
}

void unpack_output(gsl::span<const uint8_t> bytes, int32_t shift, gsl::span<uint32_t> words) {
  for (size_t w = 0; w < words.size(); ++w) {
    const size_t first = w * kPerWord;
    uint64_t eight = 0;
    std::memcpy(&eight, bytes.data() + first, std::min(kPerWord, bytes.size() - first));
    words[w] = word_of(eight, shift);
  }
}

// Returns the codes in words of eight inputs, output by output. 4 bits is the narrowest width that kernels
// read.
HostTensor read_codes(WeightReader& reader, const LinearRequest& request, const std::string& name) {
  const int64_t quarter = request.num_stored() / kPerByte;
  const HostTensor stored = read_typed_values(reader, name, {quarter, request.num_in}, DType::u8);
  const auto inputs = static_cast<size_t>(request.num_in);
  const size_t words = ceil_div(inputs, kPerWord);
  const std::vector<int64_t> shape = {request.num_out, static_cast<int64_t>(words)};
  const auto num_words = checked_mul(static_cast<size_t>(request.num_out), words, "codes of a matrix");
  const auto size = checked_mul(num_words, sizeof(uint32_t), "bytes of a matrix");
  if (stored.data() == nullptr) return HostTensor::without_data(DType::i32, shape, size);
  const WeightDirectory::Entry& entry = reader.directory().at(name);
  require_ternary(stored.elements<uint8_t>(), entry);
  HostTensor codes(DType::i32, shape, size, describe(entry));
  for (int64_t j = 0; j < request.num_out; ++j) {
    const int64_t output = request.part.first + j * request.part.step;
    const auto row = static_cast<size_t>(output % quarter);
    unpack_output(stored.elements<uint8_t>().subspan(row * inputs, inputs),
                  static_cast<int32_t>(2 * (output / quarter)),
                  codes.elements<uint32_t>().subspan(static_cast<size_t>(j) * words, words));
  }
  return codes;
}

// Returns the one scale of the matrix. The older of the two layer classes stores the factor that weights were
// multiplied by before rounding, which is the inverse.
float read_scale(WeightReader& reader, const std::string& name, BitNetScale kind) {
  const WeightDirectory::Entry& entry = reader.directory().at(name);
  const std::vector<float> values = reader.read_floats(name, {1});
  const float scale = kind == BitNetScale::divides ? 1.0f / values[0] : values[0];
  if (std::abs(scale) <= kMaxScale) return scale;
  throw Error(ErrorCode::numeric, "{}: the scale {} gives weights of {}, above the limit of {}",
              describe(entry), values[0], scale, kMaxScale);
}

void check_config(const LayerTensors& layer, BitNetScale kind) {
  if (kind == BitNetScale::none) {
    throw Error(ErrorCode::format,
                "{}: packed like BitNet weights, but config.json lacks quantization_config with quant_method "
                "\"bitnet\" and the linear_class, which defines how weight_scale is applied",
                describe(layer.at(".weight")));
  }
  if (kind == BitNetScale::multiplies && layer.has(".bias")) {
    throw Error(ErrorCode::unsupported,
                "{}: a bias of the class autobitlinear, which weight_scale multiplies too, is not supported",
                describe(layer.at(".bias")));
  }
}

}  // namespace

bool is_bitnet(const LayerTensors& layer) {
  return layer.is(".weight", "U8") && layer.extent(".weight_scale", -1) == 1 && !layer.has(".weight_scale_2");
}

LinearWeight load_bitnet(WeightReader& reader, const LinearRequest& request,
                         const QuantizationConfig& quantization) {
  reject_stack(request, "bitnet");
  const LayerTensors layer(reader.directory(), request.key);
  check_config(layer, quantization.bitnet_scale);
  if (request.num_stored() % kPerByte != 0) {
    throw Error(ErrorCode::format, "{}: {} outputs are not a multiple of {}", describe(layer.at(".weight")),
                request.num_stored(), kPerByte);
  }
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  CodedMatrix matrix;
  matrix.zeros.offset = kZero;
  matrix.num_groups = 1;
  matrix.group_of_row.assign(static_cast<size_t>(request.num_in), 0);
  matrix.scale_dtype = DType::f32;
  const float scale = read_scale(reader, layer.name(".weight_scale"), quantization.bitnet_scale);
  const std::vector<float> scales(static_cast<size_t>(request.num_out), scale);
  const auto bytes = gsl::as_bytes(gsl::span<const float>(scales));
  matrix.scales.resize(bytes.size());
  std::memcpy(matrix.scales.data(), bytes.data(), bytes.size());
  matrix.codes = read_codes(reader, request, layer.name(".weight"));
  matrix.row_words = 1;
  matrix.column_words = matrix.codes.shape()[1];
  weight.matrix = std::move(matrix);
  return weight;
}

std::vector<int64_t> describe_bitnet(const LayerTensors& layer) {
  std::vector<int64_t> shape = layer.at(".weight").tensor->shape;
  if (!shape.empty()) shape[0] *= kPerByte;
  return shape;
}

}  // namespace quire
