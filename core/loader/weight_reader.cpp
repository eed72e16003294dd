#include "core/loader/weight_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/checked_math.h"
#include "core/base/error.h"

namespace quire {
namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;

}  // namespace

std::string describe(const WeightDirectory::Entry& entry) {
  return fmt::format("{}: tensor \"{}\"", entry.file->path(), printable(entry.tensor->name));
}

void require_shape(const WeightDirectory::Entry& entry, const std::vector<int64_t>& shape) {
  if (entry.tensor->shape == shape) return;
  throw Error(ErrorCode::format, "{}: has the shape {} where {} is needed", describe(entry),
              shape_text(entry.tensor->shape), shape_text(shape));
}

WeightReader::WeightReader(const WeightDirectory& directory, LoadMonitor monitor)
    : directory_(directory), monitor_(std::move(monitor)) {}

HostTensor WeightReader::read(std::string_view name) {
  const WeightDirectory::Entry& entry = directory_.at(name);
  const StoredType& type = *entry.tensor->type;
  if (!type.dtype)
    throw Error(ErrorCode::unsupported, "{}: the type {} cannot be read", describe(entry), type.name);
  const auto size = checked_cast<size_t>(entry.tensor->size_bytes, entry.tensor->name);
  HostTensor tensor(*type.dtype, entry.tensor->shape, size, describe(entry));
  fill(entry, tensor.bytes());
  seen_.insert(entry.tensor->name);
  return tensor;
}

HostTensor WeightReader::read(std::string_view name, const std::vector<int64_t>& shape) {
  require_shape(directory_.at(name), shape);
  return read(name);
}

std::vector<float> WeightReader::read_floats(std::string_view name, const std::vector<int64_t>& shape) {
  const HostTensor tensor = read(name, shape);
  const std::string where = describe(directory_.at(name));
  std::vector<float> values = to_floats(tensor.view(), where);
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad != values.end()) {
    throw Error(ErrorCode::numeric, "{}: element {} is not a finite number", where, bad - values.begin());
  }
  return values;
}

void WeightReader::fill(const WeightDirectory::Entry& entry, gsl::span<std::byte> out) {
  const bool again = seen_.contains(entry.tensor->name);  // tied weights are read twice and count once
  uint64_t offset = entry.tensor->offset_bytes;
  while (!out.empty()) {
    if (monitor_.cancel && monitor_.cancel->load(std::memory_order_relaxed)) {
      throw Error(ErrorCode::cancelled, "loading {} was cancelled", directory_.path());
    }
    const gsl::span<std::byte> piece = out.first(std::min(out.size(), kPieceBytes));
    entry.file->file().read_at(offset, piece);
    offset += piece.size();
    out = out.subspan(piece.size());
    report(*entry.tensor, again ? 0 : piece.size());
  }
}

void WeightReader::report(const TensorInfo& tensor, uint64_t bytes) {
  done_bytes_ += bytes;
  if (monitor_.progress) monitor_.progress({done_bytes_, directory_.total_bytes(), tensor.name});
}

void WeightReader::skip(std::string_view name) {
  if (directory_.has(name)) seen_.insert(std::string(name));
}

std::vector<std::string> WeightReader::unused() const {
  std::vector<std::string> names;
  for (const WeightDirectory::Entry& entry : directory_.entries()) {
    if (!seen_.contains(entry.tensor->name)) names.push_back(entry.tensor->name);
  }
  return names;
}

}  // namespace quire
