#include "core/loader/block_tensors.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/loader/coded_tensors.h"
#include "core/loader/dense_tensors.h"
#include "kernels/interface/block_types.h"
#include "kernels/interface/half.h"

namespace quire {
namespace {

using kernels::BlockShape;
using kernels::BlockType;

// Checks the blocks that end in this piece. A block may begin in the piece before.
class ScaleCheck {
 public:
  ScaleCheck(BlockType type, std::string where) : type_(type), where_(std::move(where)) {}

  void look_at(uint64_t offset, gsl::span<const std::byte> piece) {
    const auto bytes = static_cast<size_t>(kernels::block_shape(type_).bytes);
    if (offset == 0) cut_.clear();  // the tensor is read once more
    if (!cut_.empty()) {
      const size_t missing = std::min(bytes - cut_.size(), piece.size());
      cut_.insert(cut_.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(missing));
      offset += missing;
      piece = piece.subspan(missing);
      if (cut_.size() < bytes) return;
      check(cut_, (offset - bytes) / bytes);
      cut_.clear();
    }
    const size_t whole = piece.size() / bytes * bytes;
    check(piece.first(whole), offset / bytes);
    cut_.assign(piece.begin() + static_cast<ptrdiff_t>(whole), piece.end());
  }

 private:
  void check(gsl::span<const std::byte> blocks, uint64_t first) const {
    const size_t count = blocks.size() / static_cast<size_t>(kernels::block_shape(type_).bytes);
    const size_t unsound = kernels::first_unsound_block(type_, blocks.data(), count);
    if (unsound == count) return;
    throw Error(ErrorCode::numeric, "{}: the scale of block {} is not a finite number", where_,
                first + unsound);
  }

  const BlockType type_;
  const std::string where_;
  std::vector<std::byte> cut_;  // beginning of a block
};

void require_whole_blocks(const WeightDirectory::Entry& stored, int32_t columns) {
  const BlockShape& shape = kernels::block_shape(stored.tensor->type->blocks);
  if (columns % shape.weights == 0) return;
  throw Error(ErrorCode::format, "{}: rows of {} are not a multiple of the {} weights of a block of {}",
              describe(stored), columns, shape.weights, shape.name);
}

// Returns the number in a name such as "model.layers.12.mlp.down_proj", or 0.
int32_t layer_of(std::string_view key) {
  constexpr std::string_view kLayers = "layers.";
  const size_t at = key.find(kLayers);
  int32_t layer = 0;
  if (at != std::string_view::npos)
    std::from_chars(key.data() + at + kLayers.size(), key.data() + key.size(), layer);
  return layer;
}

BlockType synthetic_type(std::string_view key) {
  const bool is_half = key.ends_with(".v_proj") || key.ends_with(".down_proj");
  return key == "lm_head" || (is_half && layer_of(key) % 2 == 0) ? BlockType::q6_k : BlockType::q4_k;
}

void write_half(std::byte* at, float value) {
  const uint16_t half = kernels::float_to_half(value);
  std::memcpy(at, &half, sizeof(half));
}

// Gives a block of random codes terms for which its weights have a mean near 0 and the given deviation.
void set_terms(BlockType type, std::byte* block, float deviation) {
  constexpr float kFactor = 32.0f;  // of all groups
  if (type == BlockType::q4_k) {
    constexpr float kMean = 7.5f, kDeviation = 4.61f;  // of codes from 0 to 15
    const float scale = deviation / (kFactor * kDeviation);
    write_half(block, scale);
    write_half(block + 2, scale * kMean);
    // The upper two bits of the first eight bytes belong to the factors of the last four groups.
    std::fill_n(block + 4, 8, std::byte{32 | 2 << 6});
    std::fill_n(block + 12, 4, std::byte{0});
  } else {
    constexpr float kDeviation = 18.5f;  // of codes from -32 to 31
    std::fill_n(block + 192, 16, std::byte{static_cast<uint8_t>(kFactor)});
    write_half(block + 208, deviation / (kFactor * kDeviation));
  }
}

}  // namespace

void require_finite_scales(HostTensor& rows, std::string where) {
  ScaleCheck check(rows.blocks(), std::move(where));
  if (UnreadTensor* const unread = rows.unread()) {
    unread->inspect_pieces(
        [check = std::move(check)](uint64_t offset, gsl::span<const std::byte> piece) mutable {
          check.look_at(offset, piece);
        });
  } else if (rows.data() != nullptr) {
    check.look_at(0, std::as_const(rows).bytes());
  }
}

bool has_blocks(const LayerTensors& layer) {
  return layer.at(".weight").tensor->type->has_blocks();
}

LinearWeight load_blocks(WeightReader& reader, const LinearRequest& request, const QuantizationConfig&) {
  const std::string name = dense_name(reader.directory(), request);
  const WeightDirectory::Entry& stored = reader.directory().at(name);
  const BlockType type = stored.tensor->type->blocks;
  require_whole_blocks(stored, request.num_in);
  if (request.part.input_major) {
    throw Error(ErrorCode::unsupported, "{}: blocks of {} cannot be stored as [inputs, outputs]",
                describe(stored), kernels::block_shape(type).name);
  }
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  BlockMatrix matrix{read_outputs(reader, request, name), type};
  matrix.rows.set_blocks(type);
  require_finite_scales(matrix.rows, describe(stored));
  weight.matrix = std::move(matrix);
  // A file of NVFP4 may have one more scale for each matrix.
  if (const std::string scale = request.key + ".scale"; reader.directory().has(scale))
    weight.prescale = reader.read_floats(scale, {1}).front();
  return weight;
}

LinearWeight synthesize_blocks(const SyntheticRequest& request, SyntheticValues& values) {
  LinearWeight weight = empty_weight(request.num_in, request.num_out);
  const BlockType type = synthetic_type(request.key);
  const BlockShape& shape = kernels::block_shape(type);
  BlockMatrix matrix{values.tensor(DType::u8, request.num_out,
                                   int64_t{request.num_in} / shape.weights * shape.bytes, request.key),
                     type};
  matrix.rows.set_blocks(type);
  if (values.has_data()) {
    const gsl::span<std::byte> bytes = matrix.rows.bytes();
    values.fill(bytes);
    const float deviation = 1.0f / std::sqrt(static_cast<float>(request.num_in));
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(shape.bytes))
      set_terms(type, bytes.data() + at, deviation);
  }
  weight.matrix = std::move(matrix);
  return weight;
}

HostTensor load_block_table(WeightReader& reader, const WeightDirectory::Entry& stored, int32_t rows,
                            int32_t columns, ReadBy by) {
  require_whole_blocks(stored, columns);
  HostTensor table = reader.read_values(stored.tensor->name, {rows, columns}, by);
  table.set_blocks(stored.tensor->type->blocks);
  require_finite_scales(table, describe(stored));
  return table;
}

}  // namespace quire
