// Random texts of constraints: random_outputs FOLDER COUNT SEED < SOURCES. FOLDER has
// tokenizer.json and tokenizer_config.json. Each line of SOURCES is
// {"kind", "source"}; for each, COUNT texts are drawn by random logits under its masks. Prints a line
// {"source": index, "text", "ended"} for each text, or {"source", "refused"} for a source that is not
// supported. What it prints, random_outputs.py holds to independent checkers.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/constrained/constraint.h"

namespace quire {
namespace {

using Json = nlohmann::json;

constexpr size_t kFreeSteps = 40;   // with logits that favour nothing
constexpr size_t kMostSteps = 800;  // a text that is longer counts as one without end

ConstraintKind kind_of(const std::string& name) {
  const std::pair<const char*, ConstraintKind> kinds[] = {{"schema", ConstraintKind::json_schema},
                                                          {"regex", ConstraintKind::regex},
                                                          {"gbnf", ConstraintKind::gbnf},
                                                          {"lark", ConstraintKind::lark}};
  for (const auto& [known, kind] : kinds) {
    if (name == known) return kind;
  }
  throw Error(ErrorCode::invalid_argument, "the kind {} is not known", name);
}

// How much a token helps a text to its end: a quote before a bracket, which may stand in a string without
// end; what closes before what goes on, and what opens last.
int closing(std::string_view bytes) {
  const char first = bytes.front();
  if (bytes == "\"" || bytes == "'") return 6;
  if (first == '}' || first == ']') return bytes.size() == 1 ? 5 : 4;
  if (first == ')') return bytes.size() == 1 ? 4 : 2;
  if (first == '{' || first == '[' || first == '(') return 0;
  if (first == ',') return 2;
  if (static_cast<unsigned char>(first) <= ' ' ||
      bytes.find_first_not_of("0123456789") == std::string_view::npos)
    return 1;
  return bytes.find_first_of("{[(,\"") == std::string_view::npos ? 3 : 1;
}

// Gumbel noise: the token whose logit with it is the highest is one drawn by the softmax of the logits. From
// a table, since thousands of tokens are allowed at most steps.
class Noise {
 public:
  explicit Noise(uint64_t seed) : random_(seed) {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> unit(1e-12, 1);
    for (float& value : values_) value = static_cast<float>(-std::log(-std::log(unit(random))));
  }
  float next() {
    if (left_ == 0) {
      bits_ = random_();
      left_ = 4;
    }
    --left_;
    const auto at = static_cast<uint16_t>(bits_);
    bits_ >>= 16;
    return values_[at];
  }

 private:
  std::mt19937_64 random_;
  std::vector<float> values_ = std::vector<float>(size_t{1} << 16);
  uint64_t bits_ = 0;
  int left_ = 0;
};

// The largest of random logits, which are the same for all tokens at first. With the length of the text,
// those that close are favoured more and more.
class Drawer {
 public:
  Drawer(std::shared_ptr<const Constraint> constraint, uint64_t seed)
      : constraint_(std::move(constraint)), noise_(seed), mask_(constraint_->vocabulary().num_words()) {}

  Json draw() {
    Matcher matcher(constraint_);
    while (!matcher.has_ended() && matcher.num_steps() < kMostSteps) {
      const TokenId token = next(matcher);
      if (token < 0) return {{"text", matcher.text()}, {"ended", false}, {"why", "no token is allowed"}};
      if (!matcher.accept(token))
        return {{"text", matcher.text()}, {"ended", false}, {"why", "the mask's token is refused"}};
    }
    if (matcher.has_ended()) return {{"text", matcher.text()}, {"ended", true}};
    return {{"text", matcher.text()}, {"ended", false}, {"why", "too long"}};
  }

 private:
  TokenId next(const Matcher& matcher) {
    matcher.mask(mask_);
    const TokenVocabulary& vocabulary = constraint_->vocabulary();
    const size_t num_steps = matcher.num_steps();
    const double bias = num_steps < kFreeSteps ? 0.2 : static_cast<double>(num_steps - kFreeSteps) * 0.2;
    TokenId best = -1;
    double highest = 0;
    for (size_t word = 0; word < mask_.size(); ++word) {
      for (uint32_t bits = mask_[word]; bits != 0; bits &= bits - 1) {
        const auto token = static_cast<TokenId>(word * 32 + static_cast<size_t>(__builtin_ctz(bits)));
        const std::string_view bytes = vocabulary.bytes(token);
        const double logit = noise_.next() + bias * favour(bytes);
        if (best >= 0 && logit <= highest) continue;
        best = token;
        highest = logit;
      }
    }
    return best;
  }

  static int favour(std::string_view bytes) {
    return bytes.empty() ? 8 : closing(bytes);  // empty: the end
  }

  std::shared_ptr<const Constraint> constraint_;
  Noise noise_;
  TokenBits mask_;
};

void print(const Json& line) {
  std::cout << line.dump(-1, ' ', true, Json::error_handler_t::replace) << "\n";
}

void draw_all(const Json& source, size_t source_idx, int count, uint64_t seed,
              const std::shared_ptr<const TokenVocabulary>& vocabulary) {
  std::shared_ptr<const Constraint> constraint;
  try {
    constraint =
        Constraint::compile(kind_of(source["kind"]), source["source"].get<std::string>(), vocabulary);
  } catch (const Error& error) {
    return print({{"source", source_idx}, {"refused", error.what()}});
  }
  Drawer drawer(constraint, seed * 1'000'003 + source_idx);
  for (int i = 0; i < count; ++i) {
    Json line;
    try {
      line = drawer.draw();
    } catch (const Error& error) {
      line = {{"text", ""}, {"ended", false}, {"why", error.what()}};
    }
    line["source"] = source_idx;
    print(line);
  }
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int run(const std::filesystem::path& folder, int count, uint64_t seed) {
  const std::string json = contents(folder / "tokenizer.json");
  const std::string config = contents(folder / "tokenizer_config.json");
  const auto tokenizer = Tokenizer::load({json, config, {}, {}});
  const auto vocabulary = TokenVocabulary::of(*tokenizer);
  if (vocabulary->ends().empty())
    throw Error(ErrorCode::format, "{}: it names no end token", folder.string());
  size_t source_idx = 0;
  for (std::string line; std::getline(std::cin, line); ++source_idx) {
    draw_all(Json::parse(line), source_idx, count, seed, vocabulary);
  }
  return 0;
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: random_outputs FOLDER COUNT SEED < SOURCES\n");
    return 2;
  }
  try {
    return quire::run(argv[1], std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "random_outputs: %s\n", error.what());
    return 1;
  }
}
