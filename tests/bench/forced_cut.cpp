// Measures how often a tokenizer splits forced text differently than the engine: forced_cut TOKENIZER
// SCHEMAS. The first is a folder with tokenizer.json, or a SentencePiece file; the second has schemas with
// instances, as in ../shared/golden/json_schema/real. Each valid instance is followed as Python prints it:
// with the tokenizer's tokens if there is a choice, and with those that the engine forces if there is none.
#include <cstdio>
#include <filesystem>
#include <map>

#include "core/base/error.h"
#include "core/constrained/constraint.h"
#include "tests/support/file_text.h"
#include "tests/support/json_text.h"

namespace quire {
namespace {

using testing::file_text;
using testing::Json;
constexpr size_t kMaxForced = 32;  // after one draw, as in the engine

struct Counts {
  size_t tokens = 0;  // of all texts, as split by the tokenizer
  size_t forced = 0;
  size_t otherwise = 0;  // forced tokens that the tokenizer does not have at the same position
  size_t runs = 0;
  size_t runs_otherwise = 0;
  std::map<std::string, size_t> examples;
};

class Follower {
 public:
  Follower(const Tokenizer& tokenizer, const TokenVocabulary& vocabulary, Counts& counts)
      : tokenizer_(tokenizer), vocabulary_(vocabulary), counts_(counts) {}

  void follow(const std::shared_ptr<const Constraint>& constraint, const std::string& text) {
    const std::map<size_t, TokenId> cut = cut_of(text);
    if (cut.empty()) return;
    Matcher matcher(constraint);
    while (matcher.text().size() < text.size()) {
      const TokenId token = drawn(cut, text, matcher.text().size());
      if (token < 0 || !matcher.accept(token)) return;
      force(cut, text, matcher);
    }
  }

 private:
  // Returns the tokens by their start; none if the tokens do not give the text, for example because of an
  // added leading blank.
  std::map<size_t, TokenId> cut_of(const std::string& text) {
    std::map<size_t, TokenId> cut;
    std::string all;
    for (const TokenId token : tokenizer_.encode(text, {false, false})) {
      cut.emplace(all.size(), token);
      all += vocabulary_.bytes(token);
    }
    if (all != text) return {};
    counts_.tokens += cut.size();
    return cut;
  }

  // Returns the tokenizer's token, or if it has none here, the longest one up to its next token.
  TokenId drawn(const std::map<size_t, TokenId>& cut, std::string_view text, size_t at) const {
    const auto next = cut.lower_bound(at);
    if (next != cut.end() && next->first == at) return next->second;
    const size_t end = next == cut.end() ? text.size() : next->first;
    return vocabulary_.longest(text.substr(at, end - at)).token;
  }

  void force(const std::map<size_t, TokenId>& cut, const std::string& text, Matcher& matcher) {
    TokenIds forced;
    matcher.force(kMaxForced, forced);
    if (forced.empty()) return;
    bool is_otherwise = false;
    for (const TokenId token : forced) {
      const size_t at = matcher.text().size();
      const auto same = cut.find(at);
      ++counts_.forced;
      if (text.compare(at, vocabulary_.bytes(token).size(), vocabulary_.bytes(token)) != 0)
        throw Error(ErrorCode::internal, "the forced token does not match the text");
      matcher.accept(token);
      if (same != cut.end() && same->second == token) continue;
      ++counts_.otherwise;
      is_otherwise = true;
      const size_t before = std::min<size_t>(at, 12);
      ++counts_
            .examples[text.substr(at - before, before) + "[" + std::string(vocabulary_.bytes(token)) + "]"];
    }
    ++counts_.runs;
    counts_.runs_otherwise += is_otherwise ? 1 : 0;
  }

  const Tokenizer& tokenizer_;
  const TokenVocabulary& vocabulary_;
  Counts& counts_;
};

int run(const std::filesystem::path& given, const std::filesystem::path& schemas) {
  const bool is_folder = std::filesystem::is_directory(given);
  const std::string json = is_folder ? file_text(given / "tokenizer.json") : "";
  const std::filesystem::path config_file = given / "tokenizer_config.json";  // may be missing
  const std::string config = std::filesystem::exists(config_file) ? file_text(config_file) : "";
  const std::string model = is_folder ? "" : file_text(given);
  const auto tokenizer = Tokenizer::load({json, config, {}, {}, model, "tokenizer.model"});
  const auto vocabulary = TokenVocabulary::of(tokenizer);
  Counts counts;
  Follower follower(*tokenizer, *vocabulary, counts);
  for (const auto& entry : std::filesystem::directory_iterator(schemas)) {
    const Json test = Json::parse(file_text(entry.path()));
    try {
      const auto constraint =
          Constraint::compile(ConstraintKind::json_schema, test["schema"].dump(), vocabulary);
      for (const Json& value : test["valid"]) follower.follow(constraint, testing::as_python_prints(value));
    } catch (const Error&) {
      continue;  // not supported
    }
  }
  std::printf("%zu tokens, %zu of them forced in %zu runs; cut otherwise: %zu tokens, %zu runs\n",
              counts.tokens, counts.forced, counts.runs, counts.otherwise, counts.runs_otherwise);
  for (const auto& [example, count] : counts.examples)
    if (count > 3) std::printf("%6zu %s\n", count, example.c_str());
  return 0;
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: forced_cut TOKENIZER SCHEMAS\n");
    return 2;
  }
  try {
    return quire::run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "forced_cut: %s\n", error.what());
    return 1;
  }
}
