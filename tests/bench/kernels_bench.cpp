// Products and attention of the CPU backend compared with the peak rates of the machine.
//
// Counters: bytes and operations per second of the fastest call, and their ratio to the read bandwidth for
// the same amount of memory, and to the peak rate of 16-bit products, measured in the same run. Weights
// rotate through copies that together are as large as their model. QUIRE_BENCH_THREADS sets the number of
// threads; QUIRE_CPU_ISA the instruction set.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/device.h"
#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

void require(Status status, const char* what) {
  if (status == Status::ok) return;
  std::fprintf(stderr, "%s failed\n", what);
  std::exit(1);
}

// One device and one context for all benchmarks.
struct Bench {
  Device* device = nullptr;
  const KernelTable* table = nullptr;
  Context* context = nullptr;
  double op_rate = 0.0;

  Bench() {
    DeviceOptions options;
    if (const char* threads = std::getenv("QUIRE_BENCH_THREADS")) options.num_threads = std::atoi(threads);
    const Status opened = cpu_backend().open_device(0, &options, &device);
    require(opened, opened.words);
    table = cpu_backend().table(device);
    ContextLimits sizes;
    sizes.max_tokens = 512;
    sizes.max_sequences = 64;
    sizes.max_logit_rows = 512;
    sizes.max_pages_per_sequence = 64;
    sizes.max_columns = 16384;
    sizes.head_dim = 128;
    require(table->create_context(device, &sizes, &context), "create_context");
    require(table->measure_op_rate(device, &op_rate), "measure_op_rate");
    DeviceInfo info;
    require(cpu_backend().device_info(device, &info), "device_info");
    std::fprintf(stderr, "%s, %d threads: read %.1f GB/s from memory, %.0f Gop/s of 16-bit products\n",
                 info.name, info.num_units, read_rate(UINT64_MAX) * 1e-9, op_rate * 1e-9);
  }
  double read_rate(uint64_t working_set) {
    double& rate = read_rates_[working_set];
    if (rate == 0.0) require(table->measure_read_rate(device, working_set, &rate), "measure_read_rate");
    return rate;
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    table->release_context(context);
    cpu_backend().close_device(device);
  }

 private:
  std::map<uint64_t, double> read_rates_;
};

Bench& bench() {
  static Bench instance;
  return instance;
}

uint32_t next_random(uint64_t& state) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return static_cast<uint32_t>(state >> 32);
}

enum class Kind { bits4, mixed, gptq, fp8, f16, blocks };

struct Shape {
  Kind kind;
  int32_t num_in;
  int32_t num_out;
  uint64_t model_bytes;
  BlockType block_type = BlockType::none;
};

// Source of random words, which are valid codes of any width. Groups of 128 rows.
struct Source {
  std::vector<uint32_t> words, scales;
  std::vector<uint16_t> scale_max, half;
  std::vector<uint8_t> codes;
  std::vector<float> code_scales;
  std::vector<Exl2Group> groups;
  WeightSource source;

  explicit Source(const Shape& shape) {
    const auto [kind, num_in, num_out, model_bytes, block_type] = shape;
    source.num_in = num_in;
    source.num_out = num_out;
    source.padded_out = (num_out + 31) / 32 * 32;
    uint64_t state = 1;
    if (kind == Kind::f16) {
      half.resize(static_cast<size_t>(num_in) * static_cast<size_t>(num_out));
      for (uint16_t& h : half) h = static_cast<uint16_t>(0x2000 | (next_random(state) & 0x83ff));
      source.dense = {DType::f16, half.data()};
      return;
    }
    if (kind == Kind::fp8) {
      fill_fp8(state);
      return;
    }
    const auto columns = static_cast<size_t>(source.padded_out);
    if (kind == Kind::blocks) {
      codes.resize(block_row_bytes(block_type, num_in) * columns);
      // Every f16 that such bytes make is finite.
      for (uint8_t& code : codes) code = static_cast<uint8_t>(next_random(state) & 0x3b);
      source.format = WeightFormat::blocks;
      source.blocks = {block_type, codes.data()};
      return;
    }
    if (kind == Kind::gptq) {
      fill_gptq(columns, state);
      return;
    }
    source.format = WeightFormat::exl2;
    int32_t packed = 0;
    for (int32_t row = 0; row < num_in; row += 128) {
      const int32_t bits = kind == Kind::bits4    ? 4
                           : row < num_in / 8     ? 6
                           : row < num_in / 4     ? 5
                           : row < num_in * 3 / 4 ? 4
                                                  : 3;
      groups.push_back({bits, row, std::min(128, num_in - row), packed});
      packed += groups.back().num_rows * bits / 32;
    }
    words.resize(static_cast<size_t>(packed) * columns);
    scales.resize(groups.size() * columns / 8);
    scale_max.assign(groups.size(), float_to_half(0.01f));
    for (uint32_t& word : words) word = next_random(state);
    for (uint32_t& word : scales) word = next_random(state);
    source.exl2 = {
        words.data(), scales.data(), scale_max.data(), groups.data(), static_cast<int32_t>(groups.size()),
        packed};
  }

