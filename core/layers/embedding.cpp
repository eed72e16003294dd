#include "core/layers/embedding.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"
#include "core/layers/streams.h"

namespace quire {

using kernels::Scratch;

namespace {

void build_inputs(const LayerInputsPart& part, LayerBuilder& builder, LayerInputsLayer& layer) {
  layer.table = builder.table(part.table, part.vocab_size, part.columns * builder.num_layers());
  layer.table_scale = part.table_scale;
  layer.sum_scale = part.sum_scale;
  layer.num_layers = builder.num_layers();
  build(part.norm, builder, layer.norm);
  builder.request(layer.projection, {part.projection});
}

// Rows of a table that a step reads.
struct TableRows {
  const PreparedWeight& table;
  const int32_t* ids;
  float scale = 1.0f;
  int32_t first_row = 0;
};

void embed(const ForwardPass& pass, const TableRows& rows, float* target) {
  kernels::EmbedParams params;
  params.table = rows.table.get();
  params.scale = rows.scale;
  params.token_ids = rows.ids;
  params.first_row = rows.first_row;
  params.num_tokens = pass.num_tokens();
  params.hidden = target;
  pass.context.check(pass.context.table().embed(pass.context.handle(), &params), "embedding");
}

// Returns the columns of the table.
int32_t width_of(const EmbeddingPart& part, int32_t hidden) {
  return part.projection ? part.projection->num_in : hidden;
}

}  // namespace

std::string embedding_name(const EmbeddingPart& part, const LayerBuilder& builder) {
  return builder.stored_name(part.key + ".weight");
}

HostTensor read_table(const EmbeddingPart& part, const LayerBuilder& builder) {
  const ModelSpec& model = builder.model();
  const int32_t rows = part.num_rows > 0 ? part.num_rows : model.vocab_size;
  return builder.read_table(embedding_name(part, builder), rows, width_of(part, model.hidden_size));
}

namespace {

// Builds all but the table.
void build_rest(const EmbeddingPart& part, LayerBuilder& builder, EmbeddingLayer& layer) {
  layer.scale = part.scale;
  layer.hidden = builder.model().hidden_size;
  layer.table_columns = width_of(part, layer.hidden);
  layer.position_offset = part.position_offset;
  if (part.projection) builder.request(layer.projection, {*part.projection});
  if (part.norm) build(*part.norm, builder, layer.norm.emplace());
  if (!part.positions_key.empty())
    layer.positions = builder.table(part.positions_key, part.num_positions, layer.hidden);
  if (part.layer_inputs) build_inputs(*part.layer_inputs, builder, layer.layer_inputs.emplace());
  if (builder.model().keeps_embedding) layer.num_copies = 1;
  if (builder.model().connects_streams) layer.num_copies = builder.model().num_streams;
  if (part.features) build(*part.features, builder, layer.features.emplace());
  layer.stream_projections.resize(part.stream_projections.size());
  for (size_t s = 0; s < part.stream_projections.size(); ++s)
    builder.request(layer.stream_projections[s], {part.stream_projections[s]});
}

}  // namespace

void build(const EmbeddingPart& part, const HostTensor& stored, LayerBuilder& builder,
           EmbeddingLayer& layer) {
  layer.table = builder.prepare_table(stored, embedding_name(part, builder));
  build_rest(part, builder, layer);
}

void build_borrowed(const EmbeddingPart& part, const EmbeddingLayer& lender, LayerBuilder& builder,
                    EmbeddingLayer& layer) {
  layer.table = lender.table.borrowed();
  build_rest(part, builder, layer);
}

void needs(const EmbeddingPart& part, Needs& all) {
  if (part.projection) {
    all.scratch(Scratch::projected, part.projection->num_in);
    all.scratch(Scratch::rounded, part.projection->num_in);
    all.matrix(*part.projection);
  }
  if (!part.positions_key.empty()) all.scratch(Scratch::projected, all.hidden());
  if (part.features) needs(*part.features, all);
  if (!part.layer_inputs) return;
  const int32_t columns = part.layer_inputs->projection.num_out;
  all.scratch(Scratch::layer_input, columns);
  all.scratch(Scratch::other, columns);
  all.scratch(Scratch::rounded, all.hidden());
  all.matrix(part.layer_inputs->projection);
}

void each_weight(const EmbeddingLayer& layer, WeightVisitor& visitor) {
  visitor.table(layer.table);
  visitor.table(layer.positions);
  visitor.matrix(layer.projection, 1.0);
  if (layer.layer_inputs) visitor.table(layer.layer_inputs->table);
  for (const PreparedWeight& matrix : layer.stream_projections) visitor.matrix(matrix, 1.0);
  if (layer.norm) each_weight(*layer.norm, visitor);
  if (layer.features) each_weight(*layer.features, visitor);
  if (!layer.layer_inputs) return;
  visitor.matrix(layer.layer_inputs->projection, 1.0);
  each_weight(layer.layer_inputs->norm, visitor);
}

uint64_t mechanisms(const EmbeddingPart& part) {
  uint64_t bits = mechanisms(part.norm, kernels::kMechanismEmbeddingNorm);
  if (!part.positions_key.empty()) bits |= kernels::kMechanismPositions;
  if (part.layer_inputs) bits |= kernels::kMechanismStreams;
  if (part.features) bits |= mechanisms(*part.features);
  return bits;
}

void LayerInputsLayer::forward(const ForwardPass& pass, int32_t hidden) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t columns = num_layers * norm.columns;
  float* inputs = space.at(Scratch::layer_input);
  float* projected = space.at(Scratch::other);
  embed(pass, {table, pass.batch.token_ids, table_scale}, inputs);
  multiply_rows(pass, projection, rounded_rows(pass, space.hidden, hidden), projected, pass.num_tokens());
  norm_rows_onto(pass, norm, projected, inputs, pass.num_tokens() * num_layers);
  scale_rows(pass, inputs, columns, sum_scale);
}

void EmbeddingLayer::look_up(const ForwardPass& pass) const {
  const kernels::Workspace& space = pass.workspace;
  const TableRows rows = {table, pass.batch.token_ids, scale};
  if (projection.get() == nullptr) return embed(pass, rows, space.hidden);
  float* narrow = space.at(Scratch::projected);
  embed(pass, rows, narrow);
  multiply_rows(pass, projection, rounded_rows(pass, narrow, table_columns), space.hidden, pass.num_tokens());
}

void EmbeddingLayer::forward(const ForwardPass& pass) const {
  const kernels::Workspace& space = pass.workspace;
  look_up(pass);
  if (positions.get() != nullptr) {
    embed(pass, {positions, pass.batch.positions, 1.0f, position_offset}, space.at(Scratch::projected));
    add_rows(pass, space.hidden, space.at(Scratch::projected), hidden);
  }
  if (norm) norm_rows_f32(pass, *norm, space.hidden, space.hidden, pass.num_tokens());
  if (layer_inputs) layer_inputs->forward(pass, hidden);
  for (int32_t s = 0; s < num_copies; ++s)
    copy_rows(pass, space.at(Scratch::streams) + s * hidden, num_copies * hidden, space.hidden, hidden,
              hidden);
  if (features) features->forward(pass);
  for (size_t s = 0; s < stream_projections.size(); ++s) {
    float* stream = stream_at(pass, Scratch::streams, gsl::narrow<int32_t>(s), hidden);
    multiply_rows(pass, stream_projections[s], rounded_rows(pass, space.hidden, hidden), stream,
                  pass.num_tokens());
    match_size(pass, stream, hidden);
  }
}

}  // namespace quire
