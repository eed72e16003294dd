// Operations on recurrent states that have no heads: convolutions, selective scans, gated norms, and the
// copy of a bank to another slot.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/pointwise/row_sum.cuh"
#include "kernels/cuda/state/gate.cuh"
#include "kernels/cuda/state/state_lane.cuh"

namespace quire::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kScanThreads = 64;

unsigned blocks_of(int count, int size) {
  return static_cast<unsigned>((count + size - 1) / size);
}

// Convolution of rows that are only read: one thread for each row and channel. A channel's earlier inputs
// come from the rows or from the bank; both are as they were before the step.
struct ConvolveArguments {
  ConvolutionSpec spec;
  StateMemory memory;
  const int32_t* sequence_of_row = nullptr;
  FloatRows input;
  FloatRows before;
  FloatRows after;
  __half* output = nullptr;
};

__device__ __forceinline__ float input_of(const ConvolveArguments& a, const StateLane& lane, int channel,
                                          int position) {
  if (position < lane.position)
    return earlier_input(a.memory, lane, a.spec.taps, a.spec.channels, channel, position);
  const size_t row = lane.first_row + position - lane.position;
  const float x = a.input.rows[row * a.input.stride + channel];
  return a.before.rows == nullptr ? x : __fmul_rn(x, a.before.rows[row * a.before.stride + channel]);
}

__global__ void __launch_bounds__(kThreads) convolve_kernel(const __grid_constant__ ConvolveArguments a) {
  release_successor();
  wait_for_predecessor();
  const int row = blockIdx.x, channel = blockIdx.y * kThreads + threadIdx.x, taps = a.spec.taps;
  if (channel >= a.spec.channels) return;
  const StateLane lane = open_lane(a.memory, a.sequence_of_row[row]);
  const int position = lane.position + row - lane.first_row;
  const int line = line_of(position), index = position % kStateLine;
  const bool keeps = keeps_line(lane, line);
  uint8_t* const bank = bank_of_line(lane, line);
  const ChannelTaps& weights = a.input.taps;
  const bool enters = keeps && index == 0 && (row > lane.first_row || lane.forms);
  float y = 0.0f;
  for (int j = 0; j < taps; ++j) {
    const float x = input_of(a, lane, channel, position - taps + 1 + j);
    y = __fmaf_rn(weights.weight[static_cast<size_t>(j) * weights.stride + channel], x, y);
    if (enters || (keeps && j == taps - 1))
      *kept_input(a.memory, bank, taps, a.spec.channels, channel, index - taps + 1 + j) = x;
  }
  if (weights.bias != nullptr) y = __fadd_rn(y, weights.bias[channel]);
  if (a.spec.silu) y = silu_of(y);
  if (a.after.rows != nullptr)
    y = __fmul_rn(y, a.after.rows[static_cast<size_t>(row) * a.after.stride + channel]);
  a.output[static_cast<size_t>(row) * a.spec.channels + channel] = __float2half_rn(y);
}

// Selective scan (Mamba-1, RG-LRU): one thread for each channel repeats the rows that the bank holds, then
// goes on token by token. The state is in registers if it has at most kStates elements. It lies in a bank as
// [state_dim, channels], and rows as [kStateLine, channels].
struct ScanArguments {
  ScanKind kind = ScanKind::softplus;
  int channels = 0;
  int state_dim = 0;
  StateMemory memory;
  FloatRows input;
  FloatRows step;
  FloatRows key;
  FloatRows query;
  FloatRows input_gate;
  const float* input_bias = nullptr;
  const float* a_log = nullptr;
  const float* bias = nullptr;
  const float* skip = nullptr;
  FloatRows gate;
  GateKind gate_kind = GateKind::none;
  __half* output = nullptr;
};

template <int kStates>
struct ScanState {
  float elements[kStates];
  float rates[kStates];  // exp(a_log)
};

