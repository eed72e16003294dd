// Speed of encoding and decoding, in bytes of text per second, for each kind of split pattern.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "core/base/file_system.h"
#include "core/tokenizer/detokenizer.h"
#include "core/tokenizer/tokenizer.h"

namespace quire {
namespace {

constexpr const char* kKinds[] = {
    "gpt2",    "llama3",   "qwen2", "o200k", "deepseek", "digits", "gemma", "llama2", "mistral_metaspace",
    "unigram", "wordpiece"};
constexpr int kNumKinds = 11;

std::string read(const std::string& path) {
  return posix_file_system().read_text(path, 64U << 20);
}

std::shared_ptr<const Tokenizer> load(int64_t kind_idx) {
  const std::string json =
      read(std::string(QUIRE_TEST_DATA) + "/tokenizers/" + kKinds[kind_idx] + "/tokenizer.json");
  return Tokenizer::load({json, {}, {}, {}});
}

// Returns English prose from the larger reference files if they exist, otherwise generated words.
std::string english() {
  const std::string path = std::string(QUIRE_SHARED_DIR) + "/models/eval.txt";
  if (posix_file_system().is_file(path)) return read(path).substr(0, 400000);
  std::string text;
  while (text.size() < 400000)
    text += "The people were glad to see the king, and it didn't rain for 14 days. ";
  return text;
}

std::string repeated(const std::string& unit) {
  std::string text;
  while (text.size() < 400000) text += unit;
  return text;
}

void encode(benchmark::State& state, const std::string& text) {
  const auto tokenizer = load(state.range(0));
  state.SetLabel(kKinds[state.range(0)]);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->encode(text));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}

// Encodes the texts that tokenizer_speed.py also passes to the `tokenizers` library, separated by NUL.
void encode_given(benchmark::State& state) {
  const char* const path = std::getenv("QUIRE_BENCH_TEXT");
  if (path == nullptr) return state.SkipWithError("QUIRE_BENCH_TEXT names no file");
  const std::string all = read(path);
  const auto tokenizer = load(state.range(0));
  state.SetLabel(kKinds[state.range(0)]);
  for (auto _ : state) {
    for (size_t begin = 0; begin < all.size();) {
      const size_t end = std::min(all.find('\0', begin), all.size());
      benchmark::DoNotOptimize(tokenizer->encode(std::string_view(all).substr(begin, end - begin)));
      begin = end + 1;
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * all.size()));
}
void encode_english(benchmark::State& state) {
  encode(state, english());
}
void encode_han(benchmark::State& state) {
  encode(state,
         repeated("\xe7\x9a\x84\xe4\xb8\x80\xe6\x98\xaf\xe5\x9c\xa8\xe4\xb8\x8d\xe4\xba\x86\xef\xbc\x8c"));
}
void encode_accents(benchmark::State& state) {
  encode(state, repeated("d\xc3\xa9j\xc3\xa0 vu, e\xcc\x81t\xc3\xa9 "));
}
void encode_one_letter(benchmark::State& state) {
  encode(state, repeated("a"));
}
void encode_spaces(benchmark::State& state) {
  encode(state, repeated(" "));
}

void decode_english(benchmark::State& state) {
  const auto tokenizer = load(state.range(0));
  const std::string text = english();
  const TokenIds ids = tokenizer->encode(text);
  for (auto _ : state) {
    Detokenizer detokenizer(*tokenizer);
    std::string out;
    for (const TokenId id : ids) detokenizer.push(id, out);
    benchmark::DoNotOptimize(out);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}

void load_file(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(load(state.range(0)));
}

BENCHMARK(encode_given)->DenseRange(0, kNumKinds - 1)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_english)->DenseRange(0, kNumKinds - 1)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_han)->DenseRange(0, kNumKinds - 1)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_accents)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);  // 2 normalizes
BENCHMARK(encode_one_letter)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_spaces)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(decode_english)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(load_file)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
