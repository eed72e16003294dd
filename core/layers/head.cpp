#include "core/layers/head.h"

#include "core/base/error.h"
#include "core/layers/embedding.h"
#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"
#include "core/layers/streams.h"

namespace quire {
namespace {

WeightSource tied_source(const HeadPart& part, const HostTensor& table, const ModelSpec& model) {
  WeightSource source;
  source.unread = bytes_of(table.unread());
  source.format = kernels::WeightFormat::dense;
  source.num_in = part.projection.num_in;
  source.num_out = model.vocab_size;
  source.padded_out = model.vocab_size;
  if (table.blocks() != kernels::BlockType::none) {
    source.format = kernels::WeightFormat::blocks;
    source.blocks = {table.blocks(), table.data()};
  } else {
    source.dense = {table.dtype(), table.data()};
  }
  if (const ColumnOrder& order = part.projection.order; order) {
    source.num_out = gsl::narrow<int32_t>(order->size());
    source.column_order = order->data();
  }
  return source;
}

// Builds all but the matrix.
void build_rest(const HeadPart& part, LayerBuilder& builder, HeadLayer& layer) {
  build(part.norm, builder, layer.norm);
  layer.vocab_size = builder.model().vocab_size;
  layer.logit_scale = part.scale;
  layer.softcap = part.softcap;
  layer.vocabulary = part.vocabulary;
  if (part.narrowing) builder.request(layer.narrowing, {*part.narrowing});
  layer.input_columns = part.projection.num_in;
  if (builder.model().connects_streams) layer.num_copies = builder.model().num_streams;
  layer.stream_projections.resize(part.stream_projections.size());
  for (size_t s = 0; s < layer.stream_projections.size(); ++s)
    builder.request(layer.stream_projections[s], {part.stream_projections[s]});
}

void build_around(const HeadPart& part, const WeightSource& projection, const std::string& key,
                  LayerBuilder& builder, HeadLayer& layer) {
  build_rest(part, builder, layer);
  builder.request(layer.projection, part.projection, projection, key);
}

}  // namespace

bool is_tied(const HeadPart& part, const LayerBuilder& builder) {
  return (part.tied || part.may_be_absent) && !builder.has_linear(builder.stored_name(part.projection.key));
}

void build(const HeadPart& part, LayerBuilder& builder, HeadLayer& layer) {
  const std::string key = builder.stored_name(part.projection.key);
  if (!builder.has_linear(key)) {
    throw Error(ErrorCode::format,
                "the tensor {}.weight is missing, and config.json does not tie the embeddings", key);
  }
  build_around(part, builder.linear(part.projection).source(), key, builder, layer);
}

void build_tied(const HeadPart& part, const HostTensor& table, LayerBuilder& builder, HeadLayer& layer) {
  layer.is_absent = !part.tied;
  builder.add_unread(table.unread());
  const ModelSpec& model = builder.model();
  build_around(part, tied_source(part, table, model), embedding_name(model.embedding, builder), builder,
               layer);
}

void build_borrowed(const HeadPart& part, const HeadLayer& lender, LayerBuilder& builder, HeadLayer& layer) {
  build_rest(part, builder, layer);
  layer.projection = lender.projection.borrowed();
}

void cut(HeadPart& part, const ShardCut& shard) {
  part.vocabulary = shard.columns(shard.whole().vocab_size);
  keep_own_outputs(part.projection, part.vocabulary);
}

void needs(const HeadPart& part, Needs& all) {
  if (part.narrowing) {
    all.scratch(kernels::Scratch::projected, part.narrowing->num_out);
    all.matrix(*part.narrowing);
  }
  WorkspaceColumns& columns = all.shape().columns;
  columns.logits = part.vocabulary.rank == 0 ? all.model().vocab_size : 0;
  if (part.vocabulary.is_split()) columns.own_logits = part.vocabulary.split().own();
}

void each_weight(const HeadLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.projection, 1.0);
  visitor.matrix(layer.narrowing, 1.0);
  for (const PreparedWeight& matrix : layer.stream_projections) visitor.matrix(matrix, 1.0);
  each_weight(layer.norm, visitor);
}

uint64_t mechanisms(const HeadPart& part) {
  return mechanisms(part.norm);
}

void HeadLayer::forward(const ForwardPass& pass) const {
  if (!stream_projections.empty()) join_streams(pass);
  if (num_copies > 0) average_streams(pass);
  kernels::HeadParams params;
  params.norm = norm.params();
  params.head = projection.get();
  params.logit_scale = logit_scale;
  params.softcap = softcap;
  params.vocab_size = vocab_size;
  params.vocabulary = vocabulary.split();
  params.batch = pass.batch;
  params.workspace = pass.workspace;
  if (narrowing.get() != nullptr) {
    params.workspace.hidden = narrow(pass);
    params.norm = kernels::NormParams();
    params.norm.kind = kernels::NormKind::none;
    params.norm.columns = input_columns;
  }
  pass.context.check(pass.context.table().head(pass.context.handle(), &params), "vocabulary projection");
}

float* HeadLayer::narrow(const ForwardPass& pass) const {
  const kernels::Workspace& space = pass.workspace;
  float* narrowed = space.at(kernels::Scratch::projected);
  norm_rows(pass, norm, space.hidden, space.normed, pass.num_tokens());
  multiply_rows(pass, narrowing, space.normed, narrowed, pass.num_tokens());
  return narrowed;
}

void HeadLayer::average_streams(const ForwardPass& pass) const {
  const int32_t hidden = norm.columns;
  const float* const streams = pass.workspace.at(kernels::Scratch::streams);
  kernels::RowOpParams params;
  params.target = pass.workspace.hidden;
  params.columns = hidden;
  params.a_stride = num_copies * hidden;
  params.factor = 1.0f / static_cast<float>(num_copies);
  for (int32_t s = 0; s < num_copies; ++s) {
    params.op = s == 0 ? kernels::RowOp::copy : kernels::RowOp::add;
    params.a = streams + s * hidden;
    run_row_op(pass, params);
  }
}

void HeadLayer::join_streams(const ForwardPass& pass) const {
  const int32_t hidden = norm.columns;
  float* sum = pass.workspace.at(kernels::Scratch::other);
  float* given = pass.workspace.at(kernels::Scratch::projected);
  copy_rows(pass, sum, hidden, pass.workspace.hidden, hidden, hidden);
  for (size_t s = 0; s < stream_projections.size(); ++s) {
    float* stream = stream_at(pass, kernels::Scratch::streams, gsl::narrow<int32_t>(s), hidden);
    multiply_rows(pass, stream_projections[s], rounded_rows(pass, stream, hidden), given, pass.num_tokens());
    match_size(pass, given, hidden);
    add_rows(pass, sum, given, hidden);
  }
  const auto num_streams = static_cast<float>(stream_projections.size() + 1);
  copy_rows(pass, pass.workspace.hidden, hidden, sum, hidden, hidden);
  scale_rows(pass, pass.workspace.hidden, hidden, 1.0f / num_streams);
}

}  // namespace quire
