#include "core/loader/exl3_tensors.h"

#include <cmath>

#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/loader/coded_tensors.h"
#include "core/loader/exl2_tensors.h"
#include "core/loader/typed_tensor.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

using kernels::hadamard_padded;
using kernels::kTrellisTile;
using kernels::TrellisCodebook;

constexpr uint16_t kHalfOne = 0x3c00;
constexpr uint16_t kHalfMinusOne = 0xbc00;

// Returns whether the layer has the tensor of that codebook. Its value is the codebook's multiplier.
bool has_codebook(WeightReader& reader, const LinearRequest& request, const char* suffix,
                  TrellisCodebook codebook) {
  const std::string name = request.key + suffix;
  const WeightDirectory::Entry* entry = reader.directory().find(name);
  if (entry == nullptr) return false;
  require_type(*entry, DType::i32);
  if (entry->tensor->num_elements() != 1)
    throw Error(ErrorCode::format, "{}: has the shape {}, but one number is needed", describe(*entry),
                shape_text(entry->tensor->shape));
  const HostTensor tensor = reader.read(name);
  const uint32_t value = tensor.elements<uint32_t>().front();
  if (value == kernels::trellis_multiplier(codebook)) return true;
  throw Error(ErrorCode::unsupported,
              "{}: the codebook with the multiplier {:#x} is not supported, only {:#x}", describe(*entry),
              value, kernels::trellis_multiplier(codebook));
}

TrellisCodebook read_codebook(WeightReader& reader, const LinearRequest& request) {
  const bool is_mcg = has_codebook(reader, request, ".mcg", TrellisCodebook::mcg);
  const bool is_mul1 = has_codebook(reader, request, ".mul1", TrellisCodebook::mul1);
  if (is_mcg && is_mul1)
    throw Error(ErrorCode::format, "{}: the layer has two codebooks, mcg and mul1; remove one of them",
                describe(reader.directory().at(request.key + ".trellis")));
  return is_mcg ? TrellisCodebook::mcg : is_mul1 ? TrellisCodebook::mul1 : TrellisCodebook::three_inst;
}

// Returns twice the bits of a weight.
int32_t check_width(const WeightDirectory::Entry& trellis, TrellisCodebook codebook) {
  const int64_t words = trellis.tensor->shape[2];
  const int64_t half_bits = words / 8;
  if (words % 8 != 0 || words < 16 || words > kernels::trellis_tile_words(16))
    throw Error(ErrorCode::format,
                "{}: tiles of {} words are not tiles of 1 to 8 bits, which have 16 words for each bit",
                describe(trellis), words);
  const auto width = static_cast<int32_t>(half_bits);
  if (!kernels::is_trellis_width(width, codebook))
    throw Error(ErrorCode::unsupported,
                "{}: {} bits are not supported; 1.5, 2.5 and 3.5 bits need the codebook mul1",
                describe(trellis), static_cast<double>(half_bits) / 2);
  return width;
}

void check_tiles(const WeightDirectory::Entry& trellis, const LinearRequest& request, int32_t padded_out) {
  const int64_t rows = hadamard_padded(request.num_in) / kTrellisTile, columns = padded_out / kTrellisTile;
  if (trellis.tensor->shape[0] == rows && trellis.tensor->shape[1] == columns) return;
  throw Error(ErrorCode::format, "{}: has {} x {} tiles, but {} inputs and {} outputs need {} x {}",
              describe(trellis), trellis.tensor->shape[0], trellis.tensor->shape[1], request.num_in,
              request.num_stored(), rows, columns);
}

