// Distribution of the columns of a result over the shards of a stage (tensor parallel).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/interface/specs.h"

namespace quire {

// Columns of a result that each shard of a stage computes. Without starts every shard computes all columns.
struct ShardColumns {
  std::vector<int32_t> starts;  // [shards + 1]
  int32_t rank = 0;

  bool is_split() const { return !starts.empty(); }
  // Returns a split that is valid as long as this object.
  kernels::ColumnSplit split() const {
    if (starts.empty()) return {};
    return {starts.data(), static_cast<int32_t>(starts.size()) - 1, rank};
  }
  // Returns the number of columns of all shards; `own` is the number of this shard.
  int32_t total(int32_t own) const { return starts.empty() ? own : starts.back(); }
};

}  // namespace quire
