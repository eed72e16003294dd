#include "core/loader/fp8_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/loader/coded_tensors.h"
#include "core/loader/dense_tensors.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

using Shape = std::vector<int64_t>;

// All are factors of the codes; "inv" refers to the division by the quantizer. The last one is Mistral's.
constexpr std::array<std::string_view, 3> kScaleSuffixes = {".weight_scale", ".weight_scale_inv",
                                                            ".qscale_weight"};

const WeightDirectory::Entry& find_scales(const WeightDirectory& directory, const LinearRequest& request) {
  const WeightDirectory::Entry* found = nullptr;
  for (const std::string_view suffix : kScaleSuffixes) {
    const WeightDirectory::Entry* entry = directory.find(request.key + std::string(suffix));
    if (!entry) continue;
    if (found) {
      throw Error(ErrorCode::format, "{}: the file has both this and \"{}\"; remove one of them",
                  describe(*found), printable(entry->tensor->name));
    }
    found = entry;
  }
  if (found) return *found;
  throw Error(ErrorCode::format, "{}: F8_E4M3 needs its scales, and no file holds \"{}{}\" or \"{}{}\"",
              describe(directory.at(dense_name(directory, request))), printable(request.key),
              kScaleSuffixes[0], printable(request.key), kScaleSuffixes[1]);
}

// Numbers of outputs and inputs that share a scale.
struct ScaleBlock {
  int32_t out = 0;
  int32_t in = 0;
};

Shape shape_of_blocks(const LinearRequest& request, const ScaleBlock& block) {
  const auto num = [](int32_t size, int32_t step) {
    return static_cast<int64_t>(ceil_div(static_cast<uint64_t>(size), static_cast<uint64_t>(step)));
  };
  return stored_shape(request, {num(request.num_stored(), block.out), num(request.num_in, block.in)});
}

// Derives which weights share a scale from the shape of the scales and, for blocks, from the configuration.
ScaleBlock block_of(const WeightDirectory::Entry& scales, const LinearRequest& request,
                    const QuantizationScheme& scheme) {
  const Shape& shape = scales.tensor->shape;
  const int32_t outputs = request.num_stored();
  const auto is = [&](Shape of_one) { return shape == stored_shape(request, std::move(of_one)); };
  if (is({}) || is({1}) || is({1, 1})) return {outputs, request.num_in};
  if (is({outputs}) || is({outputs, 1})) return {1, request.num_in};
  if (scheme.block_out < 1 || scheme.block_in < 1) {
    throw Error(ErrorCode::format,
                "{}: has the shape {}, but [1] or [{}, 1] is needed; for blocks, set "
                "quantization_config.weight_block_size in config.json",
                describe(scales), shape_text(shape), outputs);
  }
  const ScaleBlock block = {std::min(scheme.block_out, outputs), std::min(scheme.block_in, request.num_in)};
  const Shape needed = shape_of_blocks(request, block);
  if (shape == needed) return block;
  throw Error(ErrorCode::format,
              "{}: has the shape {}, but blocks of {} x {} weights, as in config.json, need {}",
              describe(scales), shape_text(shape), scheme.block_out, scheme.block_in, shape_text(needed));
}

std::vector<float> read_scales(WeightReader& reader, const WeightDirectory::Entry& entry) {
  std::vector<float> scales = reader.read_floats(entry.tensor->name, entry.tensor->shape);
  const auto bad = std::find_if(scales.begin(), scales.end(),
                                [](float scale) { return scale < 0.0f || scale > kernels::kMaxE4m3Scale; });
  if (bad == scales.end()) return scales;
  throw Error(ErrorCode::numeric, "{}: element {} is {}, but a scale must be from 0 to {:.1f}",
              describe(entry), bad - scales.begin(), *bad, kernels::kMaxE4m3Scale);
}

