// Random texts of constraints: random_outputs FOLDER COUNT SEED FORM < SOURCES. FOLDER has tokenizer.json and
// tokenizer_config.json. FORM is the form of JSON: any or drawn, as jobs draw it. Each line of SOURCES is
// {"kind", "source", "words"}. For each source, COUNT texts are drawn under its masks: random logits for a
// random number of tokens, and then words that lead to the end. "words" has texts of the source: "pieces" for
// any position, and for a schema "keys" and "values" in groups, those that lead to the end first. Prints a
// line {"source": index, "text", "ended"} for each text, or {"source", "refused"} for a source that is not
// supported. random_outputs.py checks the output with independent checkers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/constrained/constraint.h"
#include "tests/support/file_text.h"

namespace quire {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostFreeSteps = 80;  // with uniformly random logits
constexpr size_t kMostSteps = 25000;   // a longer text counts as endless

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

// Position in a JSON text: in a string, where a value begins, or elsewhere.
enum class Place { in_string, at_value, elsewhere };

Place place_in_json(std::string_view text) {
  bool in_string = false;
  char last = ':';  // as before the first value
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    }
    if (text[i] > ' ') last = text[i];
  }
  if (in_string) return Place::in_string;
  return last == ':' || last == '[' || last == ',' ? Place::at_value : Place::elsewhere;
}

// Gumbel noise: the token with the highest sum of logit and noise is a sample from the softmax of the logits.
// Taken from a table, because thousands of tokens are allowed at most steps.
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

// Draws a text: the largest of random logits, which have the same distribution for all tokens at first. After
// a random number of tokens the text is led to its end: it ends if it may, closes what it may, adds required
// keys and values, and otherwise takes drawn tokens, short ones first.
class Drawer {
 public:
  Drawer(std::shared_ptr<const Constraint> constraint, const Json& source, uint64_t seed)
      : constraint_(std::move(constraint)),
        is_json_(source["kind"] == "schema"),
        words_(source["words"].get<std::map<std::string, Groups>>()),
        random_(seed),
        noise_(seed + 1),
        mask_(constraint_->vocabulary().num_words()) {}

  Json draw() {
    Matcher matcher(constraint_);
    const size_t num_free = random_() % (kMostFreeSteps + 1);
    while (!matcher.has_ended() && matcher.num_steps() < kMostSteps) {
      const TokenIds tokens = next(matcher, matcher.num_steps() < num_free);
      if (tokens.empty()) return {{"text", matcher.text()}, {"ended", false}, {"why", "no token is allowed"}};
      for (const TokenId token : tokens) {
        matcher.mask(mask_);
        if (!is_allowed(token)) return failed(matcher, "the mask lacks a token of what comes next", token);
        if (!matcher.accept(token)) return failed(matcher, "a token of the mask is refused", token);
      }
    }
    if (matcher.has_ended()) return {{"text", matcher.text()}, {"ended", true}};
    return {{"text", matcher.text()}, {"ended", false}, {"why", "too long"}};
  }

 private:
  Json failed(const Matcher& matcher, const char* why, TokenId token) const {
    return {{"text", matcher.text()},
            {"ended", false},
            {"why", fmt::format("{}: {}", why, constraint_->vocabulary().bytes(token))}};
  }

  using Groups = std::vector<std::vector<std::string>>;

  TokenIds next(Matcher& matcher, bool is_free) {
    if (!is_free && matcher.may_end()) return {constraint_->vocabulary().ends().front()};
    const std::string word = is_free ? "" : is_json_ ? json_word(matcher) : piece(matcher);
    if (!word.empty()) return tokens_of(word);
    matcher.mask(mask_);
    const TokenId token = drawn(is_free ? 0 : 4);
    return token < 0 ? TokenIds{} : TokenIds{token};
  }

  std::string json_word(Matcher& matcher) {
    const Place place = place_in_json(matcher.text());
    if (place == Place::in_string) return takes(matcher, "\"") ? "\"" : piece(matcher);
    for (const char* const closer : {"}", "]"}) {
      if (takes(matcher, closer)) return closer;
    }
    const std::string key = word_of(matcher, words_["keys"]);
    return key.empty() && place == Place::at_value ? word_of(matcher, words_["values"]) : key;
  }

