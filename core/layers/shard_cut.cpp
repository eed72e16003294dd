#include "core/layers/shard_cut.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace quire {
namespace {

// Tile widths of the kernels, from the largest to the smallest.
constexpr std::array<int32_t, 4> kUnits = {64, 32, 16, 1};

// Returns the first of `units` units that a shard and those after it get. Each gets at least one if there are
// enough.
std::vector<int32_t> first_units(int32_t units, const Shard& shard) {
  std::vector<int32_t> shares = shard.shares;
  shares.resize(static_cast<size_t>(shard.num_shards), 1);
  const auto total = std::max(std::accumulate(shares.begin(), shares.end(), int64_t{0}), int64_t{1});
  std::vector<int32_t> firsts = {0};
  int64_t before = 0;
  for (int32_t r = 1; r < shard.num_shards; ++r) {
    before += shares[static_cast<size_t>(r) - 1];
    const auto wanted = static_cast<int32_t>(int64_t{units} * before / total);
    const int32_t least = firsts.back() + 1, most = units - (shard.num_shards - r);
    firsts.push_back(units < shard.num_shards ? wanted : std::clamp(wanted, least, most));
  }
  return firsts;
}

}  // namespace

ShardColumns ShardCut::columns(int32_t count, int32_t unit) const {
  if (count < shard_.num_shards) return {};
  if (unit == 0) {
    unit = *std::find_if(kUnits.begin(), kUnits.end(),
                         [&](int32_t width) { return count / width >= shard_.num_shards; });
  }
  ShardColumns out;
  out.rank = shard_.rank;
  for (const int32_t first : first_units(count / unit, shard_)) out.starts.push_back(first * unit);
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
  if (!split.is_split()) return {};
  std::vector<int32_t> out(static_cast<size_t>(split.own()));
  std::iota(out.begin(), out.end(), split.first());
  return out;
}

void keep_outputs(MatrixPart& part, const std::vector<int32_t>& outputs) {
  if (part.whole_outputs == 0) {
    part.whole_outputs = part.outputs();
    part.whole_is_ordered = part.order != nullptr;
    part.whole_parts = std::max(part.whole_parts, 1);
  }
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
    out.back().whole_parts = static_cast<int32_t>(parts.size());
    keep_outputs(out.back(), of_part);
  }
  return out;
}

}  // namespace quire
