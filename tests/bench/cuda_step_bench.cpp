// Decode and prefill steps of Llama shapes with random weights, through the kernel table alone, and the
// matrix kernels one by one. Usage: cuda_step_bench PLUGIN OUT.json [8b] [1b] [70b] [70b/2] [8b/2]
// [gptq|fp8|float8|f16|TRELLIS|BLOCKS] [quick] [only=TEXT], with TRELLIS one of mul1, mcg and 3inst, and
// BLOCKS one of q4_0, q8_0, q4_k, q5_k, q6_k and iq4_xs
//
// 70b has four layers and a small vocabulary; 70b/2 and 8b/2 are matrices of one of two shards, for
// only="det linear".
//
// EXL2 weights have 3, 4 and 5 bits (20, 65 and 15 % of the rows, groups of 128), the head 6 bits; rows of
// q/k/v, o, gate/up and the head are permuted. FP8 weights have a scale for each block of 128 x 128, and an
// F16 head; float8 is the same with FP8 activations. GPTQ has groups of 128 and an F16 head. EXL3 with the
// codebook TRELLIS has 4 bits, and a head of 6. Blocks are of one type, the head too. All layers share the
// pages of one layer, which are much larger than the L2 cache for long contexts. Times are host times of
// whole steps, medians.
//
// Long file: one tool; its steps and its single kernels use the same weights.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/interface/half.h"
#include "kernels/interface/kernel_table.h"
#include "tests/bench/plugin.h"

double measure_read_bandwidth();

namespace {

using namespace quire::kernels;
using namespace quire::bench;

struct Shape {
  const char* name;
  int32_t hidden, inner, layers, heads, kv_heads, dim, vocabulary;
  int32_t shards = 1;  // each matrix has the columns of one of so many shards: for single kernels only
};
constexpr Shape kShapes[] = {{"llama-3.1-8b", 4096, 14336, 32, 32, 8, 128, 128256},
                             {"llama-3.2-1b", 2048, 8192, 16, 32, 8, 64, 128256},
                             {"llama-3.1-70b", 8192, 28672, 4, 64, 8, 128, 8192},
                             {"llama-3.1-70b in 2", 8192, 28672, 4, 64, 8, 128, 8192, 2},
                             {"llama-3.1-8b in 2", 4096, 14336, 8, 32, 8, 128, 8192, 2}};
constexpr const char* kShapeWords[] = {"8b", "1b", "70b", "70b/2", "8b/2"};

struct Results {
  std::string json;
  void add(const std::string& name, const std::string& fields) {
    json += (json.empty() ? "" : ",\n") + std::string("  {\"name\": \"") + name + "\", " + fields + "}";
  }
};

enum class Format { exl2, gptq, fp8, float8, f16, blocks, trellis };
constexpr const char* kCodebooks[] = {"3inst", "mcg", "mul1"};  // by TrellisCodebook

// Block type, the places of its f16 scales, and a scale with which weights are about 0.03.
struct BlockChoice {
  const char* word;
  BlockType type;
  int32_t places[2];
  float scale;
};
constexpr BlockChoice kBlockChoices[] = {
    {"q4_0", BlockType::q4_0, {0, -1}, 0.006f},     {"q8_0", BlockType::q8_0, {0, -1}, 0.0004f},
    {"q4_k", BlockType::q4_k, {0, 2}, 0.0001f},     {"q5_k", BlockType::q5_k, {0, 2}, 0.00005f},
    {"q6_k", BlockType::q6_k, {208, -1}, 0.00003f}, {"iq4_xs", BlockType::iq4_xs, {0, -1}, 0.00003f}};

// Random words for any matrix of the model, made once. For formats other than EXL2 they are moderate numbers
// both as F16 and as E4M3.
using RawWords = std::vector<uint32_t>;
RawWords raw_words(Format format, const BlockChoice& blocks) {
  const bool is_narrow = format == Format::exl2 || format == Format::trellis;
  const bool any = is_narrow || format == Format::blocks;
  RawWords words(size_t{is_narrow ? 110U : 252U} << 20);
  std::mt19937_64 random(7);
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    const uint64_t v = any ? random() : (random() & 0x8fbf8fbf8fbf8fbf) | 0x2000200020002000;
    std::memcpy(&words[i], &v, 8);
  }
  if (format == Format::blocks) {
    const auto bytes = static_cast<size_t>(block_shape(blocks.type).bytes);
    const uint16_t scale = float_to_half(blocks.scale);
    for (size_t at = 0; at + bytes <= words.size() * sizeof(words[0]); at += bytes)
      for (const int32_t place : blocks.places)
        if (place >= 0)
          std::memcpy(reinterpret_cast<uint8_t*>(words.data()) + at + static_cast<size_t>(place), &scale, 2);
  }
  return words;
}

