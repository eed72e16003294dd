#include "core/layers/transformer_layer.h"

#include <cmath>
#include <utility>

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"
#include "core/layers/weight_bytes.h"
#include "core/tensor/row_transfer.h"

namespace quire {
namespace {

template <typename Parts, typename Layers, size_t... I>
void build_alternative(const Parts& part, LayerBuilder& builder, Layers& layer, std::index_sequence<I...>) {
  const auto build_if_there = [&]<size_t kIndex>() {
    if (part.index() == kIndex) build(std::get<kIndex>(part), builder, layer.template emplace<kIndex>());
  };
  (build_if_there.template operator()<I>(), ...);
}

// Builds the alternative of `layer` that corresponds to the alternative of `part`.
template <typename... Parts, typename... Layers>
void build(const std::variant<Parts...>& part, LayerBuilder& builder, std::variant<Layers...>& layer) {
  static_assert(sizeof...(Parts) == sizeof...(Layers), "each part has its layer");
  build_alternative(part, builder, layer, std::index_sequence_for<Parts...>());
}

void build(const std::optional<NormPart>& part, LayerBuilder& builder, std::optional<NormLayer>& layer) {
  if (part) build(*part, builder, layer.emplace());
}

bool reads_result(const std::optional<NormPart>& post_norm) {
  return post_norm && !post_norm->of_sum;
}

// Returns the norm of a block's result; nullptr if there is none, or if the norm reads the sum.
const NormLayer* norm_of_result(const std::optional<NormLayer>& post_norm) {
  return post_norm && !post_norm->of_sum ? &*post_norm : nullptr;
}

// Replaces the residual stream by its norm, if that norm comes after the block.
void norm_sum(const ForwardPass& pass, const std::optional<NormLayer>& post_norm) {
  float* const hidden = pass.workspace.hidden;
  if (post_norm && post_norm->of_sum) norm_rows_f32(pass, *post_norm, hidden, hidden, pass.num_tokens());
}

void each_feed_forward_weight(const TransformerLayer& layer, WeightVisitor& visitor) {
  each_weight(layer.feed_forward.norm, visitor);
  if (layer.feed_forward.post_norm) each_weight(*layer.feed_forward.post_norm, visitor);
  std::visit([&](const auto& part) { each_weight(part, visitor); }, layer.feed_forward.part);
}

// Visitor that calls a function for each matrix.
template <typename Visit>
class MatrixVisitor final : public WeightVisitor {
 public:
  explicit MatrixVisitor(Visit visit) : visit_(visit) {}
  void matrix(const PreparedWeight& weight, double share) override { visit_(weight, share); }
  void table(const PreparedWeight&) override {}
  void vector(const DeviceBuffer&) override {}

 private:
  Visit visit_;
};

// Visits some weights of a layer: each_weight or a part of it.
using VisitWeights = void (*)(const TransformerLayer& layer, WeightVisitor& visitor);

WeightBytes bytes_of(const TransformerLayer& layer, VisitWeights visit) {
  WeightBytes bytes;
  visit(layer, bytes);
  return bytes;
}

uint64_t step_bytes_of(const TransformerLayer& layer, VisitWeights visit, int32_t num_tokens) {
  double bytes = 0.0;
  MatrixVisitor add([&](const PreparedWeight& matrix, double share) {
    bytes += (1.0 - std::pow(1.0 - share, num_tokens)) * double(matrix.bytes());
  });
  visit(layer, add);
  return static_cast<uint64_t>(bytes) + bytes_of(layer, visit).vectors();
}

}  // namespace

const ExpertsLayer* experts_of(const TransformerLayer& layer) {
  if (const auto* both = std::get_if<MlpAndExpertsLayer>(&layer.feed_forward.part)) return &both->experts;
  return std::get_if<ExpertsLayer>(&layer.feed_forward.part);
}

const ExpertsLayer* packed_experts_of(const TransformerLayer& layer) {
  const ExpertsLayer* const experts = layer.feed_forward.on_host ? experts_of(layer) : nullptr;
  return experts != nullptr && experts->packed.limits.staging_bytes > 0 ? experts : nullptr;
}

ExpertsLayer* packed_experts_of(TransformerLayer& layer) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the layer is not const
  return const_cast<ExpertsLayer*>(packed_experts_of(std::as_const(layer)));
}

