#include "core/loader/block_tensors.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/loader/coded_tensors.h"
#include "core/loader/dense_tensors.h"
#include "kernels/interface/block_types.h"

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

HostTensor load_block_table(WeightReader& reader, const WeightDirectory::Entry& stored, int32_t rows,
                            int32_t columns, ReadBy by) {
  require_whole_blocks(stored, columns);
  HostTensor table = reader.read_values(stored.tensor->name, {rows, columns}, by);
  table.set_blocks(stored.tensor->type->blocks);
  require_finite_scales(table, describe(stored));
  return table;
}

}  // namespace quire
