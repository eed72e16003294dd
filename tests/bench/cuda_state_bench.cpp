// The gated delta rule on a card, by itself: decoding as a share of the read limit, and prefill.
// Usage: cuda_state_bench PLUGIN
//
// Decoding reads the states of four layers in turn, which together are larger than any cache. A step has one
// token for each sequence, at every index of a line once, so that a sixteenth of the steps forms a new line.
// Times are of 64 launches in a row, the median of 5.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/bench/plugin.h"

namespace {

using namespace quire::kernels;
using namespace quire::bench;

constexpr int32_t kLayers = 4;
constexpr int32_t kDim = 128;
constexpr int32_t kTaps = 4;
constexpr int32_t kMostTokens = 8192;

// One layer of heads of 128 with a convolution over four tokens and a gated norm, and its states.
class Layer {
 public:
  Layer(const KernelTable& table, Device* device, int32_t key_heads, int32_t heads, bool by_channel,
        int32_t num_sequences, int32_t num_tokens)
      : table_(table), device_(device), num_sequences_(num_sequences) {
    DeltaRuleParams& p = params_;
    p.num_heads = heads;
    p.num_key_heads = key_heads;
    p.key_dim = p.value_dim = kDim;
    p.conv_taps = kTaps;
    p.decay_per_channel = by_channel;
    p.norm = {GateKind::silu, true, false, true, kDim, 1e-6f};
    const int32_t keys = key_heads * kDim, values = heads * kDim, decays = by_channel ? values : heads;
    const int32_t columns = 2 * keys + 2 * values + decays + heads;
    float* const rows = numbers(size_t(num_tokens) * size_t(columns));
    p.query = {rows, columns};
    p.key = {rows + keys, columns};
    p.value = {rows + 2 * keys, columns};
    p.norm_input.gate = {rows + 2 * keys + values, columns};
    p.decay = {rows + 2 * keys + 2 * values, columns};
    p.beta = {rows + 2 * keys + 2 * values + decays, columns};
    float* const taps = numbers(size_t(kTaps) * size_t(2 * keys + values));
    p.query_taps = {taps, 2 * keys + values, nullptr};
    p.key_taps = {taps + keys, 2 * keys + values, nullptr};
    p.value_taps = {taps + 2 * keys, 2 * keys + values, nullptr};
    p.a_log = numbers(size_t(heads));
    p.decay_bias = numbers(size_t(decays));
    p.norm_input.weight = numbers(size_t(kDim));
    p.rows_are_f32 = true;
    p.output = take(size_t(num_tokens) * size_t(values) * 2);
    const DeltaRuleSpec& spec = p;
    p.store.slot_stride = state_bytes(state_shape(spec));
    for (void*& store : stores_) {
      store = take(p.store.slot_stride * size_t(num_sequences));
      check(table.fill(device, store, 0, p.store.slot_stride * size_t(num_sequences)), "filling states");
    }
  }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  ~Layer() {
    for (void* memory : memory_) table_.release(device_, memory);
  }

  // Binds a batch of `count` tokens of each sequence, at this position.
  void bind(Context* context, int32_t position, int32_t count) {
    std::vector<int32_t> positions, sequences, starts{0}, lengths, slots, banks, tokens;
    for (int32_t s = 0; s < num_sequences_; ++s) {
      for (int32_t i = 0; i < count; ++i) {
        positions.push_back(position + i);
        sequences.push_back(s);
        tokens.push_back(0);
      }
      starts.push_back(int32_t(positions.size()));
      lengths.push_back(position + count);
      slots.push_back(s);
      banks.push_back(position > 0 && position % kStateLine == 0 ? kFromLineBefore : 0);
    }
    BatchView host;
    host.num_tokens = int32_t(positions.size());
    host.num_sequences = num_sequences_;
    host.max_query_tokens = count;
    host.max_kv_tokens = position + count;
    host.token_ids = tokens.data();
    host.positions = positions.data();
    host.sequence_of_token = sequences.data();
    host.sequence_starts = starts.data();
    host.kv_lengths = lengths.data();
    host.read_slots = host.write_slots = slots.data();
    host.state_banks = banks.data();
    check(table_.bind_batch(context, &host, &params_.batch), "binding a batch");
  }