void build(const LayerSpec& spec, int32_t layer_idx, LayerBuilder& builder, LayerBuilder& of_feed_forward,
           TransformerLayer& layer) {
  layer.feed_forward.on_host = &of_feed_forward != &builder;
  layer.parallel = spec.parallel;
  layer.shares_norm = spec.shares_norm;
  // The norm before a part that is not there has no weights in the files.
  layer.mixer_norm.columns = spec.attention_norm.columns;
  if (!std::holds_alternative<EmptyPart>(spec.mixer)) build(spec.attention_norm, builder, layer.mixer_norm);
  build(spec.attention_post_norm, builder, layer.mixer_post_norm);
  build(spec.mixer, builder, layer.mixer);
  layer.feed_forward.norm.columns = spec.feed_forward_norm.columns;
  if (!spec.shares_norm && !std::holds_alternative<EmptyPart>(spec.feed_forward))
    build(spec.feed_forward_norm, of_feed_forward, layer.feed_forward.norm);
  build(spec.feed_forward_post_norm, of_feed_forward, layer.feed_forward.post_norm);
  build(spec.feed_forward, of_feed_forward, layer.feed_forward.part);
  if (const auto* streams = std::get_if<StreamsPart>(&spec.streams))
    build(*streams, builder, layer.streams.emplace<StreamsLayer>());
  if (const auto* connections = std::get_if<ConnectionsPart>(&spec.streams))
    build(*connections, builder, layer.streams.emplace<ConnectionsLayer>());
  if (spec.laurel) build(*spec.laurel, builder, layer.laurel.emplace());
  if (spec.layer_input) build(*spec.layer_input, layer_idx, builder, layer.layer_input.emplace());
  if (!spec.output_scale.name.empty()) layer.output_scale = builder.host_vector(spec.output_scale).front();
}

void cut(LayerSpec& spec, bool cuts_heads, ShardCut& shard) {
  std::visit([&](auto& part) { cut(part, cuts_heads, shard); }, spec.mixer);
  std::visit([&](auto& part) { cut(part, shard); }, spec.feed_forward);
}

void needs(const LayerSpec& spec, Needs& all, bool with_feed_forward) {
  all.begin_layer();
  std::visit([&](const auto& part) { needs(part, all); }, spec.mixer);
  if (with_feed_forward) needs_feed_forward(spec, all);
  const int32_t hidden = all.hidden();
  if (reads_result(spec.attention_post_norm)) all.scratch(kernels::Scratch::projected, hidden);
  if (spec.parallel && !spec.shares_norm) all.scratch(kernels::Scratch::normed, hidden);
  if (const auto* connections = std::get_if<ConnectionsPart>(&spec.streams)) needs(*connections, all);
  if (spec.laurel) needs(*spec.laurel, all);
  if (spec.layer_input) needs(*spec.layer_input, all);
}

void needs_feed_forward(const LayerSpec& spec, Needs& all) {
  std::visit([&](const auto& part) { needs(part, all); }, spec.feed_forward);
  if (reads_result(spec.feed_forward_post_norm)) all.scratch(kernels::Scratch::projected, all.hidden());
}

void each_weight(const TransformerLayer& layer, WeightVisitor& visitor) {
  each_weight_here(layer, visitor);
  each_host_weight(layer, visitor);
}

void each_weight_here(const TransformerLayer& layer, WeightVisitor& visitor) {
  each_weight(layer.mixer_norm, visitor);
  if (layer.mixer_post_norm) each_weight(*layer.mixer_post_norm, visitor);
  std::visit([&](const auto& part) { each_weight(part, visitor); }, layer.mixer);
  if (!layer.feed_forward.on_host) each_feed_forward_weight(layer, visitor);
  if (const auto* streams = std::get_if<StreamsLayer>(&layer.streams)) each_weight(*streams, visitor);
  if (const auto* connections = std::get_if<ConnectionsLayer>(&layer.streams))
    each_weight(*connections, visitor);
  if (layer.laurel) each_weight(*layer.laurel, visitor);
  if (layer.layer_input) each_weight(*layer.layer_input, visitor);
}

void each_host_weight(const TransformerLayer& layer, WeightVisitor& visitor) {
  if (layer.feed_forward.on_host) each_feed_forward_weight(layer, visitor);
}

uint64_t feed_forward_mechanisms(const LayerSpec& spec) {
  uint64_t bits = mechanisms(spec.feed_forward_post_norm, kernels::kMechanismPostNorm);
  if (!std::holds_alternative<EmptyPart>(spec.feed_forward)) bits |= mechanisms(spec.feed_forward_norm);
  return bits | std::visit([](const auto& part) { return mechanisms(part); }, spec.feed_forward);
}

uint64_t mechanisms(const LayerSpec& spec) {
  uint64_t bits =
      mechanisms(spec.attention_post_norm, kernels::kMechanismPostNorm) | feed_forward_mechanisms(spec);
  if (!std::holds_alternative<EmptyPart>(spec.mixer)) bits |= mechanisms(spec.attention_norm);
  bits |= std::visit([](const auto& part) { return mechanisms(part); }, spec.mixer);
  if (spec.parallel) bits |= kernels::kMechanismParallel;
  if (const auto* streams = std::get_if<StreamsPart>(&spec.streams)) bits |= mechanisms(*streams);
  if (const auto* connections = std::get_if<ConnectionsPart>(&spec.streams)) bits |= mechanisms(*connections);
  if (spec.laurel) bits |= mechanisms(*spec.laurel);
  if (spec.layer_input) bits |= mechanisms(*spec.layer_input);
  if (!spec.output_scale.name.empty()) bits |= kernels::kMechanismLayerScale;
  return bits;
}

bool can_cut_heads(const MixerSpec& mixer, const ShardCut& shard) {
  return std::visit([&](const auto& part) { return can_cut_heads(part, shard); }, mixer);
}

