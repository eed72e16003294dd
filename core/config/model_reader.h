// Expands the row of a family: reads the fields of config.json, builds the ModelSpec, and offers parts that
// several families share.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/architecture.h"
#include "core/config/config_fields.h"
#include "core/config/layer_types.h"
#include "core/config/model_spec.h"

namespace quire {

// Tensor names within a layer.
struct MlpKeys {
  std::string gate_up;  // one tensor for both; if empty, gate and up
  std::string gate;     // empty if the MLP has no gate
  std::string up;
  std::string down;
};

// Returns the names "PREFIXgate_proj" and so on.
MlpKeys mlp_keys(const std::string& prefix);

class ModelReader {
 public:
  // Reads the whole model by the row's defaults; the row's `refine` then adjusts it. All arguments are
  // borrowed.
  ModelReader(const ConfigFields& fields, const ArchitectureSpec& row);

  const ConfigFields& fields() const { return fields_; }
  const ArchitectureSpec& row() const { return row_; }
  ModelSpec& model() { return model_; }
  int32_t hidden() const { return model_.hidden_size; }
  int32_t num_layers() const { return static_cast<int32_t>(layer_types_.size()); }
  int32_t max_positions() const { return max_positions_; }
  float epsilon() const { return epsilon_; }
  const kernels::HeadShape& heads() const { return heads_; }
  int32_t intermediate() const { return intermediate_; }
  kernels::Activation activation() const { return activation_; }
  LayerType layer_type(int32_t layer) const { return layer_types_[static_cast<size_t>(layer)]; }

  // Typed reads of numbers; all errors name the field.
  int32_t require(std::string_view name, int64_t min, int64_t max) const;
  int32_t int_or(std::string_view name, int64_t fallback, int64_t min, int64_t max) const;
  float number_or(std::string_view name, double fallback, double min, double max) const;
  bool flag(std::string_view name, bool fallback = false) const { return fields_.bool_or(name, fallback); }
  // Return a list with one entry or number per layer; empty if the field is absent.
  std::vector<JsonView> layer_list(std::string_view name) const;
  std::vector<int64_t> layer_numbers(std::string_view name, int64_t min = 0, int64_t max = 1 << 20) const;
  std::vector<double> layer_reals(std::string_view name, double min, double max) const;
  // Returns whether the list entry of a layer is `yes` or `no`; nothing if the field is absent.
  std::optional<bool> layer_is(std::string_view name, int32_t layer, std::string_view yes,
                               std::string_view no) const;
  // Refuses models with bidirectional attention, except for image tokens ("vision").
  void require_causal() const;

  // Make parts by the conventions of the row.
  std::string key(int32_t layer, std::string_view part) const;
  MatrixPart matrix(std::string key, int32_t num_in, int32_t num_out, BiasRule bias = BiasRule::none) const;
  // Makes a matrix within a layer.
  MatrixPart layer_matrix(int32_t layer, std::string_view part, int32_t num_in, int32_t num_out,
                          BiasRule bias = BiasRule::none) const;
  NormPart norm(const std::string& key, int32_t columns) const;
  NormPart layer_norm(int32_t layer, std::string_view part) const;
  static NormPart bare_norm(kernels::NormKind kind, float epsilon, int32_t columns);
  MlpPart mlp(int32_t layer, const MlpKeys& keys, int32_t intermediate) const;
  BiasRule bias(const BiasSwitch& rule) const;

  void each_layer(const std::function<void(LayerSpec&, int32_t)>& change);
  // Does the same for the layers that have attention and for those of type `recurrent`.
  void each_attention(const std::function<void(LayerSpec&, int32_t)>& change);
  void each_recurrent(const std::function<void(LayerSpec&, int32_t)>& change);
  // Adds q and k norms with the weights named by the row.
  void norm_heads(LayerSpec& layer, int32_t index, kernels::QkNorm what);
  // Adds biases, named after the weights, to the q and k norms.
  static void bias_head_norms(LayerSpec& layer);
  // Limits the context to fewer tokens than the configuration allows.
  void limit_positions(int32_t tokens) { max_positions_ = std::min(max_positions_, tokens); }
  // Sets or removes the RoPE of a layer.
  void set_rope(LayerSpec& layer, const RopeSpec& rope);
  static void drop_rope(LayerSpec& layer);
  // Removes the RoPE of all layers.
  void drop_ropes();
  // Sets the base of each layer's RoPE; 0: the layer has no RoPE.
  void set_bases(const std::vector<double>& bases);
  // Replaces RoPE by learned positions: a tensor whose row `offset` is position 0.
  void use_learned_positions(std::string_view key, int32_t offset = 0);
  // Returns whether a layer uses RoPE, for models with layers that do not: by a list of ones and zeros,
  // otherwise all layers except every n-th.
  bool has_rope(int32_t layer) const;
  // Sets the head counts and sizes of one layer and resizes its matrices.
  void set_heads(LayerSpec& layer, int32_t index, const kernels::HeadShape& heads);
  // Scales the outputs of attention and MLP blocks, after their norms if they have any.
  void scale_blocks(float factor);
  // Leaves a layer with its mixer alone.
  void drop_feed_forward(LayerSpec& layer) const {
    layer.feed_forward_norm = bare_norm(kernels::NormKind::none, epsilon_, hidden());
    layer.feed_forward = EmptyPart();
  }
  // Replaces the dense MLP by experts.
  static void set_experts(LayerSpec& layer, ExpertsPart experts);

 private:
  void read_sizes();
  kernels::Activation read_activation() const;
  void read_layer_types();
  void read_ropes();
  void read_ends();
  LayerSpec standard_layer(int32_t index);
  void add_attention(int32_t index, LayerSpec& layer);
  void add_matrices(int32_t index, AttentionPart& part);

  const ConfigFields& fields_;
  const ArchitectureSpec& row_;
  ModelSpec model_;
  kernels::HeadShape heads_;
  int32_t intermediate_ = 0;
  int32_t max_positions_ = 0;
  float epsilon_ = 0.0f;
  kernels::Activation activation_ = kernels::Activation::silu;
  std::vector<LayerType> layer_types_;
};

// Fills in derived data (the KV specs) and checks consistency.
void finish_model(const ConfigFields& fields, ModelSpec& model);

// Returns the column order that separates interleaved parts: from `blocks` blocks, each with parts of the
// given sizes, to all of part 0, then all of part 1, and so on.
ColumnOrder order_of_blocks(int32_t blocks, const std::vector<int32_t>& part_sizes);
// Returns the columns of one part of all blocks of interleaved parts.
ColumnOrder order_of_part(int32_t blocks, const std::vector<int32_t>& part_sizes, size_t part);

}  // namespace quire