 private:
  // Fills scales of blocks of 128 by 128.
  void fill_fp8(uint64_t& state) {
    codes.resize(static_cast<size_t>(source.num_in) * static_cast<size_t>(source.num_out));
    for (uint8_t& code : codes) code = static_cast<uint8_t>(next_random(state) & 0xbf);
    const auto blocks = [](int32_t size) { return static_cast<size_t>((size + 127) / 128); };
    code_scales.assign(blocks(source.num_in) * blocks(source.num_out), 0.01f);
    source.dense = {DType::f8_e4m3, codes.data(), code_scales.data(), std::min(128, source.num_out),
                    std::min(128, source.num_in)};
  }

  void fill_gptq(size_t columns, uint64_t& state) {
    const auto rows = static_cast<size_t>(source.num_in);
    const size_t num_groups = (rows + 127) / 128;
    source.format = WeightFormat::coded;
    words.resize(rows / 8 * columns);
    scales.resize(num_groups * columns / 8);  // the zeros
    half.assign(num_groups * columns, float_to_half(0.01f));
    for (uint32_t& word : words) word = next_random(state);
    for (uint32_t& word : scales) word = next_random(state) & 0x77777777;
    for (size_t row = 0; row < rows; ++row) group_of_row.push_back(static_cast<int32_t>(row / 128));
    source.coded.codes = words.data();
    source.coded.row_words = static_cast<int64_t>(columns);
    source.coded.column_words = 1;
    source.coded.zeros = scales.data();
    source.coded.zero_group_words = static_cast<int64_t>(columns / 8);
    source.coded.zero_column_words = 1;
    source.coded.zero_offset = 1;
    source.coded.scales = half.data();
    source.coded.group_of_row = group_of_row.data();
    source.coded.num_groups = static_cast<int32_t>(num_groups);
  }

  std::vector<int32_t> group_of_row;
};

// Copies of a matrix that together take as much memory as its model, so that they are in the same cache or
// memory as the model's weights.
class Matrices {
 public:
  Matrices(const Shape& shape) {
    const Source source(shape);
    do {
      Weight* weight = nullptr;
      require(kernels::prepare_weight(*bench().table, bench().device, &source.source, 1, &weight),
              "prepare_weights");
      weights_.push_back(weight);
      bytes_ = bench().table->weight_bytes(weight);
    } while (bytes_ * weights_.size() < shape.model_bytes && weights_.size() < 64);
  }
  Matrices(const Matrices&) = delete;
  Matrices& operator=(const Matrices&) = delete;
  ~Matrices() {
    for (Weight* weight : weights_) bench().table->release_weight(bench().device, weight);
  }
  const Weight* next() { return weights_[next_++ % weights_.size()]; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::vector<Weight*> weights_;
  uint64_t bytes_ = 0;
  size_t next_ = 0;
};

// Returns the seconds of the fastest call, from which rates are computed, because others use the machine too.
template <typename Call>
double best_seconds(benchmark::State& state, const Call& call) {
  double best = 1e9;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    call();
    benchmark::ClobberMemory();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::min(best, seconds.count());
  }
  return best;
}