int32_t source_of_pages(const MixerSpec& mixer) {
  return std::visit([](const auto& part) { return source_of_pages(part); }, mixer);
}

int32_t first_source(const MixerSpec& mixer, int32_t layer) {
  return std::visit([&](const auto& part) { return first_source(part, layer); }, mixer);
}

uint64_t TransformerLayer::bytes() const {
  const WeightBytes bytes = bytes_of(*this, each_weight);
  return bytes.matrices() + bytes.vectors();
}

uint64_t TransformerLayer::taken_bytes(const Device& device) const {
  return bytes_of(*this, each_weight_here).taken(device);
}

uint64_t TransformerLayer::host_taken_bytes(const Device& device) const {
  return bytes_of(*this, each_host_weight).taken(device);
}

uint64_t TransformerLayer::step_bytes(int32_t num_tokens) const {
  return step_bytes_of(*this, each_weight, num_tokens);
}

uint64_t TransformerLayer::host_step_bytes(int32_t num_tokens) const {
  return step_bytes_of(*this, each_host_weight, num_tokens);
}

int64_t TransformerLayer::token_products() const {
  double products = 0.0;
  MatrixVisitor add(
      [&](const PreparedWeight& matrix, double share) { products += share * double(matrix.num_products()); });
  each_weight(*this, add);
  return static_cast<int64_t>(products);
}

TransformerLayer::Inputs TransformerLayer::normalise_input(const ForwardPass& pass) const {
  const kernels::Workspace& space = pass.workspace;
  Inputs inputs;
  if (parallel || laurel) {
    norm_rows(pass, mixer_norm, space.hidden, space.normed, pass.num_tokens());
    inputs.of_mixer = space.normed;
  }
  if (mixer_norm.stream_scale != 0.0f) inputs.of_mixer = normalise_residual(pass, mixer_norm);
  if (!parallel) return inputs;
  float* beside = space.at(kernels::Scratch::normed);
  if (!shares_norm) norm_rows(pass, feed_forward.norm, space.hidden, beside, pass.num_tokens());
  inputs.of_feed_forward = shares_norm ? space.normed : beside;
  return inputs;
}

const void* TransformerLayer::normalise_residual(const ForwardPass& pass, const NormLayer& norm) {
  const kernels::Workspace& space = pass.workspace;
  norm_rows(pass, norm, space.hidden, space.normed, pass.num_tokens());
  norm_rows_f32(pass, norm, space.hidden, space.hidden, pass.num_tokens());
  if (norm.stream_scale != 1.0f) scale_rows(pass, space.hidden, norm.columns, norm.stream_scale);
  return space.normed;
}

void TransformerLayer::run_feed_forward(const ForwardPass& pass, const void* input) const {
  const auto* const connections = std::get_if<ConnectionsLayer>(&streams);
  if (feed_forward.norm.stream_scale != 0.0f) input = normalise_residual(pass, feed_forward.norm);
  if (connections != nullptr) input = connections->feed_forward.enter(pass, feed_forward.norm);
  const Block block = {feed_forward.norm, norm_of_result(feed_forward.post_norm), input};
  std::visit([&](const auto& part) { part.forward(pass, block); }, feed_forward.part);
  if (connections != nullptr) connections->feed_forward.leave(pass);
  norm_sum(pass, feed_forward.post_norm);
}

void TransformerLayer::run_host_experts(const ForwardPass& pass) const {
  const ForwardPass& there = *pass.at_experts;
  const ContextRows own = {pass.context, pass.workspace.hidden};
  const ContextRows other = {there.context, there.workspace.hidden};
  transfer_rows(own, other, pass.num_tokens(), feed_forward.norm.columns);
  run_feed_forward(there, nullptr);
  transfer_rows(other, own, pass.num_tokens(), feed_forward.norm.columns);
}

void TransformerLayer::forward(const ForwardPass& pass, const LayerCache& cache) const {
  const auto* const predicted = std::get_if<StreamsLayer>(&streams);
  const auto* const connections = std::get_if<ConnectionsLayer>(&streams);
  pass.pause_or_cancel();
  if (predicted != nullptr) predicted->predict(pass);
  Inputs inputs = normalise_input(pass);
  if (laurel) laurel->forward(pass, pass.workspace.normed);
  if (connections != nullptr) inputs.of_mixer = connections->mixer.enter(pass, mixer_norm);
  const Block of_mixer = {mixer_norm, norm_of_result(mixer_post_norm), inputs.of_mixer};
  std::visit([&](const auto& part) { part.forward(pass, cache, of_mixer); }, mixer);
  if (connections != nullptr) connections->mixer.leave(pass);
  pass.pause_or_cancel();
  if (laurel) laurel->join(pass);
  norm_sum(pass, mixer_post_norm);
  if (feed_forward.on_host) {
    run_host_experts(pass);
  } else {
    run_feed_forward(pass, inputs.of_feed_forward);
  }
  if (predicted != nullptr) predicted->correct(pass);
  if (layer_input) layer_input->forward(pass, predicted);
  if (output_scale != 1.0f) scale_rows(pass, pass.workspace.hidden, mixer_norm.columns, output_scale);
}

}  // namespace quire
