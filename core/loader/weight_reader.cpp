#include "core/loader/weight_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/checked_math.h"
#include "core/base/error.h"

namespace quire {
namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;

DType dtype_of(const WeightDirectory::Entry& entry) {
  const StoredType& type = *entry.tensor->type;
  if (type.dtype) return *type.dtype;
  throw Error(ErrorCode::unsupported, "{}: the type {} cannot be read", describe(entry), type.name);
}

// Returns the shape of a stack whose matrices are concatenated row-wise into one matrix.
std::vector<int64_t> stacked_shape(const std::vector<int64_t>& shape) {
  if (shape.size() != 3) return shape;
  return {shape[0] * shape[1], shape[2]};
}

size_t size_of(const WeightDirectory::Entry& entry) {
  return checked_cast<size_t>(entry.tensor->size_bytes, entry.tensor->name);
}

}  // namespace

std::string describe(const WeightDirectory::Entry& entry) {
  return fmt::format("{}: tensor \"{}\"", entry.file->path(), printable(entry.tensor->name));
}

void require_shape(const WeightDirectory::Entry& entry, const std::vector<int64_t>& shape) {
  if (entry.tensor->shape == shape) return;
  throw Error(ErrorCode::format, "{}: has the shape {}, but {} is needed", describe(entry),
              shape_text(entry.tensor->shape), shape_text(shape));
}

WeightReader::WeightReader(const WeightDirectory& directory, LoadMonitor monitor, ReadScope scope)
    : directory_(directory), monitor_(std::move(monitor)), scope_(scope) {}

HostTensor WeightReader::read(std::string_view name) {
  const WeightDirectory::Entry& entry = directory_.at(name);
  HostTensor tensor(dtype_of(entry), entry.tensor->shape, size_of(entry), describe(entry));
  fill(entry, tensor.bytes());
  see(entry.tensor->name);
  return tensor;
}

HostTensor WeightReader::read_values(std::string_view name, const std::vector<int64_t>& shape, ReadBy by) {
  if (scope_ == ReadScope::all && by == ReadBy::host) return read(name, shape);
  const WeightDirectory::Entry& entry = directory_.at(name);
  require_shape(entry, shape);
  see(entry.tensor->name);
  if (scope_ == ReadScope::layout) return HostTensor::without_data(dtype_of(entry), shape, size_of(entry));
  return leave(entry, shape, size_of(entry), entry.tensor->offset_bytes, claim_count(entry.tensor->name));
}

// Returns a tensor whose bytes stay in the file. A device may read it more than once: for an embedding, and
// for the head that is tied to it. Only the first read counts as progress.
HostTensor WeightReader::leave(const WeightDirectory::Entry& entry, std::vector<int64_t> shape, size_t bytes,
                               uint64_t offset, bool counts) {
  const auto read_piece = [this, &entry, first = offset, counts, counted = uint64_t{0}](
                              uint64_t at, gsl::span<std::byte> out) mutable {
    const bool is_new = at >= counted;
    fill_from(entry, first + at, counts && is_new, out);
    if (is_new) counted = at + out.size();
  };
  return HostTensor::in_file(dtype_of(entry), std::move(shape), bytes, read_piece);
}

HostTensor WeightReader::read(std::string_view name, const std::vector<int64_t>& shape) {
  require_shape(directory_.at(name), shape);
  return read(name);
}

std::vector<float> WeightReader::read_floats(std::string_view name, const std::vector<int64_t>& shape) {
  const HostTensor tensor = read(name, shape);
  const std::string where = describe(directory_.at(name));
  std::vector<float> values = to_floats(tensor.view(), where);
  if (const float added = directory_.at(name).tensor->added; added != 0.0f)
    for (float& value : values) value -= added;
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad != values.end()) {
    throw Error(ErrorCode::numeric, "{}: element {} is not a finite number", where, bad - values.begin());
  }
  return values;
}

HostTensor WeightReader::read_rows(std::string_view name, const std::vector<int64_t>& shape,
                                   const RowRange& rows, ReadBy by) {
  const WeightDirectory::Entry& entry = directory_.at(name);
  if (entry.tensor->shape != stacked_shape(shape)) require_shape(entry, shape);
  Expects(rows.num_rows > 0 && rows.first >= 0 && rows.count > 0 && rows.count <= rows.num_rows - rows.first);
  const size_t row_bytes = size_of(entry) / static_cast<size_t>(rows.num_rows);
  const size_t bytes = row_bytes * static_cast<size_t>(rows.count);
  const int64_t columns = static_cast<int64_t>(row_bytes / kernels::dtype_bytes(dtype_of(entry)));
  see(entry.tensor->name);
  if (scope_ == ReadScope::layout)
    return HostTensor::without_data(dtype_of(entry), {rows.count, columns}, bytes);
  const uint64_t offset = entry.tensor->offset_bytes + static_cast<uint64_t>(rows.first) * row_bytes;
  if (by == ReadBy::device) return leave(entry, {rows.count, columns}, bytes, offset, true);
  HostTensor tensor(dtype_of(entry), {rows.count, columns}, bytes, describe(entry));
  fill_from(entry, offset, true, tensor.bytes());
  return tensor;
}

void WeightReader::fill(const WeightDirectory::Entry& entry, gsl::span<std::byte> out) {
  fill_from(entry, entry.tensor->offset_bytes, claim_count(entry.tensor->name), out);
}

void WeightReader::fill_from(const WeightDirectory::Entry& entry, uint64_t offset, bool counts,
                             gsl::span<std::byte> out) {
  while (!out.empty()) {
    if (monitor_.cancel && monitor_.cancel->load(std::memory_order_relaxed)) {
      throw Error(ErrorCode::cancelled, "loading {} was cancelled", directory_.path());
    }
    const gsl::span<std::byte> piece = out.first(std::min(out.size(), kPieceBytes));
    entry.file->read_at(offset, piece);
    offset += piece.size();
    out = out.subspan(piece.size());
    if (counts) done_bytes_.fetch_add(piece.size(), std::memory_order_relaxed);
    report(entry.tensor->name);
  }
}

void WeightReader::report(std::string_view tensor) {
  if (!monitor_.progress || std::this_thread::get_id() != reporting_thread_) return;
  reported_bytes_ = done_bytes_.load(std::memory_order_relaxed);
  monitor_.progress({std::min(reported_bytes_, directory_.total_bytes()), directory_.total_bytes(), tensor});
}

void WeightReader::finish() {
  if (reported_bytes_ != done_bytes_.load(std::memory_order_relaxed)) report("");
}

bool WeightReader::has_seen(const std::string& name) const {
  const MutexLock lock(mutex_);
  return seen_.contains(name);
}

void WeightReader::see(const std::string& name) {
  const MutexLock lock(mutex_);
  seen_.insert(name);
}

bool WeightReader::claim_count(const std::string& name) {
  const MutexLock lock(mutex_);
  return counted_.insert(name).second;
}

void WeightReader::skip(std::string_view name) {
  if (directory_.has(name)) see(std::string(name));
}

std::vector<std::string> WeightReader::unused() const {
  std::vector<std::string> names;
  for (const WeightDirectory::Entry& entry : directory_.entries()) {
    if (!has_seen(entry.tensor->name)) names.push_back(entry.tensor->name);
  }
  return names;
}

}  // namespace quire