class Model {
 public:
  Model(const KernelTable& table, Device* device, const Shape& shape, Format format, BlockType type,
        TrellisCodebook codebook, const RawWords& raw)
      : table_(table),
        device_(device),
        shape_(shape),
        format_(format),
        type_(type),
        codebook_(codebook),
        raw_(raw) {
    std::mt19937 random(11);
    const auto order = [&](int32_t n) {
      std::vector<int32_t> o(static_cast<size_t>(n));
      std::iota(o.begin(), o.end(), 0);
      std::shuffle(o.begin(), o.end(), random);
      return o;
    };
    hidden_order_ = order(shape.hidden);
    attention_order_ = order(shape.heads * shape.dim);
    inner_order_ = order(shape.inner / shape.shards);
    for (size_t k = 0; k < group_of_row_.size(); ++k) group_of_row_[k] = static_cast<int32_t>(k / 128);
    const double start = seconds();
    const int32_t kv = shape.kv_heads * shape.dim / shape.shards;
    const int32_t query = shape.heads * shape.dim / shape.shards, hidden = shape.hidden / shape.shards;
    const int32_t inner = shape.inner / shape.shards;
    for (int32_t l = 0; l < shape.layers; ++l) {
      qkv.push_back(matrix({{shape.hidden, query}, {shape.hidden, kv}, {shape.hidden, kv}}, &hidden_order_,
                           nullptr, 4));
      output.push_back(matrix({{shape.heads * shape.dim, hidden}}, &attention_order_, nullptr, 4));
      gate_up.push_back(
          matrix({{shape.hidden, inner}, {shape.hidden, inner}}, &hidden_order_, &inner_order_, 4));
      down.push_back(matrix({{shape.inner, hidden}}, nullptr, nullptr, 4));
    }
    head = matrix({{shape.hidden, shape.vocabulary}}, &hidden_order_, nullptr, 6);
    load_seconds = seconds() - start;
    for (const auto* list : {&qkv, &output, &gate_up, &down})
      for (const Weight* w : *list) weight_bytes += table.weight_bytes(w);
    weight_bytes += table.weight_bytes(head);
    std::vector<uint16_t> rows(static_cast<size_t>(shape.vocabulary) * static_cast<size_t>(shape.hidden));
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = static_cast<uint16_t>(0x2000U + (i * 2654435761U >> 20 & 0x8fffU));
    const TableSource stored = {DType::f16, shape.vocabulary, shape.hidden, rows.data(), nullptr};
    check(table.prepare_table(device, &stored, &embedding), "embedding");
    std::vector<float> ones(static_cast<size_t>(shape.hidden), 1.0f);
    norm = static_cast<const float*>(upload(ones.data(), ones.size() * 4));
    std::vector<float> frequencies;
    for (int32_t i = 0; i < shape.dim / 2; ++i)
      frequencies.push_back(
          std::pow(500000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(shape.dim)));
    inv_freq = static_cast<const float*>(upload(frequencies.data(), frequencies.size() * 4));
  }
  ~Model() {
    for (auto* list : {&qkv, &output, &gate_up, &down})
      for (Weight* w : *list) table_.release_weight(device_, w);
    table_.release_weight(device_, head);
    table_.release_weight(device_, embedding);
    for (void* m : memory_) table_.release(device_, m);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  static void check(const Status& status, const char* what) {
    if (status != Status::ok) stop(std::string(what) + ": " + status.words);
  }
  const Shape& shape() const { return shape_; }

  std::vector<Weight*> qkv, output, gate_up, down;
  Weight *head = nullptr, *embedding = nullptr;
  const float* norm = nullptr;
  const float* inv_freq = nullptr;
  uint64_t weight_bytes = 0, stored_bytes = 0;
  double load_seconds = 0.0;

 private:
  const void* upload(const void* host, size_t bytes) {
    void* memory = nullptr;
    check(table_.allocate(device_, bytes, &memory), "memory");
    check(table_.upload(device_, memory, host, bytes), "upload");
    memory_.push_back(memory);
    return memory;
  }
  Weight* matrix(const std::vector<std::pair<int32_t, int32_t>>& parts, const std::vector<int32_t>* rows,
                 const std::vector<int32_t>* columns, int32_t bits) {
    std::vector<std::vector<Exl2Group>> groups(parts.size());
    std::vector<WeightSource> sources;
    for (size_t p = 0; p < parts.size(); ++p) {
      const auto [in, out] = parts[p];
      if (format_ == Format::trellis) {
        sources.push_back(trellis(in, out, bits));
        continue;
      }
      if (format_ == Format::blocks) {
        sources.push_back(blocks(in, out, columns));
        continue;
      }
      if (format_ != Format::exl2) {
        const bool is_head = bits != 4;
        sources.push_back(format_ == Format::gptq && !is_head ? coded(in, out, columns)
                                                              : dense(in, out, columns, is_head));
        continue;
      }
      const int32_t count = in / 128;
      int32_t packed = 0;
      for (int32_t g = 0; g < count; ++g) {
        const int32_t width = bits != 4 ? bits : g < count * 15 / 100 ? 5 : g < count * 80 / 100 ? 4 : 3;
        groups[p].push_back({width, g * 128, 128, packed});
        packed += 4 * width;
      }
      WeightSource s;
      s.format = WeightFormat::exl2;
      s.num_in = in;
      s.num_out = out;
      s.padded_out = out;
      s.exl2 = {raw_.data(), raw_.data(), scales_.data(), groups[p].data(), count, packed};
      s.row_order = rows != nullptr ? rows->data() : nullptr;
      s.column_order = columns != nullptr ? columns->data() : nullptr;
      stored_bytes += static_cast<uint64_t>(packed) * static_cast<uint64_t>(out) * 4 +
                      static_cast<uint64_t>(count) * static_cast<uint64_t>(out) / 2;
      sources.push_back(s);
    }
    Weight* w = nullptr;
    check(prepare_weight(table_, device_, sources.data(), static_cast<int32_t>(sources.size()), &w),
          "weights");
    return w;
  }

  WeightSource blocks(int32_t in, int32_t out, const std::vector<int32_t>* columns) {
    WeightSource s;
    s.format = WeightFormat::blocks;
    s.num_in = in;
    s.num_out = s.padded_out = out;
    s.blocks = {type_, raw_.data()};
    s.column_order = columns != nullptr ? columns->data() : nullptr;
    stored_bytes += block_row_bytes(type_, in) * static_cast<uint64_t>(out);
    return s;
  }

  WeightSource trellis(int32_t in, int32_t out, int32_t bits) {
    WeightSource s;
    s.format = WeightFormat::trellis;
    s.num_in = in;
    s.num_out = s.padded_out = out;
    s.trellis = {codebook_, 2 * bits, reinterpret_cast<const uint16_t*>(raw_.data()), trellis_scales_.data(),
                 trellis_scales_.data()};
    stored_bytes += static_cast<uint64_t>(in) * static_cast<uint64_t>(out) * static_cast<uint64_t>(bits) / 8;
    return s;
  }

  WeightSource coded(int32_t in, int32_t out, const std::vector<int32_t>* columns) {
    WeightSource s;
    s.format = WeightFormat::coded;
    s.num_in = in;
    s.num_out = s.padded_out = out;
    s.coded.codes = s.coded.zeros = raw_.data();
    s.coded.row_words = out;
    s.coded.zero_group_words = out / 8;
    s.coded.column_words = s.coded.zero_column_words = 1;
    s.coded.zero_offset = 1;
    s.coded.scales = coded_scales_.data();
    s.coded.group_of_row = group_of_row_.data();
    s.coded.num_groups = in / 128;
    s.column_order = columns != nullptr ? columns->data() : nullptr;
    stored_bytes += static_cast<uint64_t>(in) * static_cast<uint64_t>(out) / 2;
    return s;
  }

  WeightSource dense(int32_t in, int32_t out, const std::vector<int32_t>* columns, bool is_head) {
    WeightSource s;
    s.num_in = in;
    s.num_out = s.padded_out = out;
    const bool is_fp8 = (format_ == Format::fp8 || format_ == Format::float8) && !is_head;
    s.dense = {is_fp8 ? DType::f8_e4m3 : DType::f16, raw_.data(), block_scales_.data(), 128, 128};
    s.activations = format_ == Format::float8 ? ActivationDtype::f8 : ActivationDtype::full;
    s.column_order = columns != nullptr ? columns->data() : nullptr;
    stored_bytes += static_cast<uint64_t>(in) * static_cast<uint64_t>(out) * dtype_bytes(s.dense.dtype);
    return s;
  }

  const KernelTable& table_;
  Device* device_;
  Shape shape_;
  Format format_;
  BlockType type_;
  TrellisCodebook codebook_;
  const RawWords& raw_;
  std::vector<int32_t> hidden_order_, attention_order_, inner_order_;
  const std::vector<uint16_t> scales_ = std::vector<uint16_t>(1024, float_to_half(0.03f));
  const std::vector<uint16_t> coded_scales_ = std::vector<uint16_t>(size_t{1} << 19, float_to_half(0.003f));
  const std::vector<uint16_t> trellis_scales_ = std::vector<uint16_t>(size_t{1} << 17, float_to_half(0.15f));
  std::vector<int32_t> group_of_row_ = std::vector<int32_t>(size_t{1} << 14);
  const std::vector<float> block_scales_ = std::vector<float>(size_t{1} << 16, 0.03f);
  std::vector<void*> memory_;
};

struct Load {
  int32_t jobs;
  int32_t tokens;   // of each job in the step
  int32_t context;  // tokens of each job before it
  KvFormat format = KvFormat::f16;
  int32_t prompt = 0;        // tokens of one more sequence, which has no context
  int32_t shared_pages = 0;  // with which all jobs begin
  bool once = true;          // if false, shared pages are read once per job
  int32_t spread = 0;        // contexts are up to this many tokens shorter than `context`
  bool verifies = false;     // draws from each token of a job, as if all but the first were draft tokens

