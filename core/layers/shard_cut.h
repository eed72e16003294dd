// Functions that cut the parts of a layer into shards (tensor parallelism).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/config/model_spec.h"

namespace quire {

inline constexpr int32_t kMaxShards = 64;

struct Shard {
  int32_t rank = 0;
  int32_t num_shards = 1;
  std::vector<int32_t> shares = {};  // relative columns of each shard, positive; empty: the same
};

// Context for cutting the parts of a model for one shard. It collects the kinds of keys and values of the
// shard.
class ShardCut {
 public:
  ShardCut(const ModelSpec& whole, Shard shard) : whole_(whole), shard_(std::move(shard)) {}

  const ModelSpec& whole() const { return whole_; }
  int32_t num_shards() const { return shard_.num_shards; }

  // Returns the split of `count` columns over the shards by their shares, as far as whole units of columns
  // allow. Kernels work in tiles, so by default the unit is the largest tile width of which each shard gets
  // at least one. Returns columns that are not split if there are fewer of them than shards.
  ShardColumns columns(int32_t count, int32_t unit = 0) const;
  // Returns the split of the columns of the residual stream.
  ShardColumns hidden() const { return columns(whole_.hidden_size); }

  // Returns the index of `kv` in kvs(). Adds it if it is new.
  int32_t kv_index(const KvSpec& kv);
  const std::vector<KvSpec>& kvs() const { return kvs_; }

 private:
  const ModelSpec& whole_;
  const Shard shard_;
  std::vector<KvSpec> kvs_;
};

// Returns the columns of this shard in ascending order; none if they are not split.
std::vector<int32_t> own_columns(const ShardColumns& columns);
// Keeps only the given outputs of a matrix.
void keep_outputs(MatrixPart& part, const std::vector<int32_t>& outputs);
// Keeps only the outputs of this shard. Does nothing if the columns are not split.
void keep_own_outputs(MatrixPart& part, const ShardColumns& columns);
// Returns the matrices with only the given outputs. The outputs are in ascending order and numbered across
// all matrices. A matrix without any of them is omitted.
MatrixParts selected_outputs(const MatrixParts& parts, const std::vector<int32_t>& outputs);

}  // namespace quire
