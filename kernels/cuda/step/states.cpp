// The table entries of layers with a recurrent state: they check shapes and launch kernels. Slots, banks and
// positions were checked when the batch was bound.
#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/cuda/state/state.h"
#include "kernels/cuda/step/context.h"

namespace quire::kernels {
namespace {

Status check(Context& c, cudaError_t error, const char* doing) {
  return c.device->check(error, doing);
}

Status refuse(Context& c, const char* operation, const std::string& why) {
  return c.device->fail(Status::invalid_argument, std::string(operation) + ": " + why);
}

bool has_gate(const GatedNormSpec& spec) {
  return spec.normalises || spec.gate != GateKind::none;
}

Status check_norm(Context& c, const char* operation, const GatedNormSpec& spec, const void* gate,
                  int32_t columns) {
  if (!has_gate(spec)) return Status::ok;
  if (spec.group_columns < 1 || columns % spec.group_columns != 0)
    return refuse(c, operation,
                  "norm of groups of " + std::to_string(spec.group_columns) + " of " +
                      std::to_string(columns) + " columns");
  if (spec.gate != GateKind::none && gate == nullptr) return refuse(c, operation, "the gate has no rows");
  return Status::ok;
}

Status check_heads(Context& c, const char* operation, const HeadsArguments& a) {
  if (a.num_heads > 0 && a.heads_per_key > 0 && a.num_heads % a.heads_per_key == 0 && a.key_dim > 0 &&
      a.key_dim <= kMaxStateKey && a.value_dim > 0 && a.conv_taps >= 0 && a.conv_taps <= kMaxConvTaps)
    return Status::ok;
  return refuse(c, operation,
                std::to_string(a.num_heads) + " heads of " + std::to_string(a.value_dim) + ", keys of " +
                    std::to_string(a.key_dim) + " (at most " + std::to_string(kMaxStateKey) + ") for every " +
                    std::to_string(a.heads_per_key) + " heads, " + std::to_string(a.conv_taps) +
                    " taps (at most " + std::to_string(kMaxConvTaps) + ")");
}

// Fills in where the sequences' states lie, and moves those that go on in another slot.
Status open_states(Context& c, const char* operation, const StateOpParams& p, const StateShape& shape,
                   const BankGroups& groups, StateMemory& memory) {
  if (p.batch.read_slots == nullptr || p.batch.write_slots == nullptr || p.batch.state_banks == nullptr)
    return refuse(c, operation, "the batch has no slots");
  if (p.store.memory == nullptr || p.store.slot_stride < state_bytes(shape))
    return refuse(c, operation,
                  "slots of " + std::to_string(p.store.slot_stride) + " bytes, of which " +
                      std::to_string(state_bytes(shape)) + " are needed");
  if (!p.rows_are_f32)
    return c.device->fail(Status::unsupported, std::string(operation) + ": rows of f16 are not supported");
  memory.positions = p.batch.positions;
  memory.starts = p.batch.sequence_starts;
  memory.slots = p.batch.write_slots;
  memory.banks = p.batch.state_banks;
  memory.memory = static_cast<uint8_t*>(p.store.memory);
  memory.slot_stride = p.store.slot_stride;
  memory.layout = state_layout(shape);
  if (!c.moves_states) return Status::ok;
  return check(c, launch_move(p.batch, memory, shape, groups, c.launch()), "moving states");
}

FloatRows rows_of(const StateRows& rows, const ConvolutionTaps& taps = {}, int32_t first_channel = 0) {
  return {
      static_cast<float*>(rows.rows), rows.stride, {taps.weight, taps.bias, taps.tap_stride, first_channel}};
}

cudaError_t launch(const Context& c, const HeadsArguments& a, const BatchView& batch) {
  if (!a.solves_lines) return launch_heads(a, c.launch());
  LineTokens tokens = {batch.num_tokens, batch.max_query_tokens};
  if (a.solved_line_bytes <= c.limits.state_line_bytes) tokens.solved_lines = c.solved_lines;
  return launch_lines(a, tokens, c.launch());
}

// Computes the heads, then the gated norm of rows that their kernel has not gated.
Status run_heads(Context& c, const char* operation, HeadsArguments& a, const StateOpParams& p,
                 const StateShape& shape, const GatedNormSpec& spec, const GatedNormInput& norm) {
  const int32_t columns = a.num_heads * a.value_dim, key_heads = a.num_heads / a.heads_per_key;
  if (const Status s = check_norm(c, operation, spec, norm.gate.rows, columns); s != Status::ok) return s;
  const BankGroups groups = {key_heads, a.num_heads, a.num_heads, a.num_heads};
  if (const Status s = open_states(c, operation, p, shape, groups, a.memory); s != Status::ok) return s;
  if (p.batch.num_sequences <= 0) return Status::ok;
  a.shared_per_block = c.device->shared_per_block;
  a.num_sequences = p.batch.num_sequences;
  a.num_single = p.batch.num_single;
  a.conv_channels = shape.conv_channels;
  a.output = static_cast<__half*>(p.output);
  a.gate_spec = spec;
  a.gate = rows_of(norm.gate);
  if (spec.gate == GateKind::none) a.gate = {};
  a.gate_weight = norm.weight;
  a.result = has_gate(spec) ? HeadResult::value_rows : HeadResult::output;
  if (const Status s = check(c, launch(c, a, p.batch), "computing heads with state"); s != Status::ok)
    return s;
  const int32_t gated = gates_singles(a) ? a.num_single : 0, rows = p.batch.num_tokens - gated;
  if (!has_gate(spec) || rows <= 0) return Status::ok;
  GatedRows rest;
  rest.spec = spec;
  rest.input = a.value.rows + static_cast<size_t>(gated) * static_cast<size_t>(a.value.stride);
  rest.input_stride = a.value.stride;
  rest.input_is_f32 = rest.gate_is_f32 = true;
  if (a.gate.rows != nullptr)
    rest.gate = a.gate.rows + static_cast<size_t>(gated) * static_cast<size_t>(a.gate.stride);
  rest.gate_stride = a.gate.stride;
  rest.weight = norm.weight;
  rest.rows = rows;
  rest.columns = columns;
  rest.output = a.output + static_cast<size_t>(gated) * static_cast<size_t>(columns);
  return check(c, launch_gated_norm(rest, c.launch()), "gating heads with state");
}

}  // namespace

Status convolve(Context* context, const ConvolveParams* params) {
  Context& c = *context;
  const ConvolveParams& p = *params;
  const int32_t taps = p.ConvolutionSpec::taps;
  if (p.channels < 1 || taps < 1 || taps > kMaxConvTaps)
    return refuse(c, "convolve",
                  std::to_string(p.channels) + " channels, " + std::to_string(taps) + " taps (at most " +
                      std::to_string(kMaxConvTaps) + ")");
  const StateShape shape = state_shape(static_cast<const ConvolutionSpec&>(p));
  StateMemory memory;
  if (const Status s = open_states(c, "convolve", p, shape, {}, memory); s != Status::ok) return s;
  if (p.batch.num_tokens <= 0) return Status::ok;
  return check(c, launch_convolve(p, memory, c.launch()), "convolving");
}

Status delta_rule(Context* context, const DeltaRuleParams* params) {
  Context& c = *context;
  const DeltaRuleParams& p = *params;
  HeadsArguments a;
  a.rule = p.decay_per_channel ? HeadRule::delta_per_channel : HeadRule::delta;
  a.solves_lines = c.device->solves_lines && solves_lines(p);
  a.solved_line_bytes = solved_line_bytes(p);
  a.num_heads = p.num_heads;
  a.heads_per_key =
      p.num_key_heads > 0 && p.num_heads % p.num_key_heads == 0 ? p.num_heads / p.num_key_heads : 0;
  a.key_dim = p.key_dim;
  a.value_dim = p.value_dim;
  a.conv_taps = p.conv_taps;
  if (const Status s = check_heads(c, "delta_rule", a); s != Status::ok) return s;
  const int32_t keys = p.num_key_heads * p.key_dim;
  a.silu = p.conv_taps > 0;
  a.normalises_keys = true;
  a.query_scale = 1.0f / std::sqrt(static_cast<float>(p.key_dim));
  a.query = rows_of(p.query, p.query_taps);
  a.key = rows_of(p.key, p.key_taps, keys);
  a.value = rows_of(p.value, p.value_taps, 2 * keys);
  a.decay = rows_of(p.decay);
  a.beta = rows_of(p.beta);
  a.rates.a_log = p.a_log;
  a.rates.bias = p.decay_bias;
  a.rates.decay_kind = p.decay_kind;
  a.rates.lower_bound = p.lower_bound;
  a.rates.beta_scale = p.beta_scale;
  return run_heads(c, "delta_rule", a, p, state_shape(static_cast<const DeltaRuleSpec&>(p)), p.norm,
                   p.norm_input);
}

Status state_space(Context* context, const StateSpaceParams* params) {
  Context& c = *context;
  const StateSpaceParams& p = *params;
  HeadsArguments a;
  a.rule = HeadRule::state_space;
  a.num_heads = p.num_heads;
  a.heads_per_key = p.num_groups > 0 && p.num_heads % p.num_groups == 0 ? p.num_heads / p.num_groups : 0;
  a.key_dim = p.state_dim;
  a.value_dim = p.head_dim;
  a.conv_taps = p.conv_taps;
  if (const Status s = check_heads(c, "state_space", a); s != Status::ok) return s;
  const int32_t keys = p.num_groups * p.state_dim, values = p.num_heads * p.head_dim;
  a.silu = true;
  a.value = rows_of(p.input, p.input_taps);
  a.key = rows_of(p.key, p.key_taps, values);
  a.query = rows_of(p.query, p.query_taps, values + keys);
  a.decay = rows_of(p.step);
  a.rates.a_log = p.a_log;
  a.rates.bias = p.step_bias;
  a.rates.skip = p.skip;
  a.rates.least_step = p.least_step;
  a.rates.most_step = p.most_step;
  return run_heads(c, "state_space", a, p, state_shape(static_cast<const StateSpaceSpec&>(p)), p.norm,
                   p.norm_input);
}

Status linear_attention(Context* context, const LinearAttentionParams* params) {
  Context& c = *context;
  const LinearAttentionParams& p = *params;
  HeadsArguments a;
  a.rule = HeadRule::linear;
  a.num_heads = p.num_heads;
  a.key_dim = a.value_dim = p.head_dim;
  if (const Status s = check_heads(c, "linear_attention", a); s != Status::ok) return s;
  a.silu = true;
  a.query = rows_of(p.query);
  a.key = rows_of(p.key);
  a.value = rows_of(p.value);
  a.rates.slopes = p.slopes;
  return run_heads(c, "linear_attention", a, p, state_shape(static_cast<const LinearAttentionSpec&>(p)),
                   p.norm, p.norm_input);
}

Status selective_scan(Context* context, const SelectiveScanParams* params) {
  Context& c = *context;
  const SelectiveScanParams& p = *params;
  if (p.channels < 1 || p.state_dim < 1 || p.state_dim > kMaxStateKey)
    return refuse(c, "selective_scan",
                  std::to_string(p.channels) + " channels, state of " + std::to_string(p.state_dim) +
                      " (at most " + std::to_string(kMaxStateKey) + ")");
  if (p.kind == ScanKind::rg_lru && p.state_dim != 1)
    return refuse(c, "selective_scan", "an RG-LRU has a state of 1, not " + std::to_string(p.state_dim));
  if (const Status s = check_norm(c, "selective_scan", p.norm, p.norm_input.gate.rows, p.channels);
      s != Status::ok)
    return s;
  const StateShape shape = state_shape(static_cast<const SelectiveScanSpec&>(p));
  StateMemory memory;
  if (const Status s = open_states(c, "selective_scan", p, shape, {}, memory); s != Status::ok) return s;
  if (p.batch.num_tokens <= 0) return Status::ok;
  if (const Status s = check(c, launch_scan(p, memory, c.launch()), "scanning"); s != Status::ok) return s;
  if (!p.norm.normalises) return Status::ok;
  GatedRows rows;
  rows.spec = p.norm;
  rows.input = p.output;
  rows.input_stride = rows.columns = p.channels;
  if (p.norm.gate != GateKind::none) rows.gate = p.norm_input.gate.rows;
  rows.gate_stride = p.norm_input.gate.stride;
  rows.gate_is_f32 = true;
  rows.weight = p.norm_input.weight;
  rows.rows = p.batch.num_tokens;
  rows.output = static_cast<__half*>(p.output);
  return check(c, launch_gated_norm(rows, c.launch()), "gating a scan");
}

Status gated_norm(Context* context, const GatedNormParams* params) {
  Context& c = *context;
  const GatedNormParams& p = *params;
  if (!has_gate(p)) return refuse(c, "gated_norm", "neither a norm nor a gate");
  if (const Status s = check_norm(c, "gated_norm", p, p.norm_input.gate.rows, p.columns); s != Status::ok)
    return s;
  if (p.rows <= 0) return Status::ok;
  GatedRows rows;
  rows.spec = p;
  rows.input = p.input.rows;
  rows.input_stride = p.input.stride;
  if (p.gate != GateKind::none) rows.gate = p.norm_input.gate.rows;
  rows.gate_stride = p.norm_input.gate.stride;
  rows.weight = p.norm_input.weight;
  rows.rows = p.rows;
  rows.columns = p.columns;
  rows.output = static_cast<__half*>(p.output);
  return check(c, launch_gated_norm(rows, c.launch()), "gating rows");
}

Status copy_state(Context* context, const CopyStateParams* params) {
  Context& c = *context;
  if (params->bytes == 0) return Status::ok;
  if (const Status s = c.device->enter(); s != Status::ok) return s;
  return check(
      c, cudaMemcpyAsync(params->target, params->source, params->bytes, cudaMemcpyDeviceToDevice, c.stream),
      "copying a state");
}

}  // namespace quire::kernels