  int32_t num_rows() const { return verifies ? jobs * tokens : jobs; }
  // Returns the context of a job; contexts are evenly spread, in mixed order.
  int32_t context_of(int32_t job) const {
    return spread == 0 ? context
                       : context - static_cast<int32_t>(int64_t{spread} * (job * 37 % jobs) / (jobs - 1));
  }
};

// A context with its buffers, and steps of one kind on it.
class Runner {
 public:
  Runner(const KernelTable& table, Device* device, const Model& model, const Load& load)
      : table_(table), device_(device), model_(model), load_(load) {
    const Shape& s = model.shape();
    const int32_t total = load.jobs * load.tokens + load.prompt, sequences = load.jobs + 1;
    pages_each_ = (std::max(load.context + load.tokens, load.prompt) + 255) / 256 + 1;
    ContextLimits limits;
    limits.max_tokens = std::max(total, 64);
    limits.max_sequences = sequences;
    limits.max_logit_rows = load.num_rows();
    limits.max_pages_per_sequence = pages_each_;
    limits.max_columns = 2 * s.inner;
    limits.vocab_size = s.vocabulary;
    limits.num_heads = s.heads;
    limits.head_dim = s.dim;
    model.check(table.create_context(device, &limits, &context_), "context");
    const auto tokens = static_cast<size_t>(limits.max_tokens);
    const auto columns = [](int32_t n) { return static_cast<size_t>(n); };
    space_.hidden = static_cast<float*>(take(tokens * columns(s.hidden) * 4));
    space_.normed = take(tokens * columns(s.hidden) * 2);
    space_.qkv = take(tokens * columns((s.heads + 2 * s.kv_heads) * s.dim) * 2);
    space_.attention = take(tokens * columns(s.heads * s.dim) * 2);
    space_.gate_up = take(tokens * columns(2 * s.inner) * 2);
    space_.activated = take(tokens * columns(s.inner) * 2);
    space_.rope_cos = static_cast<float*>(take(tokens * columns(s.dim / 2) * 4));
    space_.rope_sin = static_cast<float*>(take(tokens * columns(s.dim / 2) * 4));
    space_.logits = static_cast<float*>(take(columns(load.num_rows()) * columns(s.vocabulary) * 4));
    kv_shape_ = {load.format, load.format, 256, sequences * pages_each_, s.kv_heads, s.dim};
    kv_.keys = random_pages(kv_data_bytes(kv_shape_, load.format), load.format == KvFormat::f16);
    kv_.values = random_pages(kv_data_bytes(kv_shape_, load.format), load.format == KvFormat::f16);
    if (kv_scale_bytes(kv_shape_, load.format) > 0) {
      kv_.key_scales = random_pages(kv_scale_bytes(kv_shape_, load.format), true);
      kv_.value_scales = random_pages(kv_scale_bytes(kv_shape_, load.format), true);
    }
    make_batch();
  }
  ~Runner() {
    table_.release_context(context_);
    for (void* m : memory_) table_.release(device_, m);
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  const Load& load() const { return load_; }

  // Returns the median seconds of a step with a greedy draw on the device.
  double measure(int steps, bool sampling) {
    std::vector<double> times;
    std::vector<SampleOutcome> outcomes(static_cast<size_t>(load_.num_rows()));
    std::vector<SampleRow> rows(static_cast<size_t>(load_.num_rows()));
    for (size_t r = 0; r < rows.size(); ++r) rows[r].logit_row = static_cast<int32_t>(r);
    for (int i = 0; i < steps + 4; ++i) {
      const double start = seconds();
      queue_step();
      if (sampling) {
        SampleParams p;
        p.logits = space_.logits;
        p.stride = p.vocab_size = model_.shape().vocabulary;
        p.rows = rows.data();
        p.num_rows = load_.num_rows();
        p.outcomes = outcomes.data();
        model_.check(table_.sample(context_, &p), "sample");
      }
      model_.check(table_.synchronize(context_), "synchronize");
      if (i >= 4) times.push_back(seconds() - start);
    }
    if (sampling && std::any_of(outcomes.begin(), outcomes.end(),
                                [](const SampleOutcome& o) { return o.status != SampleStatus::drawn; }))
      stop("logits that are not finite");
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  // Returns the mean seconds of a step among many steps that are not waited for: the time on the GPU alone,
  // without the round trip to the host at the end of a step.
  double measure_queued(int steps) {
    for (int i = 0; i < 3; ++i) queue_step();
    model_.check(table_.synchronize(context_), "synchronize");
    const double start = seconds();
    for (int i = 0; i < steps; ++i) queue_step();
    model_.check(table_.synchronize(context_), "synchronize");
    return (seconds() - start) / steps;
  }

  // Returns the mean seconds of one operation issued for the weights of all layers.
  template <typename Issue>
  double measure_operation(int repeats, Issue issue_one) {
    const auto layers = static_cast<size_t>(model_.shape().layers);
    const auto all = [&] {
      for (size_t l = 0; l < layers; ++l) issue_one(l);
    };
    all();
    model_.check(table_.synchronize(context_), "synchronize");
    const double start = seconds();
    for (int r = 0; r < repeats; ++r) all();
    model_.check(table_.synchronize(context_), "synchronize");
    return (seconds() - start) / (repeats * static_cast<double>(layers));
  }
  double measure_linear(const std::vector<Weight*>& weights, int32_t rows) {
    // Random numbers: with zeros the GPU draws less power and runs faster than in use.
    if (input_ == nullptr)
      input_ = random_pages(static_cast<size_t>(rows) * static_cast<size_t>(model_.shape().inner) * 2, true);
    return measure_operation(rows > 512 ? 4 : 20, [&](size_t l) {
      LinearParams p;
      p.weight = weights[l % weights.size()];
      p.input = input_;
      p.rows = rows;
      p.output = weights[0] == model_.head ? nullptr : space_.gate_up;
      if (p.output == nullptr) p.output_f32 = space_.logits;
      model_.check(table_.linear(context_, &p), "linear");
    });
  }
  double measure_attention() {
    BatchView batch;
    model_.check(table_.bind_batch(context_, &host_, &batch), "bind");
    AttentionParams p;
    const Shape& s = model_.shape();
    p.heads = {s.heads, s.kv_heads, s.dim};
    p.qkv = space_.qkv;
    p.scale = 1.0f / std::sqrt(static_cast<float>(s.dim));
    p.batch = batch;
    p.kv_shape = kv_shape_;
    p.kv = kv_;
    p.output = space_.attention;
    return measure_operation(4, [&](size_t) { model_.check(table_.attention(context_, &p), "attention"); });
  }
  // Returns the magnitude of the results of the last measure_linear. Near zero the GPU draws less power than
  // in use, and its clock is higher.
  double product_size() {
    std::vector<uint16_t> halves(4096);
    model_.check(table_.download(device_, halves.data(), space_.gate_up, halves.size() * 2), "download");
    double sum = 0.0;
    for (const uint16_t half : halves) sum += std::pow(static_cast<double>(half_to_float(half)), 2);
    return std::sqrt(sum / static_cast<double>(halves.size()));
  }
  // Returns the bytes of the keys and values of all jobs, each counted once.
  uint64_t kv_bytes() const {
    KvShape one = kv_shape_;
    one.num_pages = 1;
    const auto page =
        static_cast<double>(kv_data_bytes(one, load_.format) + kv_scale_bytes(one, load_.format));
    double tokens = 0;
    for (int32_t j = 0; j < load_.jobs; ++j) tokens += load_.context_of(j) + load_.tokens;
    return static_cast<uint64_t>(2 * page * tokens / one.page_tokens);
  }

 private:
  void* take(size_t bytes) {
    void* memory = nullptr;
    model_.check(table_.allocate(device_, bytes, &memory), "memory");
    model_.check(table_.fill(device_, memory, 0, bytes), "memory");
    memory_.push_back(memory);
    return memory;
  }
  void* random_pages(size_t bytes, bool halves) {
    static std::vector<uint16_t> block;
    if (block.empty()) {
      std::mt19937 random(5);
      std::normal_distribution<float> normal;
      for (size_t i = 0; i < (size_t{4} << 20); ++i) block.push_back(float_to_half(normal(random)));
    }
    static std::vector<uint16_t> codes;
    if (codes.empty()) {
      std::mt19937 random(6);
      for (size_t i = 0; i < (size_t{4} << 20); ++i) codes.push_back(static_cast<uint16_t>(random()));
    }
    void* memory = take(bytes);
    const std::vector<uint16_t>& from = halves ? block : codes;
    for (size_t at = 0; at < bytes; at += from.size() * 2)
      model_.check(table_.upload(device_, static_cast<uint8_t*>(memory) + at, from.data(),
                                 std::min(from.size() * 2, bytes - at)),
                   "pages");
    return memory;
  }
  void add_sequence(int32_t number, int32_t context, int32_t tokens) {
    for (int32_t t = 0; t < tokens; ++t) {
      ids_.push_back((number * 977 + t * 131) % model_.shape().vocabulary);
      positions_.push_back(context + t);
      sequence_of_.push_back(number);
    }
    starts_.push_back(static_cast<int32_t>(ids_.size()));
    lengths_.push_back(context + tokens);
    for (int32_t p = 0; p < pages_each_; ++p)
      pages_.push_back(p * (load_.jobs + 1) + (p < load_.shared_pages ? 0 : number));
  }
  void make_batch() {
    starts_.push_back(0);
    for (int32_t j = 0; j < load_.jobs; ++j) {
      add_sequence(j, load_.context_of(j), load_.tokens);
      const int32_t drawn = load_.verifies ? load_.tokens : 1;
      for (int32_t row = drawn; row > 0; --row) rows_.push_back(static_cast<int32_t>(ids_.size()) - row);
    }
    if (load_.prompt > 0) add_sequence(load_.jobs, 0, load_.prompt);
    host_.num_tokens = static_cast<int32_t>(ids_.size());
    host_.num_sequences = static_cast<int32_t>(lengths_.size());
    host_.num_logit_rows = load_.num_rows();
    host_.max_query_tokens = std::max(load_.tokens, load_.prompt);
    host_.max_kv_tokens = std::max(load_.context + load_.tokens, load_.prompt);
    host_.page_table_stride = pages_each_;
    host_.page_tokens = load_.once ? kv_shape_.page_tokens : 0;
    host_.token_ids = ids_.data();
    host_.positions = positions_.data();
    host_.sequence_of_token = sequence_of_.data();
    host_.sequence_starts = starts_.data();
    host_.kv_lengths = lengths_.data();
    host_.page_table = pages_.data();
    host_.logit_rows = rows_.data();
  }
  void queue_step() {
    BatchView batch;
    model_.check(table_.bind_batch(context_, &host_, &batch), "bind");
    for (StepAction action = StepAction::run; action == StepAction::run;) {
      model_.check(table_.begin_step(context_, &batch, &action), "begin");
      if (action == StepAction::replayed) return;
      issue(batch);
      model_.check(table_.end_step(context_, &action), "end");
    }
  }
  void issue(const BatchView& batch) {
    const Shape& s = model_.shape();
    EmbedParams embed;
    embed.table = model_.embedding;
    embed.token_ids = batch.token_ids;
    embed.num_tokens = batch.num_tokens;
    embed.hidden = space_.hidden;
    model_.check(table_.embed(context_, &embed), "embed");
    RopeAnglesParams angles;
    angles.inv_freq = model_.inv_freq;
    angles.rotary_dim = s.dim;
    angles.positions = batch.positions;
    angles.num_tokens = batch.num_tokens;
    angles.cos = space_.rope_cos;
    angles.sin = space_.rope_sin;
    model_.check(table_.rope_angles(context_, &angles), "rope");
    NormParams norm;
    norm.weight = model_.norm;
    norm.columns = s.hidden;
    for (size_t l = 0; l < model_.qkv.size(); ++l) {
      AttentionBlockParams a;
      a.norm = norm;
      a.qkv = model_.qkv[l];
      a.output = model_.output[l];
      a.heads = {s.heads, s.kv_heads, s.dim};
      a.rotary_dim = s.dim;
      a.scale = 1.0f / std::sqrt(static_cast<float>(s.dim));
      a.batch = batch;
      a.kv_shape = kv_shape_;
      a.kv = kv_;
      a.workspace = space_;
      model_.check(table_.attention_block(context_, &a), "attention block");
      MlpBlockParams m;
      m.norm = norm;
      m.gate_up = model_.gate_up[l];
      m.down = model_.down[l];
      m.intermediate = s.inner;
      m.num_tokens = batch.num_tokens;
      m.workspace = space_;
      model_.check(table_.mlp_block(context_, &m), "feed-forward block");
    }
    HeadParams h;
    h.norm = norm;
    h.head = model_.head;
    h.vocab_size = s.vocabulary;
    h.batch = batch;
    h.workspace = space_;
    model_.check(table_.head(context_, &h), "head");
  }

  const KernelTable& table_;
  Device* device_;
  const Model& model_;
  Load load_;
  int32_t pages_each_ = 0;
  Context* context_ = nullptr;
  Workspace space_;
  void* input_ = nullptr;  // input of single products, for as many rows as the first measurement
  KvShape kv_shape_;
  KvLayer kv_;
  std::vector<void*> memory_;
  std::vector<int32_t> ids_, positions_, sequence_of_, starts_, lengths_, pages_, rows_;
  BatchView host_;
};

struct Contexts {
  const char* name;
  int32_t jobs;
  int32_t tokens;      // of the longest
  int32_t spread = 0;  // by which the shortest is shorter
};
constexpr Contexts kContexts[] = {{"1 x 256", 1, 256},
                                  {"32 x 256", 32, 256},
                                  {"64 x 300", 64, 300},
                                  {"128 x 300", 128, 300},
                                  {"256 x 256", 256, 256},
                                  {"256 x 300", 256, 300},
                                  {"512 x 300", 512, 300},
                                  {"128 x 1k", 128, 1024},
                                  {"16 x 16k", 16, 16384},
                                  {"16 x up to 16k", 16, 16384, 16128},
                                  {"4 x 16k", 4, 16384},
                                  {"4 x up to 16k", 4, 16384, 16128},
                                  {"1 x 16k", 1, 16384},
                                  {"64 x 2k", 64, 2048},
                                  {"128 x 2k", 128, 2048},
                                  {"256 x 2k", 256, 2048},
                                  {"64 x up to 2k", 64, 2048, 1984},
                                  {"128 x up to 2k", 128, 2048, 1984},
                                  {"256 x up to 2k", 256, 2048, 1984},
                                  {"512 x up to 1k", 512, 1024, 960}};

// Jobs of 2,048 tokens with a shared prefix: a system prompt, or most of a conversation.
struct SharedBeginning {
  int32_t jobs;
  int32_t pages;
};
constexpr SharedBeginning kSharedBeginnings[] = {{32, 7}, {64, 7}, {256, 7}};

struct Bench {
  const Backend* backend;
  double bandwidth = 0.0;
  Results results{};
  Format weight_format = Format::exl2;
  BlockChoice blocks = kBlockChoices[0];
  TrellisCodebook codebook = TrellisCodebook::mul1;
  bool quick = false;
  std::vector<std::string> only{};  // measures only names that contain one of these texts

  void line(const std::string& name, double step, double tokens, double bytes) {
    std::printf("  %-44s %9.1f us  %9.0f tok/s  %6.2f TB/s  %4.1f %%\n", name.c_str(), step * 1e6,
                tokens / step, bytes / step / 1e12, 100.0 * bytes / step / bandwidth);
    std::fflush(stdout);
    char text[256];
    std::snprintf(text, sizeof(text),
                  "\"us\": %.2f, \"tokens_per_s\": %.1f, \"bytes\": %.0f, \"share_of_bandwidth\": %.4f",
                  step * 1e6, tokens / step, bytes, bytes / step / bandwidth);
    results.add(name, text);
  }

  bool wanted(const std::string& name) const {
    return only.empty() || std::any_of(only.begin(), only.end(),
                                       [&](const std::string& w) { return name.find(w) != name.npos; });
  }

  // Returns true also for a name whose parts may be selected, such as "many linear" for "many linear o rows
  // 256".
  bool wanted_in(const std::string& name) const {
    return wanted(name) || std::any_of(only.begin(), only.end(),
                                       [&](const std::string& w) { return w.find(name) != w.npos; });
  }

  // `row_counts` begins with the largest.
  void kernels(const KernelTable& table, const Model& model, Runner& runner, const std::string& prefix,
               std::initializer_list<int32_t> row_counts) {
    const struct {
      const char* name;
      const std::vector<Weight*>* weights;
    } kinds[] = {
        {"qkv", &model.qkv}, {"o", &model.output}, {"gate_up", &model.gate_up}, {"down", &model.down}};
    bool has_products = false;
    for (const int32_t rows : row_counts) {
      for (const auto& kind : kinds) {
        const std::string name = prefix + " linear " + kind.name + " rows " + std::to_string(rows);
        if (!wanted(name)) continue;
        line(name, runner.measure_linear(*kind.weights, rows), rows,
             static_cast<double>(table.weight_bytes(kind.weights->front())));
        has_products = true;
      }
    }
    if (has_products) std::printf("  root mean square of the last product %.3g\n", runner.product_size());
    if (*row_counts.begin() <= 128 && wanted(prefix + " linear head rows 1"))
      line(prefix + " linear head rows 1", runner.measure_linear({model.head}, 1), 1,
           static_cast<double>(table.weight_bytes(model.head)));
  }

  void run(const Shape& shape, bool deterministic, const RawWords& raw) {
    DeviceOptions options;
    options.deterministic = deterministic ? 1 : 0;
    Device* device = nullptr;
    if (const Status s = backend->open_device(0, &options, &device); s != Status::ok) stop(s.words);
    const KernelTable& table = *backend->table(device);
    DeviceInfo info;
    if (backend->device_info(device, &info) == Status::ok)
      std::printf("%s, %s, %s\n", info.name, info.detail, deterministic ? "deterministic" : "fast");
    {
      const Model model(table, device, shape, weight_format, blocks.type, codebook, raw);
      const std::string mode = std::string(shape.name) + (deterministic ? " det" : " fast");
      std::printf("  %s: %.3f GB of weights, loaded at %.2f GB/s\n", shape.name,
                  static_cast<double>(model.weight_bytes) / 1e9,
                  static_cast<double>(model.stored_bytes) / model.load_seconds / 1e9);
      results.add(mode + " load", "\"gb_per_s\": " + std::to_string(static_cast<double>(model.stored_bytes) /
                                                                    model.load_seconds / 1e9));
      steps(table, device, model, mode, deterministic);
    }
    backend->close_device(device);
  }

  // Runs two contexts that decode at the same time, like two models, and prints the share of its own speed
  // that each keeps.
  void beside(const KernelTable& table, Device* device, const Model& model, Runner& runner,
              const std::string& name) {
    Runner other(table, device, model, runner.load());
    constexpr int kSteps = 200;
    const double alone = runner.measure(kSteps, true);
    double together[2] = {};
    std::thread thread([&] { together[1] = other.measure(kSteps, true); });
    together[0] = runner.measure(kSteps, true);
    thread.join();
    const double share = 100.0 * alone * (1.0 / together[0] + 1.0 / together[1]);
    std::printf("  %-46s %9.1f us %9.1f us, together %.0f %% of one\n", (name + ", two at once").c_str(),
                together[0] * 1e6, together[1] * 1e6, share);
    results.add(name + ", two at once", "\"us\": [" + std::to_string(together[0] * 1e6) + ", " +
                                            std::to_string(together[1] * 1e6) + "]");
  }

  void steps(const KernelTable& table, Device* device, const Model& model, const std::string& mode,
             bool deterministic) {
    const auto weights = static_cast<double>(model.weight_bytes);
    const double layers = model.shape().layers;
    if (deterministic) {
      for (const int32_t jobs : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
        const std::string name = mode + " decode " + std::to_string(jobs) + " x 256";
        if (!wanted(name) && !(jobs == 64 && wanted(mode + " linear"))) continue;
        Runner runner(table, device, model, {jobs, 1, 255});
        if (model.shape().shards > 1) {
          kernels(table, model, runner, mode, {128, 64, 32, 16, 8, 1});
          continue;
        }
        const double bytes = weights + layers * static_cast<double>(runner.kv_bytes());
        line(name, runner.measure(40, true), jobs, bytes);
        line(name + ", no draw", runner.measure(40, false), jobs, bytes);
        line(name + ", queued, no draw", runner.measure_queued(40), jobs, bytes);
        line(mode + " attention " + std::to_string(jobs) + " x 256", runner.measure_attention(), jobs,
             static_cast<double>(runner.kv_bytes()));
        if (jobs == 64 && !quick) kernels(table, model, runner, mode, {128, 64, 32, 16, 8, 1});
        if ((jobs == 1 || jobs == 8 || jobs == 32) && !quick) beside(table, device, model, runner, name);
      }
    }
    for (const int32_t jobs : {1, 8, 32}) {
      const std::string name = mode + " verify " + std::to_string(jobs) + " x 5 after 256";
      if (!deterministic || !wanted(name)) continue;
      Load load{jobs, 5, 256};
      load.verifies = true;
      Runner runner(table, device, model, load);
      const double bytes = weights + layers * static_cast<double>(runner.kv_bytes());
      line(name, runner.measure(40, true), load.num_rows(), bytes);
      line(name + ", queued, no draw", runner.measure_queued(40), load.num_rows(), bytes);
    }
    for (const int32_t prompt : {64, 256, 1024}) {
      const std::string what = "256 x 256 and a prompt of " + std::to_string(prompt);
      if (!deterministic || !wanted(mode + " decode " + what)) continue;
      Runner runner(table, device, model, {256, 1, 255, KvFormat::f16, prompt});
      line(mode + " decode " + what, runner.measure(20, true), 256 + prompt, weights);
      line(mode + " attention " + what, runner.measure_attention(), 256 + prompt,
           static_cast<double>(runner.kv_bytes()));
    }
    for (const int32_t tokens : {16, 64, 128, 256, 512}) {
      const std::string what = std::to_string(tokens) + " tokens after 8k";
      if (!deterministic || !wanted(mode + " piece of " + what)) continue;
      Runner runner(table, device, model, {1, tokens, 8192 - tokens});
      line(mode + " piece of " + what, runner.measure(20, true), tokens, weights);
      line(mode + " attention of " + what, runner.measure_attention(), tokens,
           static_cast<double>(runner.kv_bytes()));
    }
    if (wanted(mode + " prefill 2048") || wanted_in(mode.substr(mode.rfind(' ') + 1) + " many linear")) {
      Runner runner(table, device, model, {1, 2048, 0});
      if (wanted(mode + " prefill 2048"))
        line(mode + " prefill 2048", runner.measure(6, true), 2048, weights);
      if (!quick && deterministic)
        kernels(table, model, runner, mode + " many", {2048, 512, 384, 256, 192, 128, 96, 64});
    }
    for (const int32_t tokens : {2048, 8192}) {
      const std::string name = mode + " attention prefill " + std::to_string(tokens);
      if (quick || !wanted(name)) continue;
      Runner runner(table, device, model, {1, tokens, 0});
      line(name, runner.measure_attention(), tokens, static_cast<double>(runner.kv_bytes()));
    }
    if (!deterministic || quick) return;
    for (const KvFormat format : {KvFormat::f16, KvFormat::q8, KvFormat::q4}) {
      const std::string name = format == KvFormat::f16 ? "f16" : format == KvFormat::q8 ? "q8" : "q4";
      for (const Contexts& contexts : kContexts) {
        const std::string what = contexts.name + (" " + name);
        if (!wanted(mode + " decode " + what)) continue;
        Load load{contexts.jobs, 1, contexts.tokens - 1, format};
        load.spread = contexts.spread;
        Runner runner(table, device, model, load);
        const double bytes = weights + layers * static_cast<double>(runner.kv_bytes());
        line(mode + " decode " + what, runner.measure(20, true), contexts.jobs, bytes);
        line(mode + " attention " + what, runner.measure_attention(), contexts.jobs,
             static_cast<double>(runner.kv_bytes()));
      }
    }
    for (const SharedBeginning& beginning : kSharedBeginnings) shared(table, device, model, mode, beginning);
  }
  // Compares shared pages read once for all jobs with pages read once per job.
  void shared(const KernelTable& table, Device* device, const Model& model, const std::string& mode,
              const SharedBeginning& beginning) {
    const std::string what =
        std::to_string(beginning.jobs) + " x 2k, " + std::to_string(256 * beginning.pages) + " shared";
    if (!wanted(mode + " decode " + what)) return;
    for (const bool once : {false, true}) {
      Runner runner(table, device, model, {beginning.jobs, 1, 2047, KvFormat::f16, 0, beginning.pages, once});
      const char* way = once ? ", read once" : ", read by each";
      const auto bytes = static_cast<double>(runner.kv_bytes());
      line(mode + " decode " + what + way, runner.measure(10, true), beginning.jobs,
           static_cast<double>(model.weight_bytes) + model.shape().layers * bytes);
      line(mode + " attention " + what + way, runner.measure_attention(), beginning.jobs, bytes);
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3)
    stop(
        "usage: cuda_step_bench PLUGIN OUT.json [8b] [1b] [70b] [70b/2] [8b/2] "
        "[gptq|fp8|float8|f16|TRELLIS|BLOCKS] [quick] "
        "[only=TEXT]");
  Bench bench{.backend = &open_plugin(argv[1])};
  bench.bandwidth = measure_read_bandwidth();
  if (bench.bandwidth == 0.0) stop("the read bandwidth could not be measured");
  std::printf("read bandwidth %.3f TB/s\n", bench.bandwidth / 1e12);
  bench.results.add("read bandwidth", "\"bytes_per_s\": " + std::to_string(bench.bandwidth));
  const std::vector<std::string> words(argv + 3, argv + argc);
  for (const std::string& word : words) {
    bench.quick |= word == "quick";
    if (word.rfind("only=", 0) == 0) bench.only.push_back(word.substr(5));
    if (word == "gptq") bench.weight_format = Format::gptq;
    if (word == "fp8") bench.weight_format = Format::fp8;
    if (word == "float8") bench.weight_format = Format::float8;
    if (word == "f16") bench.weight_format = Format::f16;
    for (int codebook = 0; codebook < 3; ++codebook) {
      if (word != kCodebooks[codebook]) continue;
      bench.weight_format = Format::trellis;
      bench.codebook = static_cast<TrellisCodebook>(codebook);
    }
    for (const BlockChoice& choice : kBlockChoices) {
      if (word != choice.word) continue;
      bench.weight_format = Format::blocks;
      bench.blocks = choice;
    }
  }
  const RawWords raw = raw_words(bench.weight_format, bench.blocks);
  for (const std::string& word : words) {
    const auto* const found = std::find(std::begin(kShapeWords), std::end(kShapeWords), word);
    if (found == std::end(kShapeWords)) continue;
    const Shape& shape = kShapes[found - std::begin(kShapeWords)];
    bench.run(shape, true, raw);
    if (bench.wanted(std::string(shape.name) + " fast prefill 2048")) bench.run(shape, false, raw);
  }
  std::FILE* out = std::fopen(argv[2], "w");
  if (out == nullptr) stop("cannot write the results");
  std::fprintf(out, "[\n%s\n]\n", bench.results.json.c_str());
  std::fclose(out);
  return 0;
}
