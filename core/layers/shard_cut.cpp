#include "core/layers/shard_cut.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace quire {
namespace {

// Tile widths of the kernels, from the largest to the smallest.
constexpr std::array<int32_t, 4> kUnits = {64, 32, 16, 1};

}  // namespace

ShardColumns ShardCut::columns(int32_t count, int32_t unit) const {
  if (count < shard_.num_shards) return {};
  if (unit == 0) {
    unit = *std::find_if(kUnits.begin(), kUnits.end(),
                         [&](int32_t width) { return count / width >= shard_.num_shards; });
  }
  ShardColumns out;
  out.rank = shard_.rank;
  for (int32_t r = 0; r < shard_.num_shards; ++r)
    out.starts.push_back(static_cast<int32_t>(int64_t{count / unit} * r / shard_.num_shards) * unit);
  out.starts.push_back(count);
  return out;
}

int32_t ShardCut::kv_index(const KvSpec& kv) {
  const auto found = std::find(kvs_.begin(), kvs_.end(), kv);
  const auto index = static_cast<int32_t>(found - kvs_.begin());
  if (found == kvs_.end()) kvs_.push_back(kv);
  return index;
}

std::vector<int32_t> own_columns(const ShardColumns& columns) {
  const kernels::ColumnSplit split = columns.split();
  std::vector<int32_t> out(static_cast<size_t>(split.own()));
  std::iota(out.begin(), out.end(), split.first());
  return out;
}

void keep_outputs(MatrixPart& part, const std::vector<int32_t>& outputs) {
  std::vector<int32_t> order = outputs;
  if (part.order) {
    for (int32_t& output : order) output = (*part.order)[static_cast<size_t>(output)];
  }
  part.order = std::make_shared<const std::vector<int32_t>>(std::move(order));
}

void keep_own_outputs(MatrixPart& part, const ShardColumns& columns) {
  if (columns.is_split()) keep_outputs(part, own_columns(columns));
}

MatrixParts selected_outputs(const MatrixParts& parts, const std::vector<int32_t>& outputs) {
  MatrixParts out;
  int32_t first = 0;
  auto next = outputs.begin();
  for (const MatrixPart& part : parts) {
    const int32_t end = first + part.outputs();
    std::vector<int32_t> of_part;
    for (; next != outputs.end() && *next < end; ++next) of_part.push_back(*next - first);
    first = end;
    if (of_part.empty()) continue;
    out.push_back(part);
    keep_outputs(out.back(), of_part);
  }
  return out;
}

}  // namespace quire
