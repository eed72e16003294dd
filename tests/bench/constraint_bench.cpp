// Compile and mask time of JSON Schema constraints, and whether they accept and reject the right instances:
// constraint_bench VOCABULARY FOLDER. The vocabulary is a file with one token in hexadecimal per line; the
// folder has schemas with instances, as in ../shared/golden/json_schema/real.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <unordered_map>

#include "core/base/error.h"
#include "core/constrained/constraint.h"
#include "tests/support/json_text.h"

namespace {

using quire::testing::Json;
// Returns the processor time of this thread, which other programs of the machine do not affect.
double now_us() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

double microseconds_since(double start) {
  return now_us() - start;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// Splits a text greedily into the longest matching tokens.
std::vector<quire::TokenId> tokens_of(std::string_view text,
                                      const std::unordered_map<std::string, quire::TokenId>& ids) {
  std::vector<quire::TokenId> tokens;
  while (!text.empty()) {
    size_t length = std::min<size_t>(32, text.size());
    auto found = ids.end();
    while (length > 0 && (found = ids.find(std::string(text.substr(0, length)))) == ids.end()) --length;
    if (length == 0) break;
    tokens.push_back(found->second);
    text.remove_prefix(length);
  }
  return tokens;
}

void print(const char* name, std::vector<double>& times) {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  const auto at = [&times](double share) {
    return times[std::min(times.size() - 1, static_cast<size_t>(static_cast<double>(times.size()) * share))];
  };
  std::printf("%s: %zu, median %.1f us, 99 %% %.1f us, 99.9 %% %.1f us, most %.1f us\n", name, times.size(),
              at(0.5), at(0.99), at(0.999), times.back());
}

struct Instances {
  const std::shared_ptr<const quire::TokenVocabulary>& vocabulary;
  const std::unordered_map<std::string, quire::TokenId>& ids;
};

// Returns whether a constraint accepts a whole text; adds the time of the mask before each token to `masks`.
bool takes_all(const std::shared_ptr<const quire::Constraint>& constraint, const Instances& with,
               const Json& value, std::vector<double>& masks) {
  quire::TokenBits mask(with.vocabulary->num_words());
  quire::Matcher matcher(constraint);
  for (const quire::TokenId token : tokens_of(quire::testing::as_python_prints(value), with.ids)) {
    const double start = now_us();
    matcher.mask(mask);
    masks.push_back(microseconds_since(start));
    if (!matcher.accept(token)) return false;
  }
  return matcher.may_end();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: constraint_bench VOCABULARY FOLDER\n");
    return 2;
  }
  std::vector<std::string> bytes;
  std::unordered_map<std::string, quire::TokenId> ids;
  std::ifstream file(argv[1]);
  for (std::string line; std::getline(file, line);) {
    bytes.push_back(from_hex(line));
    ids.emplace(bytes.back(), static_cast<quire::TokenId>(bytes.size() - 1));
  }
  bytes.emplace_back();
  const auto end = static_cast<quire::TokenId>(bytes.size() - 1);
  double start = now_us();
  const auto vocabulary = std::make_shared<const quire::TokenVocabulary>(
      bytes, std::unordered_map<std::string, quire::TokenId>{}, quire::TokenIds{end});
  std::printf("vocabulary of %zu: %.1f ms\n", bytes.size(), microseconds_since(start) / 1000);
  std::vector<double> compiles;
  std::vector<double> masks;
  int num_refused = 0;
  int num_valid_refused = 0;
  int num_invalid_taken = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) {
    std::ifstream source(entry.path());
    const Json test = Json::parse(source);
    const std::string schema = test["schema"].dump();
    try {
      start = now_us();
      const auto constraint =
          quire::Constraint::compile(quire::ConstraintKind::json_schema, schema, vocabulary);
      compiles.push_back(microseconds_since(start));
      const Instances with{vocabulary, ids};
      const size_t num_before = masks.size();
      for (const Json& value : test["valid"]) num_valid_refused += !takes_all(constraint, with, value, masks);
      const double worst = *std::max_element(masks.begin() + static_cast<ptrdiff_t>(num_before), masks.end());
      std::vector<double> uncounted;
      for (const Json& value : test["invalid"])
        num_invalid_taken += takes_all(constraint, with, value, uncounted);
      if (worst > 5'000 || compiles.back() > 50'000) {
        std::printf("%s: compile %.0f us, worst mask %.0f us\n", entry.path().filename().c_str(),
                    compiles.back(), worst);
      }
    } catch (const quire::Error& error) {
      ++num_refused;
      std::printf("%s: %s\n", entry.path().filename().c_str(), error.what());
    }
  }
  std::printf("%d refused\n%d valid refused\n%d invalid taken\n", num_refused, num_valid_refused,
              num_invalid_taken);
  print("compile", compiles);
  print("mask", masks);
  return 0;
}