  // Not always, because drawn tokens reach other states.
  std::string piece(Matcher& matcher) { return random_() % 2 == 0 ? word_of(matcher, words_["pieces"]) : ""; }

  // Returns a word that may come next, chosen at random from the first group that has one.
  std::string word_of(Matcher& matcher, const Groups& groups) {
    // Sometimes in another order, because the usual order may not lead to the end here.
    Groups mixed = groups;
    if (random_() % 8 == 0) std::shuffle(mixed.begin(), mixed.end(), random_);
    for (std::vector<std::string>& group : mixed) {
      std::shuffle(group.begin(), group.end(), random_);
      for (const std::string& word : group) {
        if (takes(matcher, word)) return word;
      }
    }
    return "";
  }

  static bool takes(Matcher& matcher, std::string_view word) {
    if (!matcher.accept_text(word)) return false;
    matcher.rollback(1);
    return true;
  }

  TokenIds tokens_of(std::string_view word) const {
    TokenIds tokens;
    while (!word.empty()) {
      const TokenVocabulary::Longest longest = constraint_->vocabulary().longest(word);
      if (longest.token < 0) return {};
      tokens.push_back(longest.token);
      word.remove_prefix(longest.num_bytes);
    }
    return tokens;
  }

  bool is_allowed(TokenId token) const {
    const auto bit = static_cast<uint32_t>(token);
    return (mask_[bit / 32] >> (bit % 32) & 1) != 0;
  }

  TokenId drawn(float for_short) {
    TokenId best = -1;
    float highest = 0;
    for (size_t word = 0; word < mask_.size(); ++word) {
      for (uint32_t bits = mask_[word]; bits != 0; bits &= bits - 1) {
        const auto token = static_cast<TokenId>(word * 32 + static_cast<size_t>(__builtin_ctz(bits)));
        const size_t num_bytes = constraint_->vocabulary().bytes(token).size();
        const float logit = noise_.next() + (num_bytes < 2 ? for_short : 0);
        if (best >= 0 && logit <= highest) continue;
        best = token;
        highest = logit;
      }
    }
    return best;
  }

  std::shared_ptr<const Constraint> constraint_;
  bool is_json_;
  std::map<std::string, Groups> words_;
  std::mt19937_64 random_;
  Noise noise_;
  TokenBits mask_;
};

void print(const Json& line) {
  std::cout << line.dump(-1, ' ', true, Json::error_handler_t::replace) << "\n";
}

void draw_all(const Json& source, size_t source_idx, int count, uint64_t seed,
              const std::shared_ptr<const TokenVocabulary>& vocabulary, const JsonForm& form) {
  std::shared_ptr<const Constraint> constraint;
  try {
    constraint = Constraint::compile(kind_of(source["kind"]), source["source"].get<std::string>(), vocabulary,
                                     {}, form);
  } catch (const Error& error) {
    return print({{"source", source_idx}, {"refused", error.what()}});
  }
  Drawer drawer(constraint, source, seed * 1'000'003 + source_idx);
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

int run(const std::filesystem::path& folder, int count, uint64_t seed, const JsonForm& form) {
  const std::string json = testing::file_text(folder / "tokenizer.json");
  const std::string config = testing::file_text(folder / "tokenizer_config.json");
  const auto tokenizer = Tokenizer::load({json, config, {}, {}});
  const auto vocabulary = TokenVocabulary::of(tokenizer);
  if (vocabulary->ends().empty())
    throw Error(ErrorCode::format, "{}: it names no end token", folder.string());
  size_t source_idx = 0;
  for (std::string line; std::getline(std::cin, line); ++source_idx) {
    draw_all(Json::parse(line), source_idx, count, seed, vocabulary, form);
  }
  return 0;
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: random_outputs FOLDER COUNT SEED any|drawn < SOURCES\n");
    return 2;
  }
  try {
    const bool is_drawn = std::string_view(argv[4]) == "drawn";
    return quire::run(argv[1], std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10),
                      is_drawn ? quire::kDrawnForm : quire::JsonForm{});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "random_outputs: %s\n", error.what());
    return 1;
  }
}