// Checks one code per byte; `first` is the index of the first code in the tensor.
void require_numbers(gsl::span<const std::byte> bytes, uint64_t first, const WeightDirectory::Entry& entry) {
  const gsl::span<const uint8_t> codes(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  // A magnitude plus one carries into the highest bit only for NaN. Without an early exit the compiler
  // vectorizes this loop: 27 GB/s instead of 4.8 GB/s for the search below.
  uint8_t carries = 0;
  for (const uint8_t code : codes) carries = static_cast<uint8_t>(carries | ((code & 0x7fU) + 1U));
  if (carries < 0x80) return;
  const auto bad = std::find_if(codes.begin(), codes.end(), kernels::is_e4m3_nan);
  throw Error(ErrorCode::numeric, "{}: element {} is not a number; create or copy the file again",
              describe(entry), first + static_cast<uint64_t>(bad - codes.begin()));
}

// Checks the codes now or, for a tensor still in its file, as they are read.
void require_numbers(const HostTensor& weight, const WeightDirectory::Entry& entry) {
  if (UnreadTensor* unread = weight.unread()) {
    unread->inspect_pieces([&entry](uint64_t offset, gsl::span<const std::byte> piece) {
      require_numbers(piece, offset, entry);
    });
  } else {
    require_numbers(weight.bytes(), 0, entry);
  }
}

// Expands the scales of a part to one per output.
void keep_scales_of_part(const LinearRequest& request, DenseMatrix& matrix) {
  const auto in_blocks = ceil_div(static_cast<size_t>(request.num_in), static_cast<size_t>(matrix.scale_in));
  const auto out_blocks =
      ceil_div(static_cast<size_t>(request.num_stored()), static_cast<size_t>(matrix.scale_out));
  const size_t first = static_cast<size_t>(request.part.expert) * out_blocks;
  std::vector<float> kept;
  for (int32_t j = 0; j < request.num_out; ++j) {
    const int32_t stored = request.part.first + j * request.part.step;
    const auto row = (first + static_cast<size_t>(stored / matrix.scale_out)) * in_blocks;
    kept.insert(kept.end(), matrix.scales.begin() + static_cast<ptrdiff_t>(row),
                matrix.scales.begin() + static_cast<ptrdiff_t>(row + in_blocks));
  }
  matrix.scales = std::move(kept);
}

}  // namespace

bool is_fp8(const LayerTensors& layer) {
  return layer.is(".weight", "F8_E4M3");
}

LinearWeight load_fp8(WeightReader& reader, const LinearRequest& request,
                      const QuantizationConfig& quantization) {
  const WeightDirectory& directory = reader.directory();
  const std::string name = dense_name(directory, request);
  const WeightDirectory::Entry& stored = directory.at(name);
  require_shape(stored, stored_shape(request, {request.num_stored(), request.num_in}));
  const WeightDirectory::Entry& scales = find_scales(directory, request);
  const ScaleBlock block = block_of(scales, request, quantization.scheme_of(request.key));
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  DenseMatrix matrix;
  matrix.scale_out = block.out;
  matrix.scale_in = block.in;
  matrix.weight = read_outputs(reader, request, name);
  if (reader.scope() == ReadScope::all) {
    require_numbers(matrix.weight, stored);
    matrix.scales = read_scales(reader, scales);
    if (!request.is_whole()) keep_scales_of_part(request, matrix);
  } else {
    reader.skip(scales.tensor->name);
  }
  if (!request.is_whole()) matrix.scale_out = 1;
  weight.matrix = std::move(matrix);
  return weight;
}

// Makes uniform codes, whose root mean square is 107, with a scale for each block of 128 by 128.
LinearWeight synthesize_fp8(const SyntheticRequest& request, SyntheticValues& values) {
  constexpr int32_t kBlock = 128;
  // Published models do not quantize it.
  if (request.key == "lm_head") return synthesize_dense(request, values);
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  DenseMatrix matrix;
  matrix.weight = values.tensor(DType::f8_e4m3, request.num_out, request.num_in, request.key);
  matrix.scale_out = std::min(kBlock, request.num_out);
  matrix.scale_in = std::min(kBlock, request.num_in);
  if (values.has_data()) {
    values.fill(matrix.weight.bytes());
    for (uint8_t& code : matrix.weight.elements<uint8_t>())
      code = static_cast<uint8_t>(code ^ (kernels::is_e4m3_nan(code) ? 1U : 0U));
    const auto num_blocks = ceil_div(static_cast<uint64_t>(request.num_out), kBlock) *
                            ceil_div(static_cast<uint64_t>(request.num_in), kBlock);
    matrix.scales.assign(num_blocks, 1.0f / (107.0f * std::sqrt(static_cast<float>(request.num_in))));
  }
  weight.matrix = std::move(matrix);
  return weight;
}

}  // namespace quire
