// Operations of layers with a recurrent state. An operation runs in up to three passes over lanes and units:
// the convolution of its inputs, in place; its heads; the gated norm, unless a head computes it.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/state/lanes.h"
#include "kernels/cpu/table_entries.h"

namespace quire::kernels::cpu_entries {
namespace {

constexpr int32_t kUnitChannels = 128;

StateColumns columns_of(const StateRows& rows) {
  return {static_cast<const float*>(rows.rows), static_cast<size_t>(rows.stride)};
}

StateColumns columns_from(StateColumns columns, int32_t first) {
  if (columns.rows != nullptr) columns.rows += first;
  return columns;
}

// Channels that are convolved alike; the units are slices of them.
struct ConvolvedChannels {
  ConvolveUnit all;           // of all channels
  int32_t unit_channels = 0;  // channels of a unit; the last may have fewer
};

ConvolvedChannels convolved(const StateRows& rows, int32_t channels, int32_t unit_channels) {
  ConvolvedChannels out;
  out.unit_channels = unit_channels;
  out.all.input = columns_of(rows);
  out.all.output = static_cast<float*>(rows.rows);
  out.all.output_stride = static_cast<size_t>(rows.stride);
  out.all.channels = channels;
  return out;
}

void add_taps(ConvolveUnit& unit, const ConvolutionTaps& taps, int32_t num_taps) {
  unit.taps = num_taps;
  unit.weight = taps.weight;
  unit.weight_stride = static_cast<size_t>(taps.tap_stride);
  unit.bias = taps.bias;
}

void add_bank(ConvolveUnit& unit, const StateShape& shape, int32_t first_channel) {
  unit.inputs = state_layout(shape).inputs + static_cast<size_t>(first_channel) * sizeof(float);
  unit.inputs_stride = static_cast<size_t>(shape.conv_channels);
}

int32_t num_units(const ConvolvedChannels& channels) {
  return (channels.all.channels + channels.unit_channels - 1) / channels.unit_channels;
}

// Returns the part of `channels` that unit number `index` computes.
ConvolveUnit unit_of(const ConvolvedChannels& channels, int32_t index) {
  ConvolveUnit unit = channels.all;
  const int32_t first = index * channels.unit_channels;
  unit.channels = std::min(channels.unit_channels, unit.channels - first);
  unit.input = columns_from(unit.input, first);
  unit.before = columns_from(unit.before, first);
  unit.after = columns_from(unit.after, first);
  unit.output += first;
  if (unit.weight != nullptr) unit.weight += first;
  if (unit.bias != nullptr) unit.bias += first;
  unit.inputs += static_cast<size_t>(first) * sizeof(float);
  unit.keys += static_cast<size_t>(index) * kStateLine *
               static_cast<size_t>(padded_state_dim(channels.unit_channels)) * sizeof(float);
  return unit;
}

template <size_t kParts>
void convolve_parts(Context* context, const ConvolvedChannels (&parts)[kParts]) {
  int32_t units = 0;
  for (const ConvolvedChannels& part : parts) units += num_units(part);
  constexpr int64_t kChannelWork = 16;
  each_unit(context, units, kChannelWork * kUnitChannels, [&](const StateLane& lane, int32_t unit) {
    const ConvolvedChannels* part = parts;
    while (unit >= num_units(*part)) unit -= num_units(*part++);
    context->device->isa.state.convolve(unit_of(*part, unit), lane);
  });
}

bool has_gate(const GatedNormSpec& spec) {
  return spec.normalises || spec.gate != GateKind::none;
}

GateUnit gate_unit(const GatedNormSpec& spec, const GatedNormInput& input) {
  return {&spec, columns_of(input.gate), input.weight};
}

// Gates and normalises rows of `columns`.
void gate_rows(Context* context, const GateUnit& unit, StateColumns input, int32_t rows, int32_t columns,
               float* output) {
  const GatedNormSpec& spec = *unit.spec;
  const int32_t groups = columns / spec.group_columns;
  share_work(context, int64_t{rows} * groups, 8 * int64_t{spec.group_columns},
             [&](int32_t, int64_t first, int64_t last) {
               for (int64_t i = first; i < last; ++i) {
                 const auto row = static_cast<size_t>(i / groups);
                 const auto column = static_cast<size_t>(i % groups * spec.group_columns);
                 const float* gate =
                     spec.gate != GateKind::none ? unit.gate.rows + row * unit.gate.stride + column : nullptr;
                 const float* weight = unit.weight;
                 if (weight != nullptr && !spec.shared_weight) weight += column;
                 context->device->isa.state.gate(spec, input.rows + row * input.stride + column, gate, weight,
                                                 output + row * static_cast<size_t>(columns) + column);
               }
             });
}

// Computes the heads, then the norm of groups that are no heads.
void run_heads(Context* context, HeadsWork& work, const StateOpParams& params, const StateShape& shape,
               const GatedNormSpec& spec, const GatedNormInput& input) {
  const StateLayout layout = state_layout(shape);
  const int32_t columns = work.num_heads * work.value_dim;
  work.state = layout.state;
  work.keys = layout.keys;
  work.updates = layout.updates;
  work.decays = layout.decays;
  work.output = static_cast<float*>(params.output);
  work.output_stride = static_cast<size_t>(columns);
  const bool by_head = has_gate(spec) && spec.group_columns == work.value_dim;
  if (by_head) work.gate = gate_unit(spec, input);
  each_unit(context, work.num_heads, 3 * int64_t{work.key_dim} * work.value_dim,
            [&](const StateLane& lane, int32_t head) { context->device->isa.state.head(work, lane, head); });
  if (has_gate(spec) && !by_head)
    gate_rows(context, gate_unit(spec, input), {work.output, work.output_stride}, params.batch.num_tokens,
              columns, work.output);
}

Status check_norm(const char* operation, const GatedNormSpec& spec, const GatedNormInput& input,
                  int32_t columns) {
  if (!has_gate(spec)) return Status::ok;
  if (spec.group_columns < 1 || columns % spec.group_columns != 0)
    return failed(Status::invalid_argument, "%s: norm of groups of %d of %d columns", operation,
                  spec.group_columns, columns);
  if (spec.gate != GateKind::none && input.gate.rows == nullptr)
    return failed(Status::invalid_argument, "%s: the gate has no rows", operation);
  return Status::ok;
}

// Shape of the heads of an operation.
struct HeadCounts {
  int32_t heads;
  int32_t key_heads;
  int32_t key_dim;
  int32_t value_dim;
  int32_t taps;
};

Status check_heads(const char* operation, const HeadCounts& c) {
  if (c.heads > 0 && c.key_heads > 0 && c.heads % c.key_heads == 0 && c.key_dim > 0 &&
      c.key_dim <= kMaxStateKey && c.value_dim > 0 && c.taps >= 0 && c.taps <= kMaxConvTaps)
    return Status::ok;
  return failed(Status::invalid_argument,
                "%s: %d heads of %d, %d key heads of %d (at most %d), %d taps (at most %d)", operation,
                c.heads, c.value_dim, c.key_heads, c.key_dim, kMaxStateKey, c.taps, kMaxConvTaps);
}

void convolve_delta(Context* context, const DeltaRuleParams& p, const StateShape& shape) {
  const int32_t keys = p.num_key_heads * p.key_dim, values = p.num_heads * p.value_dim;
  ConvolvedChannels parts[] = {convolved(p.query, keys, p.key_dim), convolved(p.key, keys, p.key_dim),
                               convolved(p.value, values, kUnitChannels)};
  const ConvolutionTaps taps[] = {p.query_taps, p.key_taps, p.value_taps};
  for (int32_t i = 0; i < 3; ++i) {
    if (p.conv_taps > 0) add_taps(parts[i].all, taps[i], p.conv_taps);
    add_bank(parts[i].all, shape, i * keys);
    parts[i].all.silu = p.conv_taps > 0;
    parts[i].all.normalises = i < 2;
  }
  parts[0].all.scale = 1.0f / std::sqrt(static_cast<float>(p.key_dim));
  parts[1].all.keeps_keys = true;
  parts[1].all.keys = state_layout(shape).keys;
  convolve_parts(context, parts);
}

void convolve_state_space(Context* context, const StateSpaceParams& p, const StateShape& shape) {
  const int32_t keys = p.num_groups * p.state_dim, values = p.num_heads * p.head_dim;
  ConvolvedChannels parts[] = {convolved(p.input, values, kUnitChannels), convolved(p.key, keys, p.state_dim),
                               convolved(p.query, keys, kUnitChannels)};
  const ConvolutionTaps taps[] = {p.input_taps, p.key_taps, p.query_taps};
  const int32_t first[] = {0, values, values + keys};
  for (int32_t i = 0; i < 3; ++i) {
    if (p.conv_taps > 0) add_taps(parts[i].all, taps[i], p.conv_taps);
    add_bank(parts[i].all, shape, first[i]);
    parts[i].all.silu = true;
  }
  parts[1].all.keeps_keys = true;
  parts[1].all.keys = state_layout(shape).keys;
  convolve_parts(context, parts);
}

void activate_linear(Context* context, const LinearAttentionParams& p, const StateShape& shape) {
  const int32_t columns = p.num_heads * p.head_dim;
  ConvolvedChannels parts[] = {convolved(p.query, columns, kUnitChannels),
                               convolved(p.key, columns, p.head_dim),
                               convolved(p.value, columns, kUnitChannels)};
  for (ConvolvedChannels& part : parts) part.all.silu = true;
  parts[1].all.keeps_keys = true;
  parts[1].all.keys = state_layout(shape).keys;
  convolve_parts(context, parts);
}

}  // namespace

Status convolve(Context* context, const ConvolveParams* params) {
  const ConvolveParams& p = *params;
  if (p.channels < 1 || p.taps < 1 || p.taps > kMaxConvTaps)
    return failed(Status::invalid_argument, "convolve: %d channels, %d taps (at most %d)", p.channels, p.taps,
                  kMaxConvTaps);
  const StateShape shape = state_shape(p);
  QUIRE_RETURN_IF_FAILED(open_lanes(context, "convolve", p, shape, {}));
  ConvolvedChannels parts[] = {convolved(p.input, p.channels, kUnitChannels)};
  ConvolveUnit& all = parts[0].all;
  all.before = columns_of(p.before);
  all.after = columns_of(p.after);
  all.output = static_cast<float*>(p.output);
  all.output_stride = static_cast<size_t>(p.channels);
  all.silu = p.silu;
  add_taps(all, p.weights, p.taps);
  add_bank(all, shape, 0);
  convolve_parts(context, parts);
  return Status::ok;
}

Status delta_rule(Context* context, const DeltaRuleParams* params) {
  const DeltaRuleParams& p = *params;
  const StateShape shape = state_shape(p);
  QUIRE_RETURN_IF_FAILED(
      check_heads("delta_rule", {p.num_heads, p.num_key_heads, p.key_dim, p.value_dim, p.conv_taps}));
  QUIRE_RETURN_IF_FAILED(check_norm("delta_rule", p.norm, p.norm_input, p.num_heads * p.value_dim));
  QUIRE_RETURN_IF_FAILED(
      open_lanes(context, "delta_rule", p, shape, {p.num_key_heads, p.num_heads, p.num_heads}));
  convolve_delta(context, p, shape);
  HeadsWork work;
  work.rule = p.decay_per_channel ? HeadRule::delta_per_channel : HeadRule::delta;
  work.key_dim = p.key_dim;
  work.value_dim = p.value_dim;
  work.heads_per_key = p.num_heads / p.num_key_heads;
  work.num_heads = p.num_heads;
  work.query = columns_of(p.query);
  work.key = columns_of(p.key);
  work.value = columns_of(p.value);
  work.decay = columns_of(p.decay);
  work.beta = columns_of(p.beta);
  work.a_log = p.a_log;
  work.bias = p.decay_bias;
  work.decay_kind = p.decay_kind;
  work.lower_bound = p.lower_bound;
  work.beta_scale = p.beta_scale;
  run_heads(context, work, p, shape, p.norm, p.norm_input);
  return Status::ok;
}

Status state_space(Context* context, const StateSpaceParams* params) {
  const StateSpaceParams& p = *params;
  const StateShape shape = state_shape(p);
  QUIRE_RETURN_IF_FAILED(
      check_heads("state_space", {p.num_heads, p.num_groups, p.state_dim, p.head_dim, p.conv_taps}));
  QUIRE_RETURN_IF_FAILED(check_norm("state_space", p.norm, p.norm_input, p.num_heads * p.head_dim));
  QUIRE_RETURN_IF_FAILED(
      open_lanes(context, "state_space", p, shape, {p.num_groups, p.num_heads, p.num_heads}));
  convolve_state_space(context, p, shape);
  HeadsWork work;
  work.rule = HeadRule::state_space;
  work.key_dim = p.state_dim;
  work.value_dim = p.head_dim;
  work.heads_per_key = p.num_heads / p.num_groups;
  work.num_heads = p.num_heads;
  work.query = columns_of(p.query);
  work.key = columns_of(p.key);
  work.value = columns_of(p.input);
  work.decay = columns_of(p.step);
  work.a_log = p.a_log;
  work.bias = p.step_bias;
  work.skip = p.skip;
  work.least_step = p.least_step;
  work.most_step = p.most_step;
  run_heads(context, work, p, shape, p.norm, p.norm_input);
  return Status::ok;
}

Status linear_attention(Context* context, const LinearAttentionParams* params) {
  const LinearAttentionParams& p = *params;
  const StateShape shape = state_shape(p);
  QUIRE_RETURN_IF_FAILED(
      check_heads("linear_attention", {p.num_heads, p.num_heads, p.head_dim, p.head_dim, 0}));
  QUIRE_RETURN_IF_FAILED(check_norm("linear_attention", p.norm, p.norm_input, p.num_heads * p.head_dim));
  QUIRE_RETURN_IF_FAILED(
      open_lanes(context, "linear_attention", p, shape, {p.num_heads, p.num_heads, p.num_heads}));
  activate_linear(context, p, shape);
  HeadsWork work;
  work.rule = HeadRule::linear;
  work.key_dim = p.head_dim;
  work.value_dim = p.head_dim;
  work.num_heads = p.num_heads;
  work.query = columns_of(p.query);
  work.key = columns_of(p.key);
  work.value = columns_of(p.value);
  work.slopes = p.slopes;
  run_heads(context, work, p, shape, p.norm, p.norm_input);
  return Status::ok;
}

Status selective_scan(Context* context, const SelectiveScanParams* params) {
  const SelectiveScanParams& p = *params;
  if (p.channels < 1 || p.state_dim < 1 || p.state_dim > kMaxStateKey)
    return failed(Status::invalid_argument, "selective_scan: %d channels, state of %d (at most %d)",
                  p.channels, p.state_dim, kMaxStateKey);
  if (p.kind == ScanKind::rg_lru && p.state_dim != 1)
    return failed(Status::invalid_argument, "selective_scan: an RG-LRU has a state of 1, not %d",
                  p.state_dim);
  QUIRE_RETURN_IF_FAILED(check_norm("selective_scan", p.norm, p.norm_input, p.channels));
  const StateShape shape = state_shape(p);
  const StateLayout layout = state_layout(shape);
  const int32_t blocks = padded_state_dim(p.channels) / 16;
  QUIRE_RETURN_IF_FAILED(open_lanes(context, "selective_scan", p, shape, {1, blocks, blocks}));
  ScanWork work;
  work.kind = p.kind;
  work.channels = p.channels;
  work.state_dim = p.state_dim;
  work.input_gate = columns_of(p.input_gate);
  work.input_bias = p.input_bias;
  work.input = columns_of(p.input);
  work.step = columns_of(p.step);
  work.key = columns_of(p.key);
  work.query = columns_of(p.query);
  work.a_log = p.a_log;
  work.bias = p.step_bias;
  work.skip = p.skip;
  work.state = layout.state;
  work.keys = layout.keys;
  work.updates = layout.updates;
  work.decays = layout.decays;
  work.output = static_cast<float*>(p.output);
  work.output_stride = static_cast<size_t>(p.channels);
  each_unit(context, blocks, 16 * 20 * int64_t{p.state_dim}, [&](const StateLane& lane, int32_t block) {
    context->device->isa.state.scan(work, lane, block);
  });
  if (has_gate(p.norm))
    gate_rows(context, gate_unit(p.norm, p.norm_input), {work.output, work.output_stride}, p.batch.num_tokens,
              p.channels, work.output);
  return Status::ok;
}

Status gated_norm(Context* context, const GatedNormParams* params) {
  const GatedNormParams& p = *params;
  if (!has_gate(p)) return failed(Status::invalid_argument, "gated_norm: neither a norm nor a gate");
  QUIRE_RETURN_IF_FAILED(check_norm("gated_norm", p, p.norm_input, p.columns));
  gate_rows(context, gate_unit(p, p.norm_input), columns_of(p.input), p.rows, p.columns,
            static_cast<float*>(p.output));
  return Status::ok;
}

Status copy_state(Context*, const CopyStateParams* params) {
  if (params->bytes != 0) std::memcpy(params->target, params->source, params->bytes);
  return Status::ok;
}

}  // namespace quire::kernels::cpu_entries
