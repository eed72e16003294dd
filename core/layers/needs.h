// Sizes that determine the memory of a transformer. The parts of its layers report them to Needs.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/config/model_spec.h"

namespace quire {

// Dimensions of the keys and values of one layer.
struct LayerCacheSize {
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t value_dim = 0;
  int32_t index_dim = 0;
  int32_t source_layer = -1;  // layer whose pages it reads; -1: it has its own pages
  int32_t window = 0;         // largest window of the layers that read these pages, in tokens; 0: unlimited
  uint64_t state_bytes = 0;   // of one sequence's recurrent state; a multiple of 64
  // Bytes of it for each operation, in their order. Each part has two banks of the same size.
  std::array<uint64_t, 2> state_parts = {};

  bool operator==(const LayerCacheSize&) const = default;
};

// Widths of the rows in the workspace. Each is the largest that any layer needs.
struct WorkspaceColumns {
  int32_t qkv = 0;
  int32_t attention = 0;
  int32_t gate_up = 0;
  int32_t activated = 0;
  int32_t logits = 0;      // 0 except on the first shard
  int32_t own_logits = 0;  // columns of a shard's own logits, in Scratch::slice
  std::array<int32_t, kernels::kNumScratch> scratch = {};  // columns of f32
  bool selects_keys = false;                               // true: Scratch::selected is needed

  int32_t& at(kernels::Scratch kind) { return scratch[static_cast<size_t>(kind)]; }
  bool operator==(const WorkspaceColumns&) const = default;
};

// Sizes of one transformer, or of a stage of it, that determine its memory.
struct TransformerShape {
  int32_t num_layers = 0;
  int32_t first_layer = 0;
  int32_t hidden_size = 0;
  int32_t vocab_size = 0;
  int32_t num_heads = 0;          // maximum over the layers
  int32_t head_dim = 0;           // maximum over the layers, of keys and values
  int32_t max_columns = 0;        // maximum of inputs and outputs over all matrices except the head
  int32_t expert_columns = 0;     // maximum of inputs plus outputs over the experts' matrices
  uint64_t state_line_bytes = 0;  // maximum of solved_line_bytes over the layers
  std::vector<int32_t> rotary_dims;
  std::vector<LayerCacheSize> caches;  // [num_layers]
  WorkspaceColumns columns;

  bool operator==(const TransformerShape&) const = default;
};

// Collector of the sizes that parts need. It keeps the maximum of each size.
class Needs {
 public:
  explicit Needs(const ModelSpec& model);

  const ModelSpec& model() const { return model_; }
  int32_t hidden() const { return model_.hidden_size; }
  const TransformerShape& shape() const { return shape_; }
  TransformerShape& shape() { return shape_; }

  // Begins the next layer. It has no cache until one of its parts sets it.
  void begin_layer() { shape_.caches.emplace_back(); }
  // Sets the cache of the current layer. If it reads the pages of another layer, that layer's window is
  // widened as needed.
  void cache(const LayerCacheSize& size);
  // Adds `bytes` to the recurrent state of the current layer.
  void state(uint64_t bytes);
  // Requires memory for solved lines of this size.
  void solved_lines(uint64_t bytes);

  // Requires a scratch buffer of `columns` f32 per token.
  void scratch(kernels::Scratch kind, int32_t columns);
  // Requires Scratch::slice for a shard's columns before they are gathered, `rows` rows per token.
  void slice(const ShardColumns& columns, int32_t rows = 1);
  // Requires space for rows of `columns` columns that a matrix reads or writes.
  void row(int32_t columns) { raise(shape_.max_columns, columns); }
  void matrix(const MatrixPart& part);
  void expert_matrix(int32_t num_in, int32_t num_out);

  static void raise(int32_t& most, int32_t value);

 private:
  const ModelSpec& model_;
  TransformerShape shape_;
};

}  // namespace quire
