#include "core/loader/fp8_tensors.h"

#include <algorithm>
#include <array>

#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

using Shape = std::vector<int64_t>;

// Both multiply the codes: "inv" speaks of the quantizer's division.
constexpr std::array<std::string_view, 2> kScaleSuffixes = {".weight_scale", ".weight_scale_inv"};
constexpr std::array<std::string_view, 2> kActivationSuffixes = {".input_scale", ".input_scale_ub"};

const WeightDirectory::Entry& find_scales(const WeightDirectory& directory, const LinearRequest& request) {
  const WeightDirectory::Entry* found = nullptr;
  for (const std::string_view suffix : kScaleSuffixes) {
    const WeightDirectory::Entry* entry = directory.find(request.key + std::string(suffix));
    if (!entry) continue;
    if (found) {
      throw Error(ErrorCode::format, "{}: both this and \"{}\" are there; one of them must go",
                  describe(*found), printable(entry->tensor->name));
    }
    found = entry;
  }
  if (found) return *found;
  throw Error(ErrorCode::format, "{}: F8_E4M3 needs its scales, and no file holds \"{}{}\" or \"{}{}\"",
              describe(directory.at(request.key + ".weight")), printable(request.key), kScaleSuffixes[0],
              printable(request.key), kScaleSuffixes[1]);
}

// Outputs and inputs that share a scale.
struct ScaleBlock {
  int32_t out = 0;
  int32_t in = 0;
};

Shape shape_of_blocks(const LinearRequest& request, const ScaleBlock& block) {
  const auto num = [](int32_t size, int32_t step) {
    return static_cast<int64_t>(ceil_div(static_cast<uint64_t>(size), static_cast<uint64_t>(step)));
  };
  return {num(request.num_out, block.out), num(request.num_in, block.in)};
}

// What shares a scale is told by the shape, and of blocks by the configuration.
ScaleBlock block_of(const WeightDirectory::Entry& scales, const LinearRequest& request) {
  const Shape& shape = scales.tensor->shape;
  const auto is = [&shape](const Shape& other) { return shape == other; };
  if (is({}) || is({1}) || is({1, 1})) return {request.num_out, request.num_in};
  if (is({request.num_out}) || is({request.num_out, 1})) return {1, request.num_in};
  if (request.fp8_block_out < 1 || request.fp8_block_in < 1) {
    throw Error(ErrorCode::format,
                "{}: has the shape {} where [1] or [{}, 1] is needed; for blocks config.json must say "
                "quantization_config.weight_block_size",
                describe(scales), shape_text(shape), request.num_out);
  }
  const ScaleBlock block = {std::min(request.fp8_block_out, request.num_out),
                            std::min(request.fp8_block_in, request.num_in)};
  const Shape needed = shape_of_blocks(request, block);
  if (is(needed)) return block;
  throw Error(ErrorCode::format,
              "{}: has the shape {} where the blocks of {} x {} weights that config.json speaks of need {}",
              describe(scales), shape_text(shape), request.fp8_block_out, request.fp8_block_in,
              shape_text(needed));
}

std::vector<float> read_scales(WeightReader& reader, const WeightDirectory::Entry& entry) {
  std::vector<float> scales = reader.read_floats(entry.tensor->name, entry.tensor->shape);
  const auto bad = std::find_if(scales.begin(), scales.end(),
                                [](float scale) { return scale < 0.0f || scale > kernels::kMaxE4m3Scale; });
  if (bad == scales.end()) return scales;
  throw Error(ErrorCode::numeric, "{}: element {} is {} where a scale is from 0 to {:.1f}", describe(entry),
              bad - scales.begin(), *bad, kernels::kMaxE4m3Scale);
}

void require_numbers(const HostTensor& weight, const WeightDirectory::Entry& entry) {
  const auto codes = weight.elements<uint8_t>();
  // Only the magnitude of no number carries into the highest bit. Without a way out of the loop many codes
  // are looked at at once: 27 GB/s against 4.8 of the search below.
  uint8_t carries = 0;
  for (const uint8_t code : codes) carries = static_cast<uint8_t>(carries | ((code & 0x7fU) + 1U));
  if (carries < 0x80) return;
  const auto bad = std::find_if(codes.begin(), codes.end(), kernels::is_e4m3_nan);
  throw Error(ErrorCode::numeric, "{}: element {} is not a number; the file must be made or copied anew",
              describe(entry), bad - codes.begin());
}

}  // namespace

DenseMatrix load_fp8(WeightReader& reader, const LinearRequest& request) {
  const WeightDirectory& directory = reader.directory();
  const WeightDirectory::Entry& stored = directory.at(request.key + ".weight");
  require_shape(stored, {request.num_out, request.num_in});
  const WeightDirectory::Entry& scales = find_scales(directory, request);
  const ScaleBlock block = block_of(scales, request);
  for (const std::string_view suffix : kActivationSuffixes) reader.skip(request.key + std::string(suffix));
  DenseMatrix matrix;
  matrix.scale_out = block.out;
  matrix.scale_in = block.in;
  matrix.weight = reader.read_values(stored.tensor->name, stored.tensor->shape);
  if (matrix.weight.data() == nullptr) {
    reader.skip(scales.tensor->name);
    return matrix;
  }
  require_numbers(matrix.weight, stored);
  matrix.scales = read_scales(reader, scales);
  return matrix;
}

}  // namespace quire
