// How the columns of a result lie over the shards of a stage.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/interface/specs.h"

namespace quire {

// The columns of a result that each shard of a stage makes; without starts every shard makes all.
struct ShardColumns {
  std::vector<int32_t> starts;  // [shards + 1]
  int32_t rank = 0;

  bool is_split() const { return !starts.empty(); }
  // Valid as long as this is.
  kernels::ColumnSplit split() const {
    if (starts.empty()) return {};
    return {starts.data(), static_cast<int32_t>(starts.size()) - 1, rank};
  }
  // Columns of all shards, of a result of which this one makes `own`.
  int32_t total(int32_t own) const { return starts.empty() ? own : starts.back(); }
};

}  // namespace quire
