// The sizes that the memory of a transformer depends on, and how the parts of its layers collect them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/config/model_spec.h"

namespace quire {

// The keys and values of one layer.
struct LayerCacheSize {
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t value_dim = 0;
  int32_t index_dim = 0;
  int32_t source_layer = -1;  // layer whose pages it reads; -1: it has its own
  int32_t window = 0;         // tokens that its layer, and those that read it, look back; 0: all

  bool operator==(const LayerCacheSize&) const = default;
};

// Columns of the rows that layers work in: the most that any of them needs.
struct WorkspaceColumns {
  int32_t qkv = 0;
  int32_t attention = 0;
  int32_t gate_up = 0;
  int32_t activated = 0;
  int32_t logits = 0;                                      // 0 on shards that do not draw
  int32_t own_logits = 0;                                  // logits of a shard, in Scratch::slice
  std::array<int32_t, kernels::kNumScratch> scratch = {};  // of f32
  bool selects_keys = false;                               // a bit for each token of a context

  int32_t& at(kernels::Scratch kind) { return scratch[static_cast<size_t>(kind)]; }
};

// The sizes of one transformer, or of a stage of it, that its memory depends on.
struct TransformerShape {
  int32_t num_layers = 0;
  int32_t first_layer = 0;
  int32_t hidden_size = 0;
  int32_t vocab_size = 0;
  int32_t num_heads = 0;       // the most of any layer
  int32_t head_dim = 0;        // the largest of any layer, of keys or values
  int32_t max_columns = 0;     // inputs or outputs of any matrix but the head
  int32_t expert_columns = 0;  // inputs and outputs of a matrix of an expert together
  std::vector<int32_t> rotary_dims;
  std::vector<LayerCacheSize> caches;  // [num_layers]
  WorkspaceColumns columns;
};

// Collects the sizes that parts need; of each size the largest counts.
class Needs {
 public:
  explicit Needs(const ModelSpec& model);

  const ModelSpec& model() const { return model_; }
  int32_t hidden() const { return model_.hidden_size; }
  const TransformerShape& shape() const { return shape_; }
  TransformerShape& shape() { return shape_; }

  // Begins the next layer, which has no cache until one of its parts sets it.
  void begin_layer() { shape_.caches.emplace_back(); }
  // Sets the cache of the layer; the layer whose pages it reads must look back as far.
  void cache(const LayerCacheSize& size);

  // Rows of `columns` f32 for each token.
  void scratch(kernels::Scratch kind, int32_t columns);
  // Columns that a shard makes before they are gathered, for `rows` rows of each token.
  void slice(const ShardColumns& columns, int32_t rows = 1);
  // Rows of so many columns that a product reads or writes.
  void row(int32_t columns) { raise(shape_.max_columns, columns); }
  void matrix(const MatrixPart& part);
  void expert_matrix(int32_t num_in, int32_t num_out);

  static void raise(int32_t& most, int32_t value);

 private:
  const ModelSpec& model_;
  TransformerShape shape_;
};

}  // namespace quire
