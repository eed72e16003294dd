// Measures the cost of verifying draft tokens: draws of all rows on the device, compared with copying the
// rows of logits to the host. Usage: candidate_draws_bench PLUGIN
//
// Rows resemble those of a language model, 128,256 columns. Each job has one row and one more per draft
// token. Penalties edit 256 tokens per row; masks are those of a constraint that allows one token in 16.
// Prints microseconds, medians of 40.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "tests/bench/plugin.h"

namespace {

using namespace quire::kernels;
using namespace quire::bench;

constexpr int32_t kVocabSize = 128256;
constexpr int32_t kMaxRows = 320;
constexpr int32_t kEditsPerRow = 256;

double median_us(const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < 44; ++i) {
    const double start = seconds();
    work();
    if (i >= 4) times.push_back((seconds() - start) * 1e6);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Setting {
  const char* name;
  bool samples;
  bool penalises;
  bool masks;
};
constexpr Setting kSettings[] = {{"greedy", false, false, false},
                                 {"temperature 0.8, top_p 0.95", true, false, false},
                                 {"the same with penalties", true, true, false},
                                 {"the same with penalties and a mask", true, true, true}};

class Bench {
 public:
  explicit Bench(const Backend& backend) {
    check(backend.open_device(0, &options_, &device_), "device");
    table_ = backend.table(device_);
    ContextLimits limits;
    limits.max_tokens = limits.max_sequences = limits.max_logit_rows = kMaxRows;
    limits.max_sample_edits = kMaxRows * kEditsPerRow;
    limits.max_pages_per_sequence = 1;
    limits.max_columns = 1024;
    limits.vocab_size = kVocabSize;
    limits.num_heads = 8;
    limits.head_dim = 64;
    check(table_->create_context(device_, &limits, &context_), "context");
    make_logits();
    edits_.resize(size_t{kMaxRows} * kEditsPerRow);
    for (size_t i = 0; i < edits_.size(); ++i) {
      const auto token = static_cast<int32_t>(i % kEditsPerRow * 499);
      edits_[i] = {token, static_cast<float>(1 + i % 3)};
    }
    mask_.assign((kVocabSize + 31) / 32, 0x00010001U);
  }

  void run(int32_t jobs, int32_t drafts) {
    const int32_t rows = jobs * (1 + drafts);
    for (const Setting& setting : kSettings) {
      const double us = median_us([&] { draw(rows, setting); });
      std::printf("%4d jobs %2d drafts %4d rows  %-36s %9.1f us\n", jobs, drafts, rows, setting.name, us);
    }
    const double us = median_us([&] {
      check(table_->read_rows(context_, logits_, rows, kVocabSize, host_.data()), "read_rows");
      check(table_->synchronize(context_), "synchronize");
    });
    std::printf("%4d jobs %2d drafts %4d rows  %-36s %9.1f us\n", jobs, drafts, rows,
                "rows brought to the host", us);
  }

 private:
  void make_logits() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0F, 1.5F);
    host_.resize(size_t{kMaxRows} * kVocabSize);
    for (size_t i = 0; i < kVocabSize; ++i) host_[i] = normal(random);
    for (size_t i = kVocabSize; i < host_.size(); ++i)
      host_[i] = host_[i - kVocabSize + (i % 977 == 0 ? 1 : 0)];
    void* memory = nullptr;
    check(table_->allocate(device_, host_.size() * sizeof(float), &memory), "memory");
    check(table_->upload(device_, memory, host_.data(), host_.size() * sizeof(float)), "upload");
    logits_ = static_cast<float*>(memory);
  }

  void draw(int32_t num_rows, const Setting& setting) {
    rows_.assign(static_cast<size_t>(num_rows), SampleRow{});
    for (int32_t i = 0; i < num_rows; ++i) {
      SampleRow& row = rows_[static_cast<size_t>(i)];
      row.logit_row = i;
      row.random_bits = uint64_t{0x9e3779b97f4a7c15} * static_cast<uint64_t>(++num_drawn_);
      if (setting.samples) {
        row.temperature = 0.8F;
        row.top_p = 0.95F;
      }
      if (setting.penalises) {
        row.repetition_penalty = 1.1F;
        row.first_edit = i * kEditsPerRow;
        row.num_penalised = kEditsPerRow;
      }
      if (setting.masks) row.mask = mask_.data();
    }
    SampleParams params;
    params.logits = logits_;
    params.stride = params.vocab_size = kVocabSize;
    params.rows = rows_.data();
    params.num_rows = num_rows;
    params.edits = edits_.data();
    params.num_edits = setting.penalises ? num_rows * kEditsPerRow : 0;
    params.outcomes = outcomes_.data();
    check(table_->sample(context_, &params), "sample");
    check(table_->synchronize(context_), "synchronize");
    for (int32_t i = 0; i < num_rows; ++i) {
      if (outcomes_[static_cast<size_t>(i)].status == SampleStatus::drawn) continue;
      std::fprintf(stderr, "candidate_draws_bench: row %d was not drawn\n", i);
      std::exit(1);
    }
  }

  DeviceOptions options_;
  Device* device_ = nullptr;
  const KernelTable* table_ = nullptr;
  Context* context_ = nullptr;
  float* logits_ = nullptr;
  std::vector<float> host_;
  std::vector<LogitEdit> edits_;
  std::vector<uint32_t> mask_;
  std::vector<SampleRow> rows_;
  std::vector<SampleOutcome> outcomes_ = std::vector<SampleOutcome>(kMaxRows);
  uint64_t num_drawn_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) stop("usage: candidate_draws_bench PLUGIN");
  Bench bench(open_plugin(argv[1]));
  for (const int32_t jobs : {1, 8, 32, 64}) {
    for (const int32_t drafts : {0, 2, 4}) bench.run(jobs, drafts);
  }
  return 0;
}