// Reads scales of f16 or, in files of the first versions, their signs: bit i of word j is that of element
// 16j + i, and 1 means -1.
std::vector<uint16_t> read_scales(WeightReader& reader, const LinearRequest& request, const char* suffix,
                                  const char* suffix_of_signs, int32_t count) {
  const WeightDirectory& directory = reader.directory();
  const std::string name = request.key + suffix, signs = request.key + suffix_of_signs;
  if (directory.has(name) || !directory.has(signs)) {
    const HostTensor tensor = read_typed(reader, name, {count}, DType::f16);
    const auto halves = tensor.elements<uint16_t>();
    require_finite_halves(halves, describe(directory.at(name)));
    reader.skip(signs);
    return {halves.begin(), halves.end()};
  }
  const HostTensor tensor = read_typed(reader, signs, {count / 16}, DType::i16);
  std::vector<uint16_t> scales;
  scales.reserve(static_cast<size_t>(count));
  for (const uint16_t word : tensor.elements<uint16_t>())
    for (int bit = 0; bit < 16; ++bit) scales.push_back((word >> bit & 1) != 0 ? kHalfMinusOne : kHalfOne);
  return scales;
}

// Selects the stored outputs of a slice.
void select_outputs(const LinearRequest& request, LinearWeight& weight) {
  if (request.is_whole()) return;
  for (int32_t j = 0; j < request.num_out; ++j)
    weight.column_order.push_back(request.part.first + j * request.part.step);
}

}  // namespace

LinearWeight load_exl3(WeightReader& reader, const LinearRequest& request, const QuantizationConfig&) {
  reject_stack(request, "exl3");
  const WeightDirectory::Entry& trellis = reader.directory().at(request.key + ".trellis");
  require_rank(trellis, 3);
  TrellisMatrix matrix;
  matrix.codebook = read_codebook(reader, request);
  matrix.half_bits = check_width(trellis, matrix.codebook);
  LinearWeight weight;
  weight.num_in = request.num_in;
  weight.num_out = request.num_out;
  weight.padded_out = hadamard_padded(request.num_stored());
  check_tiles(trellis, request, weight.padded_out);
  matrix.input_scales = read_scales(reader, request, ".suh", ".su", hadamard_padded(request.num_in));
  matrix.output_scales = read_scales(reader, request, ".svh", ".sv", weight.padded_out);
  matrix.tiles =
      read_typed_values(reader, trellis.tensor->name, trellis.tensor->shape, DType::i16, request.read_by);
  select_outputs(request, weight);
  weight.matrix = std::move(matrix);
  return weight;
}

std::vector<int64_t> describe_exl3(const LayerTensors& layer) {
  const auto weights = [&layer](int axis) {
    constexpr int64_t kMaxTiles = int64_t{1} << 32;
    const int64_t tiles = layer.extent(".trellis", axis);
    return tiles <= kMaxTiles ? tiles * kTrellisTile : 0;  // an empty tensor may have any extents
  };
  return {weights(1), weights(0)};
}

LinearWeight synthesize_exl3(const SyntheticRequest& request, SyntheticValues& values) {
  LinearWeight weight;
  weight.num_in = request.num_in;
  weight.num_out = request.num_out;
  weight.padded_out = hadamard_padded(request.num_out);
  TrellisMatrix matrix;
  matrix.codebook = TrellisCodebook::mul1;
  const auto half_bits = static_cast<int32_t>(std::lround(2 * request.bits));
  // Between the widths that files have there are none above 3.5 bits.
  matrix.half_bits = kernels::is_trellis_width(half_bits, matrix.codebook) ? half_bits : half_bits / 2 * 2;
  const auto inputs = static_cast<size_t>(hadamard_padded(request.num_in));
  const auto outputs = static_cast<size_t>(weight.padded_out);
  matrix.tiles =
      values.tensor(DType::i16, static_cast<int64_t>(inputs / kTrellisTile * (outputs / kTrellisTile)),
                    kernels::trellis_tile_words(matrix.half_bits), request.key);
  if (values.has_data()) values.fill(matrix.tiles.bytes());
  // Values of mul1 have a deviation of 1.
  const float deviation = 1.0f / std::sqrt(static_cast<float>(request.num_in));
  matrix.input_scales.assign(inputs, kHalfOne);
  matrix.output_scales.assign(outputs, kernels::float_to_half(deviation));
  weight.matrix = std::move(matrix);
  return weight;
}

}  // namespace quire