template <int kStates>
__device__ __forceinline__ void advance(ScanState<kStates>& state, int count, float step, float update,
                                        const float* key) {
#pragma unroll
  for (int n = 0; n < kStates; ++n) {
    if (n >= count) break;
    const float decay = expf(-__fmul_rn(step, state.rates[n]));
    state.elements[n] = __fmaf_rn(update, key[n], __fmul_rn(decay, state.elements[n]));
  }
}

// Step and update of a token.
struct ScanInput {
  float step;
  float update;
};

// `rate` is that of the first state, which an RG-LRU needs.
__device__ __forceinline__ ScanInput scan_input(const ScanArguments& a, size_t row, int channel, int position,
                                                float x, float bias, float rate) {
  const float dt = __fadd_rn(a.step.rows[row * a.step.stride + channel], bias);
  if (a.kind == ScanKind::softplus) {
    const float step = softplus_of(dt);
    return {step, __fmul_rn(step, x)};
  }
  const float step = sigmoid_of(dt);
  const float gate = a.input_gate.rows[row * a.input_gate.stride + channel];
  const float bias_of_gate = a.input_bias != nullptr ? a.input_bias[channel] : 0.0f;
  const float gated = __fmul_rn(x, sigmoid_of(__fadd_rn(gate, bias_of_gate)));
  if (position == 0) return {step, gated};
  const float rest = __fsub_rn(1.0f, expf(__fmul_rn(-2.0f, __fmul_rn(step, rate))));
  return {step, __fmul_rn(gated, sqrtf(rest))};
}

template <int kStates>
__global__ void __launch_bounds__(kScanThreads) scan_kernel(const __grid_constant__ ScanArguments a) {
  release_successor();
  wait_for_predecessor();
  const int channel = blockIdx.x * kScanThreads + threadIdx.x;
  const StateLane lane = open_lane(a.memory, blockIdx.y);
  if (channel >= a.channels || lane.num_rows == 0) return;
  const StateLayout& layout = a.memory.layout;
  const size_t stride = padded_to_16(a.channels);
  const int states = a.state_dim, line = source_line(lane);
  const bool keeps_keys = channel == 0, is_lru = a.kind == ScanKind::rg_lru;
  const float one = 1.0f;
  ScanState<kStates> state;
#pragma unroll
  for (int n = 0; n < kStates; ++n) {
    if (n >= states) break;
    state.rates[n] = expf(a.a_log[static_cast<size_t>(n) * a.channels + channel]);
    state.elements[n] = line > 0 ? floats_at(lane.source, layout.state)[n * stride + channel] : 0.0f;
  }
  for (int index = 0; index < lane.position - line * kStateLine; ++index) {
    const float step = floats_at(lane.source, layout.decays)[index * stride + channel];
    const float update = floats_at(lane.source, layout.updates)[index * stride + channel];
    advance(state, states, step, update, floats_at(lane.source, layout.keys) + index * states);
  }
  const float bias = a.bias != nullptr ? a.bias[channel] : 0.0f;
  const float skip = a.skip != nullptr ? a.skip[channel] : 0.0f;
  for (int i = 0; i < lane.num_rows; ++i) {
    const size_t row = lane.first_row + i;
    const int position = lane.position + i, own_line = line_of(position), index = position % kStateLine;
    uint8_t* const bank = bank_of_line(lane, own_line);
    const bool keeps = keeps_line(lane, own_line);
    const float x = a.input.rows[row * a.input.stride + channel];
    const auto [step, update] = scan_input(a, row, channel, position, x, bias, state.rates[0]);
    const float* const key = is_lru ? &one : a.key.rows + row * a.key.stride;
    const float* const query = is_lru ? &one : a.query.rows + row * a.query.stride;
    if (keeps) {
      if (index == 0 && own_line > 0 && (i > 0 || lane.forms)) {
#pragma unroll
        for (int n = 0; n < kStates; ++n) {
          if (n >= states) break;
          floats_at(bank, layout.state)[n * stride + channel] = state.elements[n];
        }
      }
      floats_at(bank, layout.decays)[index * stride + channel] = step;
      floats_at(bank, layout.updates)[index * stride + channel] = update;
      for (int n = 0; keeps_keys && n < states; ++n)
        floats_at(bank, layout.keys)[index * states + n] = key[n];
    }
    advance(state, states, step, update, key);
    float y = 0.0f;
#pragma unroll
    for (int n = 0; n < kStates; ++n) {
      if (n >= states) break;
      y = __fmaf_rn(state.elements[n], query[n], y);
    }
    y = gated(a.gate_kind, __fmaf_rn(skip, x, y), a.gate.rows + row * a.gate.stride, channel);
    a.output[row * a.channels + channel] = __float2half_rn(y);
  }
}