// `working_set` is the number of bytes read between two uses of the same data.
void report(benchmark::State& state, double seconds, double bytes, double ops, uint64_t working_set) {
  using benchmark::Counter;
  state.counters["best_us"] = seconds * 1e6;
  state.counters["byte/s"] = Counter(bytes / seconds, Counter::kDefaults, Counter::kIs1000);
  state.counters["op/s"] = Counter(ops / seconds, Counter::kDefaults, Counter::kIs1000);
  state.counters["of_read"] = bytes / seconds / bench().read_rate(working_set);
  state.counters["of_peak"] = ops / seconds / bench().op_rate;
}

void linear(benchmark::State& state, const Shape& shape) {
  const auto [kind, num_in, num_out, model_bytes, block_type] = shape;
  Matrices matrices(shape);
  const auto rows = static_cast<int32_t>(state.range(0));
  std::vector<float> input(static_cast<size_t>(rows) * static_cast<size_t>(num_in));
  uint64_t random = 7;
  for (float& x : input) x = static_cast<float>(static_cast<int32_t>(next_random(random))) * 0x1p-31f;
  std::vector<float> output(static_cast<size_t>(rows) * static_cast<size_t>(num_out));
  LinearParams params;
  params.input = input.data();
  params.rows = rows;
  params.output = output.data();
  const double seconds = best_seconds(state, [&] {
    params.weight = matrices.next();
    require(bench().table->linear(bench().context, &params), "linear");
  });
  report(state, seconds, static_cast<double>(matrices.bytes()), 2.0 * rows * num_in * num_out, model_bytes);
}

// Measures one layer of `sequences` sequences with `context` tokens each and `queries` new ones; 32 heads of
// 64, 8 KV heads.
void attention(benchmark::State& state, KvFormat format) {
  const auto sequences = static_cast<int32_t>(state.range(0));
  const auto queries = static_cast<int32_t>(state.range(1));
  const auto tokens = static_cast<int32_t>(state.range(2));
  KvShape shape;
  shape.key_format = shape.value_format = format;
  const int32_t pages = (tokens + shape.page_tokens - 1) / shape.page_tokens;
  shape.num_pages = sequences * pages;
  shape.num_kv_heads = 8;
  shape.head_dim = 64;
  std::vector<uint8_t> keys(kv_data_bytes(shape, format), 0x31);
  std::vector<uint8_t> values(keys.size(), 0x31);
  std::vector<uint16_t> scales(kv_scale_bytes(shape, format) / 2, float_to_half(0.01f));
  std::vector<int32_t> positions, sequence_of, starts = {0}, lengths, table;
  for (int32_t s = 0; s < sequences; ++s) {
    for (int32_t i = tokens - queries; i < tokens; ++i) {
      positions.push_back(i);
      sequence_of.push_back(s);
    }
    starts.push_back(static_cast<int32_t>(positions.size()));
    lengths.push_back(tokens);
    for (int32_t p = 0; p < pages; ++p) table.push_back(s * pages + p);
  }
  const size_t rows = positions.size();
  std::vector<float> qkv(rows * 48 * 64, 0.1f);
  std::vector<float> output(rows * 32 * 64);
  AttentionParams params;
  params.heads = {32, 8, 64};
  params.qkv = qkv.data();
  params.scale = 0.125f;
  params.kv_shape = shape;
  params.kv = {keys.data(), values.data(), scales.empty() ? nullptr : scales.data(),
               scales.empty() ? nullptr : scales.data()};
  params.output = output.data();
  params.batch.num_tokens = static_cast<int32_t>(rows);
  params.batch.num_sequences = sequences;
  params.batch.max_query_tokens = queries;
  params.batch.max_kv_tokens = tokens;
  params.batch.page_table_stride = pages;
  params.batch.positions = positions.data();
  params.batch.sequence_of_token = sequence_of.data();
  params.batch.sequence_starts = starts.data();
  params.batch.kv_lengths = lengths.data();
  params.batch.page_table = table.data();
  const double seconds =
      best_seconds(state, [&] { require(bench().table->attention(bench().context, &params), "attention"); });
  const double pairs = static_cast<double>(sequences) * queries * (tokens - 0.5 * (queries - 1));
  const double bytes = static_cast<double>(2 * keys.size() + 2 * 2 * scales.size());
  report(state, seconds, bytes, 4.0 * pairs * 32 * 64, static_cast<uint64_t>(bytes));
}

