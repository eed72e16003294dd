#include "core/models/gguf_computed.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/tensor/dtype.h"

namespace quire {
namespace {

constexpr uint64_t kFloatBytes = sizeof(float);

std::string describe(const StoredIn& stored) {
  return fmt::format("{}: tensor \"{}\"", stored.file->path(), printable(stored.tensor.name));
}

// Returns `count` elements of a matrix from `first` on, which is the beginning of a row, as `count` is a
// number of whole rows.
std::vector<float> decoded(const StoredIn& stored, uint64_t first, uint64_t count) {
  const StoredType& type = *stored.tensor.type;
  if (!type.has_blocks()) {
    const uint64_t element = type.bits / 8;
    std::vector<std::byte> bytes(count * element);
    stored.file->read_at(stored.tensor.offset_bytes + first * element, bytes);
    const TensorView view = {*type.dtype, {static_cast<int64_t>(count)}, gsl::span<const std::byte>(bytes)};
    return to_floats(view, describe(stored));
  }
  const kernels::BlockShape& shape = kernels::block_shape(type.blocks);
  const auto weights = static_cast<uint64_t>(shape.weights), block = static_cast<uint64_t>(shape.bytes);
  std::vector<std::byte> bytes(count / weights * block);
  stored.file->read_at(stored.tensor.offset_bytes + first / weights * block, bytes);
  const size_t unsound = kernels::first_unsound_block(type.blocks, bytes.data(), count / weights);
  if (unsound < count / weights)
    throw Error(ErrorCode::numeric, "{}: the scale of block {} is not a finite number", describe(stored),
                first / weights + unsound);
  std::vector<float> values(count);
  kernels::decode_blocks(type.blocks, bytes.data(), count / weights, values.data());
  return values;
}

void require_weights(const StoredIn& stored) {
  const StoredType& type = *stored.tensor.type;
  if (type.has_blocks() || type.dtype == DType::f32 || type.dtype == DType::f16 || type.dtype == DType::bf16)
    return;
  throw Error(ErrorCode::unsupported, "{}: the type {} is no type of weights", describe(stored), type.name);
}

// The expansion of a latent as one matrix.
struct LatentExpansion {
  StoredIn keys;
  StoredIn values;
  uint64_t rank = 0;
  uint64_t key_columns = 0;
  uint64_t value_columns = 0;

  uint64_t rows_of_head() const { return key_columns + value_columns; }

  // Returns the rows of one head.
  std::vector<float> head(uint64_t index) const {
    const uint64_t key_elements = rank * key_columns, value_elements = rank * value_columns;
    std::vector<float> rows(rows_of_head() * rank);
    const std::vector<float> stored = decoded(keys, index * key_elements, key_elements);
    for (uint64_t k = 0; k < key_columns; ++k)
      for (uint64_t r = 0; r < rank; ++r) rows[k * rank + r] = stored[r * key_columns + k];
    const std::vector<float> below = decoded(values, index * value_elements, value_elements);
    std::copy(below.begin(), below.end(), rows.begin() + static_cast<ptrdiff_t>(key_elements));
    return rows;
  }

  void fill(uint64_t offset, gsl::span<std::byte> out) const {
    const uint64_t head_bytes = rows_of_head() * rank * kFloatBytes;
    while (!out.empty()) {
      const std::vector<float> rows = head(offset / head_bytes);
      const auto bytes = gsl::as_bytes(gsl::span<const float>(rows)).subspan(offset % head_bytes);
      const size_t count = std::min(bytes.size(), out.size());
      std::memcpy(out.data(), bytes.data(), count);
      offset += count;
      out = out.subspan(count);
    }
  }
};

}  // namespace

uint64_t ComputedFile::add(uint64_t size_bytes, Fill fill) {
  const uint64_t offset = size_bytes_;
  size_bytes_ = checked_add(size_bytes_, size_bytes, path_);
  tensors_.push_back({offset, size_bytes, std::move(fill)});
  return offset;
}

void ComputedFile::read_at(uint64_t offset, gsl::span<std::byte> out) const {
  while (!out.empty()) {
    const auto next = std::upper_bound(tensors_.begin(), tensors_.end(), offset,
                                       [](uint64_t at, const Computed& one) { return at < one.offset; });
    Expects(next != tensors_.begin());
    const Computed& tensor = *(next - 1);
    const uint64_t within = offset - tensor.offset;
    Expects(within < tensor.size_bytes);
    const size_t count = std::min<uint64_t>(out.size(), tensor.size_bytes - within);
    tensor.fill(within, out.first(count));
    offset += count;
    out = out.subspan(count);
  }
}

TensorInfo add_logarithm(StoredIn stored, ComputedFile& file) {
  if (stored.tensor.type->dtype != DType::f32)
    throw Error(ErrorCode::unsupported, "{}: the type {} is not F32", describe(stored),
                stored.tensor.type->name);
  TensorInfo tensor = stored.tensor;
  tensor.offset_bytes =
      file.add(tensor.size_bytes, [stored = std::move(stored)](uint64_t offset, gsl::span<std::byte> out) {
        stored.file->read_at(stored.tensor.offset_bytes + offset, out);
        for (size_t i = 0; i + kFloatBytes <= out.size(); i += kFloatBytes) {
          float value = 0.0f;
          std::memcpy(&value, out.data() + i, sizeof value);
          value = std::log(-value);
          std::memcpy(out.data() + i, &value, sizeof value);
        }
      });
  return tensor;
}

TensorInfo add_latent_expansion(StoredIn keys, StoredIn values, ComputedFile& file) {
  require_weights(keys);
  require_weights(values);
  const std::vector<int64_t>& k = keys.tensor.shape;
  const std::vector<int64_t>& v = values.tensor.shape;
  if (k.size() != 3 || v.size() != 3 || k[0] != v[0] || k[1] != v[2])
    throw Error(ErrorCode::format, "{}: the shape {} does not fit {} of \"{}\"", describe(keys),
                shape_text(k), shape_text(v), printable(values.tensor.name));
  TensorInfo tensor;
  tensor.type = find_stored_type("F32");
  const auto extent = [](int64_t value) { return static_cast<uint64_t>(value); };
  const uint64_t rows = checked_mul(extent(k[0]), checked_add(extent(k[2]), extent(v[1]), "rows"), "rows");
  const std::string where = describe(keys);
  tensor.shape = {checked_cast<int64_t>(rows, where), k[1]};
  tensor.size_bytes = checked_mul(checked_mul(rows, extent(k[1]), where), kFloatBytes, where);
  LatentExpansion expansion;
  expansion.rank = extent(k[1]);
  expansion.key_columns = extent(k[2]);
  expansion.value_columns = extent(v[1]);
  expansion.keys = std::move(keys);
  expansion.values = std::move(values);
  tensor.offset_bytes = file.add(
      tensor.size_bytes, [expansion = std::move(expansion)](uint64_t offset, gsl::span<std::byte> out) {
        expansion.fill(offset, out);
      });
  return tensor;
}

}  // namespace quire