template <typename Input, typename Gate>
__global__ void __launch_bounds__(kThreads) gated_norm_kernel(const __grid_constant__ GatedRows a) {
  __shared__ float sums[kThreads / 32];
  release_successor();
  wait_for_predecessor();
  const int columns = a.spec.group_columns, groups = a.columns / columns;
  const bool by_warp = columns <= kWarpColumns;
  const int64_t unit = by_warp ? int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32 : blockIdx.x;
  if (unit >= int64_t{a.rows} * groups) return;
  const size_t row = unit / groups, column = unit % groups * columns;
  const Input* input = static_cast<const Input*>(a.input) + row * a.input_stride + column;
  const Gate* gate = static_cast<const Gate*>(a.gate);
  if (gate != nullptr) gate += row * a.gate_stride + column;
  const float* weight = a.weight;
  if (weight != nullptr && !a.spec.shared_weight) weight += column;
  __half* const output = a.output + row * a.columns + column;
  if (by_warp) return gate_group_by_warp(a.spec, input, gate, weight, output);
  gate_group(
      a.spec, input, gate, weight, threadIdx.x, kThreads, [&](float v) { return row_sum(v, sums); }, output);
}

// Copies the bank of a sequence that goes on in another slot: the state, the rows before its first token and
// the inputs before them. At line 0 there is no state, and no input before the line.
struct MoveArguments {
  StateMemory memory;
  const int32_t* read_slots = nullptr;
  StateShape shape;
  BankGroups groups;
};

__device__ __forceinline__ void copy_floats(const uint8_t* from, uint8_t* to, size_t offset, int64_t count) {
  for (int64_t i = int64_t{blockIdx.y} * kThreads + threadIdx.x; i < count;
       i += int64_t{gridDim.y} * kThreads)
    floats_at(to, offset)[i] = floats_at(from, offset)[i];
}

__device__ __forceinline__ void copy_rows(const uint8_t* from, uint8_t* to, size_t offset, int elements,
                                          int groups, int num_rows) {
  const int own = elements / groups;
  for (int g = 0; g < groups; ++g)
    copy_floats(from, to, offset + static_cast<size_t>(g) * kStateLine * own * sizeof(float),
                int64_t{num_rows} * own);
}

__global__ void __launch_bounds__(kThreads) move_kernel(const __grid_constant__ MoveArguments a) {
  release_successor();
  wait_for_predecessor();
  const int sequence = blockIdx.x, read = a.read_slots[sequence];
  const StateLane lane = open_lane(a.memory, sequence);
  if (lane.num_rows == 0 || lane.position == 0 || read == a.memory.slots[sequence]) return;
  const int64_t slots = int64_t{read} - a.memory.slots[sequence];
  const uint8_t* const from = lane.source + slots * static_cast<int64_t>(a.memory.slot_stride);
  uint8_t* const to = const_cast<uint8_t*>(lane.source);
  const StateLayout& layout = a.memory.layout;
  const int line = source_line(lane), num_rows = lane.position - line * kStateLine;
  if (line > 0) copy_floats(from, to, layout.state, a.shape.state);
  copy_rows(from, to, layout.keys, a.shape.key, a.groups.keys, num_rows);
  copy_rows(from, to, layout.updates, a.shape.update, a.groups.updates, num_rows);
  copy_rows(from, to, layout.decays, a.shape.decay, a.groups.decays, num_rows);
  copy_rows(from, to, layout.factors, a.shape.factor, a.groups.factors, num_rows);
  if (a.shape.conv_taps == 0) return;
  const int before = a.shape.conv_taps - 1, first = line > 0 ? 0 : before;
  copy_floats(from, to, layout.inputs + static_cast<size_t>(first) * a.shape.conv_channels * sizeof(float),
              int64_t{before + num_rows - first} * a.shape.conv_channels);
}