  // Returns the time of one call, of 64 in a row.
  double time_of_call(Context* context) {
    constexpr int32_t kCalls = 64;
    std::vector<double> times;
    for (int32_t round = 0; round < 6; ++round) {
      check(table_.synchronize(context), "waiting");
      const double start = seconds();
      for (int32_t i = 0; i < kCalls; ++i) {
        params_.store.memory = stores_[i % kLayers];
        check(table_.delta_rule(context, &params_), "the delta rule");
      }
      check(table_.synchronize(context), "waiting");
      if (round > 0) times.push_back((seconds() - start) / kCalls);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
  const DeltaRuleParams& params() const { return params_; }

 private:
  void* take(size_t bytes) {
    void* memory = nullptr;
    check(table_.allocate(device_, bytes, &memory), "allocating");
    memory_.push_back(memory);
    return memory;
  }
  float* numbers(size_t count) {
    std::vector<float> values(count);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (float& v : values) v = uniform(random_);
    void* const memory = take(count * sizeof(float));
    check(table_.upload(device_, memory, values.data(), count * sizeof(float)), "uploading");
    return static_cast<float*>(memory);
  }

  const KernelTable& table_;
  Device* device_;
  int32_t num_sequences_;
  std::mt19937 random_{3};
  std::vector<void*> memory_;
  void* stores_[kLayers] = {};
  DeltaRuleParams params_;
};

void bench_decode(const KernelTable& table, Device* device, Context* context, int32_t num_sequences,
                  bool by_channel, double bandwidth) {
  Layer layer(table, device, by_channel ? 32 : 16, 32, by_channel, num_sequences, num_sequences);
  double time = 0.0;
  for (int32_t index = 0; index < kStateLine; ++index) {
    layer.bind(context, 2 * kStateLine + index, 1);
    time += layer.time_of_call(context) / kStateLine;
  }
  const double state = double(num_sequences) * 32 * kDim * kDim * 4;
  // On average 7.5 rows of a key, an update and a decay; the state is written once in 16 tokens.
  const double rows = double(num_sequences) * 32 * 7.5 * (by_channel ? 3 : 2) * kDim * 4;
  std::printf(
      "%s decode, 32 heads, %3d sequences: %7.1f us, state alone %.1f %% of the read limit, all bytes %.1f "
      "%%\n",
      by_channel ? "kda" : "gdn", num_sequences, time * 1e6, 100.0 * state / time / bandwidth,
      100.0 * (state * (1.0 + 1.0 / kStateLine) + rows) / time / bandwidth);
}

void bench_prefill(const KernelTable& table, Device* device, Context* context, int32_t num_sequences,
                   int32_t num_tokens, bool by_channel) {
  Layer layer(table, device, by_channel ? 48 : 16, 48, by_channel, num_sequences, num_sequences * num_tokens);
  layer.bind(context, 0, num_tokens);
  std::printf("%s prefill, 48 heads, %2d x %4d tokens: %8.1f us\n", by_channel ? "kda" : "gdn", num_sequences,
              num_tokens, layer.time_of_call(context) * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) stop("usage: cuda_state_bench PLUGIN");
  const Backend& backend = open_plugin(argv[1]);
  Device* device = nullptr;
  check(backend.open_device(0, nullptr, &device), "opening the device");
  const KernelTable& table = *backend.table(device);
  double bandwidth = 0.0;
  check(table.measure_read_rate(device, uint64_t{4} << 30, &bandwidth), "measuring the read rate");
  std::printf("read limit %.3f TB/s\n", bandwidth / 1e12);
  ContextLimits limits;
  limits.max_tokens = kMostTokens;
  limits.max_sequences = 512;
  limits.max_logit_rows = 1;
  limits.max_pages_per_sequence = 1;
  limits.max_columns = 1024;
  limits.vocab_size = 1024;
  limits.num_heads = 1;
  limits.head_dim = 64;
  DeltaRuleSpec largest;
  largest.num_heads = largest.num_key_heads = 48;
  largest.key_dim = kDim;
  largest.decay_per_channel = true;
  limits.state_line_bytes = solved_line_bytes(largest);
  Context* context = nullptr;
  check(table.create_context(device, &limits, &context), "making a context");
  for (const int32_t sequences : {1, 16, 64, 256})
    bench_decode(table, device, context, sequences, false, bandwidth);
  bench_decode(table, device, context, 64, true, bandwidth);
  for (const int32_t tokens : {2048, 8192}) bench_prefill(table, device, context, 1, tokens, false);
  bench_prefill(table, device, context, 16, 512, false);
  bench_prefill(table, device, context, 1, 2048, true);
  table.release_context(context);
  backend.close_device(device);
  return 0;
}