// Measures the cost of distributing an operation with almost no work: with workers that poll, and with
// workers that sleep.
void hand_out(benchmark::State& state, bool asleep) {
  ThreadPool& pool = bench().device->pool;
  std::atomic<int64_t> sink{0};
  for (auto _ : state) {
    if (asleep) {
      state.PauseTiming();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      state.ResumeTiming();
    }
    pool.share(2 * pool.num_threads(), 1,
               [&](int32_t, int64_t first, int64_t) { sink.store(first, std::memory_order_relaxed); });
  }
}

void add(const std::string& name, const Shape& shape) {
  benchmark::RegisterBenchmark(("linear/" + name).c_str(),
                               [=](benchmark::State& state) { linear(state, shape); })
      ->ArgName("rows")
      ->Arg(1)
      ->Arg(4)
      ->Arg(8)
      ->Arg(16)
      ->Arg(64)
      ->Arg(512)
      ->UseRealTime();
}

void add_attention(const std::string& name, KvFormat format) {
  benchmark::RegisterBenchmark(("attention/" + name).c_str(),
                               [=](benchmark::State& state) { attention(state, format); })
      ->ArgNames({"sequences", "queries", "context"})
      ->Args({1, 1, 512})
      ->Args({1, 1, 8192})
      ->Args({16, 1, 2048})
      ->Args({1, 512, 512})
      ->UseRealTime();
}

}  // namespace
}  // namespace quire::kernels

int main(int argc, char** argv) {
  using quire::kernels::Kind;
  using quire::kernels::KvFormat;
  // Llama 3.2 1B and the 15M story model; the mixed widths average 4.1 bits per weight.
  constexpr uint64_t k1B = uint64_t{192} << 20;  // of 665 MiB; neither fits in caches
  constexpr uint64_t k15M = uint64_t{8} << 20;
  quire::kernels::add("1b_gate_up_4bit", {Kind::bits4, 2048, 16384, k1B});
  quire::kernels::add("1b_gate_up_mixed", {Kind::mixed, 2048, 16384, k1B});
  quire::kernels::add("1b_gate_up_gptq", {Kind::gptq, 2048, 16384, k1B});
  quire::kernels::add("1b_gate_up_fp8", {Kind::fp8, 2048, 16384, k1B});
  quire::kernels::add("1b_gate_up_f16", {Kind::f16, 2048, 16384, k1B});
  quire::kernels::add("1b_down_4bit", {Kind::bits4, 8192, 2048, k1B});
  quire::kernels::add("1b_qkv_4bit", {Kind::bits4, 2048, 3072, k1B});
  quire::kernels::add("15m_gate_up_4bit", {Kind::bits4, 384, 2048, k15M});
  quire::kernels::add("15m_gate_up_mixed", {Kind::mixed, 384, 2048, k15M});
  quire::kernels::add("15m_gate_up_gptq", {Kind::gptq, 384, 2048, k15M});
  quire::kernels::add("15m_gate_up_fp8", {Kind::fp8, 384, 2048, k15M});
  quire::kernels::add("15m_gate_up_f16", {Kind::f16, 384, 2048, k15M});
  using quire::kernels::BlockType;
  for (const BlockType type :
       {BlockType::q4_0, BlockType::q8_0, BlockType::q2_k, BlockType::q3_k, BlockType::q4_k, BlockType::q5_k,
        BlockType::q6_k, BlockType::iq4_xs, BlockType::mxfp4}) {
    const std::string name = quire::kernels::block_shape(type).name;
    quire::kernels::add("1b_gate_up_" + name, {Kind::blocks, 2048, 16384, k1B, type});
  }
  benchmark::RegisterBenchmark("pool/awake", quire::kernels::hand_out, false)->UseRealTime();
  benchmark::RegisterBenchmark("pool/asleep", quire::kernels::hand_out, true)->UseRealTime()->Iterations(500);
  quire::kernels::add_attention("f16", KvFormat::f16);
  quire::kernels::add_attention("q8", KvFormat::q8);
  quire::kernels::add_attention("q4", KvFormat::q4);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
