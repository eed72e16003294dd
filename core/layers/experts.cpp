#include "core/layers/experts.h"

#include <algorithm>

#include "core/layers/expert_slots.h"
#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"
#include "kernels/interface/composite.h"

namespace quire {

using kernels::Scratch;

namespace {

// Returns what a card needs to multiply these experts. Called after the matrices are prepared or planned.
kernels::PackedExpertLimits packed_limits(const ExpertsLayer& layer, int32_t num_in, int32_t num_out) {
  kernels::PackedExpertLimits limits;
  limits.num_chosen = layer.router.num_chosen;
  limits.num_in = num_in;
  limits.activated = layer.expert.intermediate;
  limits.products = (layer.expert.gated ? 2 : 1) * limits.activated;
  limits.num_out = num_out;
  uint64_t largest = 0;
  for (size_t e = 0; e < layer.down.matrices.size(); ++e)
    largest = std::max(largest, layer.gate_up.matrices[e].bytes() + layer.down.matrices[e].bytes());
  limits.num_experts = gsl::narrow<int32_t>(layer.down.matrices.size());
  limits.staging_bytes = kernels::staging_bytes(largest, limits.num_experts);
  limits.slot_bytes = kernels::slot_bytes(largest, std::min(limits.activated, num_out));
  limits.num_slots = limits.num_experts;
  return limits;
}

// Requests the gate, up and down matrices of every expert.
void build_experts(const MlpPart& part, int32_t num_experts, LayerBuilder& builder, ExpertsLayer& layer) {
  layer.gate_up.resize(num_experts, builder);
  layer.down.resize(num_experts, builder);
  const size_t first = builder.num_requests();
  for (int32_t e = 0; e < num_experts; ++e) {
    LinearWeight& down = builder.linear(part.down, e);
    builder.request_folded(layer.gate_up.at(e), part.gate_up, down, e);
    builder.request(layer.down.at(e), part.down, down.source(), e == 0 ? part.down.key : "");
  }
  builder.mark_experts(first);
  if (part.is_sparse || !builder.are_packed(first, part.gated ? 2 : 1)) return;
  builder.after_prepare([&layer, num_in = part.gate_up.front().num_in, num_out = part.down.outputs()] {
    layer.packed.limits = packed_limits(layer, num_in, num_out);
  });
}

void add_shared(const ForwardPass& pass, const ExpertsLayer& layer, const void* input, float* target,
                int32_t hidden) {
  if (layer.shared_gate.get() == nullptr) return layer.shared->add_to(pass, input, target);
  float* given = pass.workspace.at(Scratch::other);
  layer.shared->write_to(pass, input, given);
  float* gate = pass.workspace.at(Scratch::router);
  multiply_rows(pass, layer.shared_gate, input, gate, pass.num_tokens());
  kernels::RowOpParams params;
  params.op = kernels::RowOp::gate;
  params.target = target;
  params.a = given;
  params.b = gate;
  params.columns = hidden;
  run_row_op(pass, params);
}

}  // namespace

void build(const ExpertsPart& part, LayerBuilder& builder, ExpertsLayer& layer) {
  static_cast<kernels::RouterSpec&>(layer.router) = static_cast<const kernels::RouterSpec&>(part);
  builder.request(layer.router.matrix, {part.router});
  layer.router.choice_bias = builder.vector(part.choice_bias);
  layer.router.expert_scale = builder.vector(part.expert_scale);
  if (part.router_norm) build(*part.router_norm, builder, layer.router_norm.emplace());
  layer.expert = static_cast<const kernels::MlpSpec&>(part.expert);
  layer.activated = part.expert.activated;
  layer.outputs = part.expert.outputs;
  build_experts(part.expert, part.num_experts, builder, layer);
  if (part.narrow) build(*part.narrow, builder, layer.narrow.emplace());
  if (part.shared) build(*part.shared, builder, layer.shared.emplace());
  if (part.shared_gate) builder.request(layer.shared_gate, {*part.shared_gate});
  layer.output_bias = builder.vector(part.output_bias);
}

void cut(ExpertsPart& part, const ShardCut& shard) {
  if (part.narrow) {
    cut(part.expert, shard, shard.columns(part.narrow->down.outputs()));
    cut(*part.narrow, shard);
  } else {
    cut(part.expert, shard);
  }
  if (part.shared) cut(*part.shared, shard);
}

void needs(const ExpertsPart& part, Needs& all) {
  needs(static_cast<const kernels::RouterSpec&>(part), all);
  const int32_t row = (part.expert.gated ? 2 : 1) * part.expert.intermediate;
  const int32_t inner = part.expert.activated.total(part.expert.intermediate);
  all.scratch(Scratch::expert_in, part.num_chosen * row);
  all.scratch(Scratch::expert_mid, part.num_chosen * inner);
  all.expert_matrix(all.hidden(), std::max(row, inner));
  all.slice(part.expert.activated, part.num_chosen);
  all.slice(part.expert.outputs);
  if (part.narrow) {
    needs(*part.narrow, all);
    const int32_t width = part.narrow->down.outputs();
    all.scratch(Scratch::expert_out, part.num_chosen * width);
    all.expert_matrix(width, std::max(row, inner));
  }
  if (part.router_norm) all.scratch(Scratch::row, all.hidden());
  if (part.shared) needs(*part.shared, all);
  if (part.shared_gate) all.scratch(Scratch::other, all.hidden());
}

void each_weight(const ExpertsLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.router.matrix, 1.0);
  visitor.vector(layer.router.choice_bias);
  visitor.vector(layer.router.expert_scale);
  if (layer.router_norm) each_weight(*layer.router_norm, visitor);
  each_weight(layer.gate_up, layer.router.share(), visitor);
  each_weight(layer.down, layer.router.share(), visitor);
  if (layer.narrow) each_weight(*layer.narrow, visitor);
  if (layer.shared) each_weight(*layer.shared, visitor);
  visitor.matrix(layer.shared_gate, 1.0);
  visitor.vector(layer.output_bias);
}

