// Token ids into the residual stream, and the rotary angles that all layers of a step share.
#pragma once

#include <optional>
#include <vector>

#include "core/layers/forward_pass.h"
#include "core/layers/norm.h"

namespace quire {

// Embeddings of their own for every layer, left in Scratch::layer_input, [tokens, layers * columns].
struct LayerInputsLayer {
  PreparedWeight table;
  float table_scale = 1.0f;
  PreparedWeight projection;
  NormLayer norm;
  float sum_scale = 1.0f;
  int32_t num_layers = 0;

  void forward(const ForwardPass& pass, int32_t hidden) const;
};

struct EmbeddingLayer {
  PreparedWeight table;  // [vocabulary, hidden]
  float scale = 1.0f;
  int32_t hidden = 0;
  std::optional<NormLayer> norm;
  PreparedWeight positions;  // learned, a row each; empty: none
  std::optional<LayerInputsLayer> layer_inputs;
  std::vector<PreparedWeight> stream_projections;  // of the residual streams beside the first

  void forward(const ForwardPass& pass) const;

  template <typename Visit>
  void each_matrix(Visit visit) const {
    for (const PreparedWeight& matrix : stream_projections) visit(matrix, 1.0);
    if (layer_inputs) visit(layer_inputs->projection, 1.0);
  }
  template <typename Visit>
  void each_buffer(Visit visit) const {
    if (norm) norm->each_buffer(visit);
    if (layer_inputs) layer_inputs->norm.each_buffer(visit);
  }
};

// The residual streams of Scratch::streams beside the first, and those of Scratch::more_streams.
float* stream_at(const ForwardPass& pass, kernels::Scratch where, int32_t index, int32_t hidden);

struct RotaryLayer {
  DeviceBuffer inv_freq;        // [rotary_dim / 2] f32
  DeviceBuffer short_inv_freq;  // the same of contexts up to short_context tokens, or empty
  int32_t short_context = 0;
  int32_t rotary_dim = 0;
  float magnitude = 1.0f;
  float short_magnitude = 1.0f;

  void forward(const ForwardPass& pass, const RopeTables& tables) const;
  uint64_t bytes() const { return inv_freq.bytes() + short_inv_freq.bytes(); }
};

}  // namespace quire
