#include "core/loader/packed_tensors.h"

#include "core/base/error.h"
#include "core/loader/coded_tensors.h"
#include "core/loader/typed_tensor.h"

namespace quire {
namespace {

int64_t words_for(int64_t codes, int64_t bits) {
  return (codes * bits + 31) / 32;
}

// Returns the bits of a code, derived from the number of words that the inputs of an output take.
int32_t check_bits(const LayerTensors& layer, const LinearRequest& request) {
  const int64_t words = layer.extent(".weight_packed", -1);
  for (const int32_t bits : {4, 8}) {
    if (words == words_for(request.num_in, bits)) return bits;
  }
  const WeightDirectory::Entry& entry = layer.at(".weight_packed");
  for (const int32_t bits : {1, 2, 3, 5, 6, 7}) {
    if (words != words_for(request.num_in, bits)) continue;
    throw Error(ErrorCode::unsupported, "{}: packed integers of {} bits are not supported, only of 4 and 8",
                describe(entry), bits);
  }
  throw Error(ErrorCode::format, "{}: has the shape {}, but {} inputs need {} words of 4 bits or {} of 8",
              describe(entry), shape_text(entry.tensor->shape), request.num_in, words_for(request.num_in, 4),
              words_for(request.num_in, 8));
}

// Checks the bits of a tensor against config.json, which may give them per module.
void require_bits(const LayerTensors& layer, const QuantizationScheme& scheme, int32_t bits) {
  if (scheme.bits == 0 || scheme.bits == bits) return;
  throw Error(ErrorCode::format, "{}: has {} bits, but config.json specifies {}",
              describe(layer.at(".weight_packed")), bits, scheme.bits);
}

// Checks that the shape before packing is the layer's.
void check_shape_tensor(WeightReader& reader, const LayerTensors& layer, const LinearRequest& request) {
  if (!layer.has(".weight_shape")) return;
  if (request.part.num_experts > 0) return reader.skip(layer.name(".weight_shape"));
  const HostTensor shape = read_typed(reader, layer.name(".weight_shape"), {2}, DType::i64);
  const auto sizes = shape.elements<int64_t>();
  if (sizes[0] == request.num_stored() && sizes[1] == request.num_in) return;
  throw Error(ErrorCode::format, "{}: contains [{}, {}], but [{}, {}] is needed",
              describe(layer.at(".weight_shape")), sizes[0], sizes[1], request.num_stored(), request.num_in);
}

// Reads zeros packed along the outputs, [words of outputs, groups].
void read_packed_zeros(WeightReader& reader, const LinearRequest& request, CodedMatrix& matrix) {
  const std::string name = request.key + ".weight_zero_point";
  const int64_t words = words_for(request.num_stored(), matrix.bits), per_word = 32 / matrix.bits;
  require_type(reader.directory().at(name), DType::i32);
  const RowRange of_expert = {words * std::max(request.part.num_experts, 1), words * request.part.expert,
                              words};
  const HostTensor tensor =
      reader.read_rows(name, stored_shape(request, {words, matrix.num_groups}), of_expert);
  if (tensor.data() == nullptr) return;
  const auto stored = tensor.elements<uint32_t>();
  matrix.zeros.words = pack_zeros(request, matrix, request.num_out, [&](int64_t g, int64_t n) {
    const uint32_t word = stored[static_cast<size_t>(n / per_word * matrix.num_groups + g)];
    return (word >> (n % per_word * matrix.bits)) & ((1U << matrix.bits) - 1U);
  });
}

// Reads the zero points. Without them the zero is the middle of the code range.
void read_zeros(WeightReader& reader, const LayerTensors& layer, const LinearRequest& request,
                CodedMatrix& matrix) {
  matrix.zeros.stored = layer.has(".weight_zero_point");
  if (matrix.zeros.stored) {
    read_packed_zeros(reader, request, matrix);
  } else {
    matrix.zeros.offset = 1 << (matrix.bits - 1);
  }
}

}  // namespace

bool is_packed(const LayerTensors& layer) {
  return layer.is(".weight_packed", "I32");
}

LinearWeight load_packed(WeightReader& reader, const LinearRequest& request,
                         const QuantizationConfig& quantization) {
  const LayerTensors layer(reader.directory(), request.key);
  const WeightDirectory::Entry& scales = layer.at(".weight_scale");
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  CodedMatrix matrix;
  matrix.bits = check_bits(layer, request);
  check_shape_tensor(reader, layer, request);
  const int64_t num_groups = layer.extent(".weight_scale", -1);
  if (num_groups < 1 || num_groups > request.num_in) {
    throw Error(ErrorCode::format, "{}: {} groups for {} inputs", describe(scales), num_groups,
                request.num_in);
  }
  matrix.num_groups = static_cast<int32_t>(num_groups);
  const QuantizationScheme& scheme = quantization.scheme_of(request.key);
  require_bits(layer, scheme, matrix.bits);
  const int32_t group_size = num_groups == 1 ? -1 : scheme.group_size;
  matrix.group_of_row =
      read_group_of_row(reader, request, layer.name(".weight_g_idx"), matrix.num_groups, group_size, scales);
  read_scales(reader, request, layer.name(".weight_scale"), ScaleOrder::by_output, matrix);
  read_zeros(reader, layer, request, matrix);
  read_codes_by_output(reader, request, layer.name(".weight_packed"),
                       {words_for(request.num_in, matrix.bits)}, DType::i32, matrix);
  weight.matrix = std::move(matrix);
  return weight;
}

std::vector<int64_t> describe_packed(const LayerTensors& layer) {
  const WeightDirectory::Entry& entry = layer.at(".weight_packed");
  std::vector<int64_t> shape = entry.tensor->shape;
  if (shape.empty()) return shape;
  // The zero point has outputs / (codes per word) rows, which gives the codes per word.
  const int64_t outputs = layer.extent(".weight_packed", -2), zeros = layer.extent(".weight_zero_point", -2);
  const int64_t per_word =
      zeros > 0 && words_for(outputs, 8) == zeros && words_for(outputs, 4) != zeros ? 4 : 8;
  shape.back() *= per_word;
  return shape;
}

}  // namespace quire
