// Embedding: writes the table rows of a step's tokens to the residual stream.
#pragma once

#include <optional>
#include <vector>

#include "core/layers/block.h"
#include "core/layers/features.h"
#include "core/layers/needs.h"
#include "core/loader/host_tensor.h"

namespace quire {

// Per-layer embeddings, as in Gemma 3n and 4. `forward` writes them to Scratch::layer_input:
// [tokens, layers * columns].
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
  PreparedWeight table;       // [vocabulary, hidden], or the width that the projection reads
  PreparedWeight projection;  // empty: none
  float scale = 1.0f;
  int32_t hidden = 0;
  int32_t table_columns = 0;
  std::optional<NormLayer> norm;
  PreparedWeight positions;     // learned positions, one row each; empty: none
  int32_t position_offset = 0;  // row of position 0
  std::optional<LayerInputsLayer> layer_inputs;
  std::vector<PreparedWeight> stream_projections;  // of the residual streams after the first
  int32_t num_copies = 0;                          // in Scratch::streams: residual streams, or one to keep
  std::optional<FeaturesLayer> features;           // of a draft network

  void forward(const ForwardPass& pass) const;

 private:
  // Writes the table rows of the tokens, projected if there is a projection, to the residual stream.
  void look_up(const ForwardPass& pass) const;
};

// Returns the name of the table's tensor in the model files.
std::string embedding_name(const EmbeddingPart& part, const LayerBuilder& builder);
HostTensor read_table(const EmbeddingPart& part, const LayerBuilder& builder);
// `stored` is the embedding table.
void build(const EmbeddingPart& part, const HostTensor& stored, LayerBuilder& builder, EmbeddingLayer& layer);
// Builds an embedding with the table of another model on the same device.
void build_borrowed(const EmbeddingPart& part, const EmbeddingLayer& lender, LayerBuilder& builder,
                    EmbeddingLayer& layer);
void needs(const EmbeddingPart& part, Needs& all);
void each_weight(const EmbeddingLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const EmbeddingPart& part);

}  // namespace quire