// A backend that supports experts supports all of their activations.
uint64_t mechanisms(const ExpertsPart&) {
  return kernels::kMechanismExperts;
}

double ExpertsLayer::step_bytes() const {
  uint64_t bytes = 0;
  for (const ExpertMatrices* experts : {&gate_up, &down})
    for (const PreparedWeight& matrix : experts->matrices) bytes += matrix.bytes();
  return router.share() * double(bytes);
}

void ExpertsLayer::forward(const ForwardPass& pass, const Block& block) const {
  ExpertInput input;
  if (block.input != nullptr) {
    input.rows = block.input;
  } else {
    input.norm = &block.norm;
  }
  if (!block.post_norm && can_add()) return add_to(pass, input, pass.workspace.hidden, block.hidden());
  float* given = pass.workspace.at(Scratch::projected);
  write_to(pass, input, given, block.hidden());
  block.add_result(pass, given);
}

void ExpertsLayer::sum_up(const ForwardPass& pass, const ExpertInput& input,
                          kernels::CombineParams& sum) const {
  const kernels::Workspace& space = pass.workspace;
  if (router_norm) {
    if (input.norm != nullptr) norm_rows(pass, *input.norm, space.hidden, space.normed, pass.num_tokens());
    norm_rows(pass, *router_norm, space.hidden, space.at(Scratch::row), pass.num_tokens());
    router.forward(pass, {.rows = space.at(Scratch::row)});
  } else {
    router.forward(pass, input);
  }
  const void* read = input.normed_rows(space);
  if (narrow) read = narrow->narrowed(pass, read);
  if (packed.limits.staging_bytes > 0 && pass.card != nullptr) {
    const CardRows rows = card_rows(pass, read);
    if (pays_on_card(rows)) return sum_there(pass, rows, sum);
    if (pass.slots != nullptr) return sum_at_both(pass, rows, sum);
  }
  multiply_here(pass, read);
  sum_here(pass, sum);
}

void ExpertsLayer::multiply_here(const ForwardPass& pass, const void* read) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t rows = pass.num_tokens() * router.num_chosen;
  const float* input_scale = router.scales_input ? space.at(Scratch::weights) : nullptr;
  float* between = space.at(activated.is_split() ? Scratch::slice : Scratch::expert_mid);
  multiply_experts(pass, gate_up, {read, router.num_chosen, input_scale, rows},
                   {between, &expert, space.at(Scratch::expert_in)});
  if (activated.is_split())
    gather_slices(pass, activated, rows, pass.activation_dtype(), space.at(Scratch::expert_mid));
  multiply_experts(pass, down, {space.at(Scratch::expert_mid), 1, nullptr, rows, true},
                   {space.at(Scratch::expert_out)});
}

void ExpertsLayer::sum_here(const ForwardPass& pass, kernels::CombineParams& sum) const {
  const kernels::Workspace& space = pass.workspace;
  sum.input = space.at(Scratch::expert_out);
  sum.weights = router.scales_input ? nullptr : space.at(Scratch::weights);
  sum.num_chosen = router.num_chosen;
  sum.tokens = pass.num_tokens();
  pass.context.check(pass.context.table().combine(pass.context.handle(), &sum), "experts");
}

namespace {

int32_t* chosen_experts(const ForwardPass& pass) {
  return reinterpret_cast<int32_t*>(pass.workspace.at(Scratch::chosen));
}

// Largest number of bytes that a step of few tokens copies to slots, unless an expert is larger: less than a
// millisecond of one step.
constexpr uint64_t kExchangedBytes = uint64_t{8} << 20;

}  // namespace

