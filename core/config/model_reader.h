// What a family's row is expanded with: the fields of config.json on one side, the description of the model
// on the other, and pieces that several families have in common.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/architecture.h"
#include "core/config/config_fields.h"
#include "core/config/model_spec.h"

namespace quire {

enum class LayerType : uint8_t { full, sliding, chunked };

// Parts of a key within a layer.
struct MlpKeys {
  std::string gate_up;  // one tensor for both, or
  std::string gate;     // empty where ungated
  std::string up;
  std::string down;
};

// "PREFIXgate_proj" and so on.
MlpKeys mlp_keys(const std::string& prefix);

class ModelReader {
 public:
  // All borrowed. Reads the whole model by the row alone; what the family adds is for `refine`.
  ModelReader(const ConfigFields& fields, const ArchitectureSpec& row);

  const ConfigFields& fields() const { return fields_; }
  const ArchitectureSpec& row() const { return row_; }
  ModelSpec& model() { return model_; }
  int32_t hidden() const { return model_.hidden_size; }
  int32_t num_layers() const { return static_cast<int32_t>(model_.layers.size()); }
  int32_t max_positions() const { return max_positions_; }
  float epsilon() const { return epsilon_; }
  const kernels::HeadShape& heads() const { return heads_; }
  int32_t intermediate() const { return intermediate_; }
  kernels::Activation activation() const { return activation_; }
  LayerType layer_type(int32_t layer) const { return layer_types_[static_cast<size_t>(layer)]; }

  // Numbers; all errors name the field.
  int32_t require(std::string_view name, int64_t min, int64_t max) const;
  int32_t int_or(std::string_view name, int64_t fallback, int64_t min, int64_t max) const;
  float number_or(std::string_view name, double fallback, double min, double max) const;
  bool flag(std::string_view name, bool fallback = false) const { return fields_.bool_or(name, fallback); }
  // One number for each layer out of a list; empty where the field is absent.
  std::vector<int64_t> layer_numbers(std::string_view name) const;
  // Which of two words a list has for a layer; nothing where the field is absent.
  std::optional<bool> layer_is(std::string_view name, int32_t layer, std::string_view yes,
                               std::string_view no) const;
  // Refuses a model whose tokens see later ones; only those of images may ("vision").
  void require_causal() const;

  // Parts, by the row's conventions.
  std::string key(int32_t layer, std::string_view part) const;
  MatrixPart matrix(std::string key, int32_t num_in, int32_t num_out, BiasRule bias = BiasRule::none) const;
  // The same within a layer.
  MatrixPart layer_matrix(int32_t layer, std::string_view part, int32_t num_in, int32_t num_out,
                          BiasRule bias = BiasRule::none) const;
  NormPart norm(const std::string& key, int32_t columns) const;
  NormPart layer_norm(int32_t layer, std::string_view part) const;
  static NormPart bare_norm(kernels::NormKind kind, float epsilon, int32_t columns);
  MlpPart mlp(int32_t layer, const MlpKeys& keys, int32_t intermediate) const;
  BiasRule bias(const BiasSwitch& rule) const;

  void each_layer(const std::function<void(LayerSpec&, int32_t)>& change);
  // Norms of q and k, weights by the row's keys.
  void norm_heads(LayerSpec& layer, int32_t index, kernels::QkNorm what);
  // Which layers have rotary angles of which settings.
  void set_rope(LayerSpec& layer, const RopeSpec& rope);
  static void drop_rope(LayerSpec& layer);
  // Of models of which some layers have none: by a list of ones and zeros, or else all but every n-th.
  bool has_rope(int32_t layer) const;
  // Head count and dimensions of one layer; its matrices follow.
  void set_heads(LayerSpec& layer, int32_t index, const kernels::HeadShape& heads);
  // Multiplies what both blocks add to the residual stream.
  void scale_blocks(float factor);
  // Replaces the dense feed-forward part.
  static void set_experts(LayerSpec& layer, ExpertsPart experts);

 private:
  void read_sizes();
  kernels::Activation read_activation() const;
  void read_layer_types();
  void read_ropes();
  void read_ends();
  LayerSpec standard_layer(int32_t index);
  void add_attention(int32_t index, AttentionPart& part);

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

// Completes what follows from the rest (the kinds of keys and values), and checks that all fits.
void finish_model(const ConfigFields& fields, ModelSpec& model);

// Orders of outputs.
// Of `blocks` blocks, each of the parts' sizes one after the other, to part after part.
ColumnOrder order_of_blocks(int32_t blocks, const std::vector<int32_t>& part_sizes);

}  // namespace quire