FloatRows rows_of(const StateRows& rows) {
  return {static_cast<float*>(rows.rows), rows.stride, {}};
}

}  // namespace

cudaError_t launch_convolve(const ConvolveParams& p, const StateMemory& memory, Launch l) {
  ConvolveArguments a;
  a.spec = p;
  a.memory = memory;
  a.sequence_of_row = p.batch.sequence_of_token;
  a.input = rows_of(p.input);
  a.input.taps = {p.weights.weight, p.weights.bias, p.weights.tap_stride, 0};
  a.before = rows_of(p.before);
  a.after = rows_of(p.after);
  a.output = static_cast<__half*>(p.output);
  const dim3 grid(static_cast<unsigned>(p.batch.num_tokens), blocks_of(p.channels, kThreads));
  return launch_kernel(convolve_kernel, grid, dim3(kThreads), 0, l.stream, l.dependent, a);
}

cudaError_t launch_scan(const SelectiveScanParams& p, const StateMemory& memory, Launch l) {
  ScanArguments a;
  a.kind = p.kind;
  a.channels = p.channels;
  a.state_dim = p.state_dim;
  a.memory = memory;
  a.input = rows_of(p.input);
  a.step = rows_of(p.step);
  a.key = rows_of(p.key);
  a.query = rows_of(p.query);
  a.input_gate = rows_of(p.input_gate);
  a.input_bias = p.input_bias;
  a.a_log = p.a_log;
  a.bias = p.step_bias;
  a.skip = p.skip;
  if (!p.norm.normalises) {
    a.gate = rows_of(p.norm_input.gate);
    a.gate_kind = p.norm.gate;
  }
  a.output = static_cast<__half*>(p.output);
  const dim3 grid(blocks_of(p.channels, kScanThreads), static_cast<unsigned>(p.batch.num_sequences));
  const auto kernel = p.state_dim <= 16 ? scan_kernel<16> : scan_kernel<kMaxStateKey>;
  return launch_kernel(kernel, grid, dim3(kScanThreads), 0, l.stream, l.dependent, a);
}

cudaError_t launch_gated_norm(const GatedRows& rows, Launch l) {
  const int64_t units = int64_t{rows.rows} * (rows.columns / rows.spec.group_columns);
  const int64_t of_block = rows.spec.group_columns <= kWarpColumns ? kThreads / 32 : 1;
  const auto kernel =
      rows.input_is_f32
          ? (rows.gate_is_f32 ? gated_norm_kernel<float, float> : gated_norm_kernel<float, __half>)
          : (rows.gate_is_f32 ? gated_norm_kernel<__half, float> : gated_norm_kernel<__half, __half>);
  return launch_kernel(kernel, dim3(static_cast<unsigned>((units + of_block - 1) / of_block)), dim3(kThreads),
                       0, l.stream, l.dependent, rows);
}

cudaError_t launch_move(const BatchView& batch, const StateMemory& memory, const StateShape& shape,
                        const BankGroups& groups, Launch l) {
  constexpr unsigned kBlocks = 16;  // of one sequence
  const MoveArguments a = {memory, batch.read_slots, shape, groups};
  return launch_kernel(move_kernel, dim3(static_cast<unsigned>(batch.num_sequences), kBlocks), dim3(kThreads),
                       0, l.stream, l.dependent, a);
}

cudaError_t setup_state() {
  return load_kernels(convolve_kernel, scan_kernel<16>, scan_kernel<kMaxStateKey>,
                      gated_norm_kernel<float, float>, gated_norm_kernel<float, __half>,
                      gated_norm_kernel<__half, float>, gated_norm_kernel<__half, __half>, move_kernel);
}

}  // namespace quire::kernels