CardRows ExpertsLayer::card_rows(const ForwardPass& pass, const void* read) const {
  const float* weights = pass.workspace.at(Scratch::weights);
  CardRows rows;
  rows.input = static_cast<const float*>(read);
  rows.num_in = packed.limits.num_in;
  rows.input_scale = router.scales_input ? weights : nullptr;
  rows.weights = router.scales_input ? nullptr : weights;
  rows.experts = chosen_experts(pass);
  rows.num_chosen = router.num_chosen;
  rows.tokens = pass.num_tokens();
  if (pass.slots == nullptr) return rows;
  pass.slots->count(packed.slots_idx, {rows.experts, static_cast<size_t>(rows.num_rows())});
  rows.places = pass.slots->places(packed.slots_idx).data();
  return rows;
}

// Tokens are divided evenly, so that each part reads the experts for as many rows as possible. As many
// experts as the step must read anyway may stay.
void ExpertsLayer::sum_there(const ForwardPass& pass, CardRows rows,
                             const kernels::CombineParams& sum) const {
  const int32_t lacking = num_lacking(rows);
  if (pass.slots != nullptr && lacking > 0) pass.slots->exchange(packed.slots_idx, lacking);
  const int32_t tokens = rows.tokens;
  const int32_t num_slices = (tokens - 1) / kMaxCardTokens + 1;
  const int32_t of_slice = (tokens - 1) / num_slices + 1;
  for (int32_t first = 0; first < tokens; first += of_slice) {
    kernels::CombineParams part = sum;
    part.tokens = std::min(of_slice, tokens - first);
    part.input = sum_on_card(pass, {gate_up, down, expert}, rows.slice(first, part.tokens));
    if (pass.slots != nullptr) pass.slots->mark_filled(packed.slots_idx);
    part.num_chosen = 1;
    part.target = sum.target + ptrdiff_t{first} * sum.columns;
    pass.context.check(pass.context.table().combine(pass.context.handle(), &part), "experts");
  }
}

// The results of each expert are summed in the same order, whichever device they come from. Experts are
// exchanged for later steps.
void ExpertsLayer::sum_at_both(const ForwardPass& pass, const CardRows& rows,
                               kernels::CombineParams& sum) const {
  const CardExperts experts = {gate_up, down, expert};
  const bool any = are_in_slots(rows);
  if (any) start_on_card(pass, experts, rows);
  int32_t* const chosen = chosen_experts(pass);
  for (int32_t r = 0; any && r < rows.num_rows(); ++r)
    if (rows.places[chosen[r]].is_there()) chosen[r] = -1;
  multiply_here(pass, rows.input);
  if (any) finish_on_card(pass, pass.workspace.at(Scratch::expert_out));
  sum_here(pass, sum);
  if (!pass.slots->is_turn_of(packed.slots_idx)) return;
  const auto most = static_cast<int32_t>(std::max<uint64_t>(kExchangedBytes / packed.limits.slot_bytes, 1));
  if (!pass.slots->exchange(packed.slots_idx, most)) return;
  fill_slots(pass, experts, rows.places);
  pass.slots->mark_filled(packed.slots_idx);
}

void ExpertsLayer::add_to(const ForwardPass& pass, const ExpertInput& input, float* target,
                          int32_t hidden) const {
  kernels::CombineParams sum;
  const kernels::ColumnSplit split = outputs.split();
  sum.columns = split.is_split() ? split.own() : hidden;
  sum.target = split.is_split() ? target + split.first() : target;
  sum.target_stride = hidden;
  sum.adds = true;
  sum_up(pass, input, sum);
  if (split.is_split())
    pass.context.check(kernels::gather_in_place(pass.context.handle(), split, pass.num_tokens(), target),
                       "gathering shards");
}

void ExpertsLayer::write_sum(const ForwardPass& pass, const ExpertInput& input, float* target,
                             int32_t columns) const {
  kernels::CombineParams sum;
  const kernels::ColumnSplit split = outputs.split();
  sum.columns = split.is_split() ? split.own() : columns;
  sum.target = split.is_split() ? pass.workspace.at(Scratch::slice) : target;
  sum_up(pass, input, sum);
  if (outputs.is_split()) gather_slices(pass, outputs, pass.num_tokens(), kernels::DType::f32, target);
}

void ExpertsLayer::write_to(const ForwardPass& pass, const ExpertInput& input, float* target,
                            int32_t hidden) const {
  if (narrow) {
    write_sum(pass, input, narrow->sums(pass), narrow->width);
    narrow->widen(pass, target);
  } else {
    write_sum(pass, input, target, hidden);
  }
  if (shared) add_shared(pass, *this, input.normed_rows(pass.workspace), target, hidden);
  if (output_bias.bytes() == 0) return;
  kernels::RowOpParams bias;
  bias.op = kernels::RowOp::add_columns;
  bias.target = target;
  bias.a = output_bias.as<float>();
  bias.columns = hidden;
  run_row_op(pass, bias);
}

}  // namespace quire
