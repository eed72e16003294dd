// What the parts of a layer need to be cut into shards.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/model_spec.h"

namespace quire {

inline constexpr int32_t kMaxShards = 64;

struct Shard {
  int32_t rank = 0;
  int32_t num_shards = 1;
};

// Cuts the parts of a model for one shard, and collects the kinds of keys and values that the shard has.
class ShardCut {
 public:
  ShardCut(const ModelSpec& whole, Shard shard) : whole_(whole), shard_(shard) {}

  const ModelSpec& whole() const { return whole_; }
  int32_t num_shards() const { return shard_.num_shards; }

  // Returns how `count` columns are shared out, as evenly as units of columns allow. Kernels work in tiles,
  // so the unit is the largest tile width of which each shard gets some, unless `unit` is given. Returns
  // columns that are not split if there are fewer of them than shards.
  ShardColumns columns(int32_t count, int32_t unit = 0) const;
  // Returns how the columns of the residual stream are shared out.
  ShardColumns hidden() const { return columns(whole_.hidden_size); }

  // Returns the index of `kv` in kvs(), and adds it if it is new.
  int32_t kv_index(const KvSpec& kv);
  const std::vector<KvSpec>& kvs() const { return kvs_; }

 private:
  const ModelSpec& whole_;
  const Shard shard_;
  std::vector<KvSpec> kvs_;
};

// Returns the columns of this shard, rising.
std::vector<int32_t> own_columns(const ShardColumns& columns);
// Leaves the named outputs of a matrix.
void take_outputs(MatrixPart& part, const std::vector<int32_t>& outputs);
// Leaves the outputs of this shard; all of them if the columns are not split.
void take_own_outputs(MatrixPart& part, const ShardColumns& columns);
// Returns the named outputs, which rise, of matrices side by side; a matrix that has none of them is left
// out.
MatrixParts selected_outputs(const MatrixParts& parts, const std::vector<int32_t>& outputs);

}  // namespace quire
