// Pieces of texts by the tokenizers of published families, and by small patterns with one construct each. The
// expected pieces are from the libraries that the patterns are written for.
#include <filesystem>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/tokenizer/component_loader.h"
#include "core/tokenizer/encode_scratch.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"

namespace quire {
namespace {

using Texts = std::vector<std::string>;

const Json& golden_splits() {
  static const auto* file = new Json(Json::parse(read_golden("../patterns/splits.json")));
  return *file;
}

class CollectingSink final : public PieceSink {
 public:
  void piece(const TextPiece& piece) override { pieces.emplace_back(piece.text); }
  Texts pieces;
};

Texts pieces_by(const PreTokenizer& splitter, const std::string& text) {
  EncodeScratch scratch(text.size());
  CollectingSink sink;
  if (!text.empty()) splitter.split({text, true}, scratch, sink);
  return sink.pieces;
}

enum class Search { machine_code, interpreter };

Regex compile_for(const std::string& pattern, RegexDialect dialect, Search search) {
  Regex regex(pattern, "pattern", dialect);
  if (search == Search::interpreter) regex.use_interpreter();
  return regex;
}

// Returns the matches, without the text between them.
Texts matches_of(const Regex& regex, const std::string& text) {
  RegexScratch scratch(text.size());
  RegexMatches found(regex, text, scratch);
  Texts pieces;
  while (const auto match = found.next())
    if (match->begin < match->end) pieces.push_back(text.substr(match->begin, match->end - match->begin));
  return pieces;
}

TEST(PublishedPatterns, OfTokenizerJsonSplitLikeItsLibrary) {
  ASSERT_GE(golden_splits()["oniguruma"].size(), 25U);
  for (const Json& family : golden_splits()["oniguruma"]) {
    SCOPED_TRACE(family["name"].get<std::string>());
    const std::string text = Json{{"type", "Sequence"}, {"pretokenizers", family["steps"]}}.dump();
    const JsonValue json = parse_json(text, "tokenizer.json");
    const auto splitter = load_pre_tokenizer(JsonView(json, "pre_tokenizer"), false).pre_tokenizer;
    for (size_t i = 0; i < golden_splits()["texts"].size(); ++i) {
      const auto sample = golden_splits()["texts"][i].get<std::string>();
      EXPECT_EQ(pieces_by(*splitter, sample), family["pieces"][i].get<Texts>()) << sample;
    }
  }
}

TEST(PublishedPatterns, OfTiktokenAndTekkenSplitLikeTheirLibrary) {
  ASSERT_GE(golden_splits()["rust"].size(), 6U);
  for (const Json& family : golden_splits()["rust"]) {
    SCOPED_TRACE(family["name"].get<std::string>());
    const Regex regex = compile_for(family["pattern"], RegexDialect::rust, Search::machine_code);
    for (size_t i = 0; i < golden_splits()["texts"].size(); ++i) {
      const auto sample = golden_splits()["texts"][i].get<std::string>();
      EXPECT_EQ(matches_of(regex, sample), family["pieces"][i].get<Texts>()) << sample;
    }
  }
}

void expect_construct(const Json& construct, Search search) {
  const auto pattern = construct["pattern"].get<std::string>();
  for (size_t i = 0; i < golden_splits()["construct_texts"].size(); ++i) {
    const auto text = golden_splits()["construct_texts"][i].get<std::string>();
    SCOPED_TRACE(pattern + " on " + text);
    if (!construct["oniguruma"].is_null()) {
      const SplitPreTokenizer splitter(compile_for(pattern, RegexDialect::oniguruma, search),
                                       SplitBehavior::isolated, false);
      EXPECT_EQ(pieces_by(splitter, text), construct["oniguruma"][i].get<Texts>());
    }
    if (!construct["rust"].is_null()) {
      EXPECT_EQ(matches_of(compile_for(pattern, RegexDialect::rust, search), text),
                construct["rust"][i].get<Texts>());
    }
  }
}

TEST(PatternConstructs, MatchLikeBothLibraries) {
  ASSERT_GE(golden_splits()["constructs"].size(), 40U);
  for (const Json& construct : golden_splits()["constructs"]) {
    expect_construct(construct, Search::machine_code);
    expect_construct(construct, Search::interpreter);
  }
}

// A search that exceeds its free steps goes on position by position, and its start stays the same.
TEST(PatternConstructs, TheStartOfASearchStaysWhereItBegan) {
  for (const Search search : {Search::machine_code, Search::interpreter}) {
    const Regex regex = compile_for(R"(\Gx|(?:a+)+[bc]|y)", RegexDialect::oniguruma, search);
    const std::string text = "x" + std::string(16, 'a') + "xy";
    EXPECT_EQ(matches_of(regex, text), (Texts{"x", "y"}));
  }
}

TEST(PatternConstructs, SetsOfCharactersAreBoundedInTime) {
  for (const Search search : {Search::machine_code, Search::interpreter}) {
    const Regex regex = compile_for(R"((?:[a-z&&[^x]]+)+[^\W\d_]\b[0-9])", RegexDialect::oniguruma, search);
    const std::string text(3000, 'a');
    RegexScratch scratch(text.size());
    EXPECT_THROW(regex.find(text, 0, scratch), Error);
  }
}

// A character that two members of a class match is tried once.
TEST(PatternConstructs, OverlappingMembersOfAClassCostNothing) {
  for (const Search search : {Search::machine_code, Search::interpreter}) {
    for (const char* const pattern : {R"([3\P{N}\w]{2,}!)", R"([\W\D]+!)", R"([[^b]\S]+?!)"}) {
      const Regex regex = compile_for(pattern, RegexDialect::oniguruma, search);
      EXPECT_EQ(matches_of(regex, std::string(60, 'a')), Texts{}) << pattern;
    }
  }
}

// Each operation doubles the pattern, and each boundary adds its classes to it.
TEST(PatternConstructs, TranslationsAreBoundedInSize) {
  std::string differences = "[a";
  for (int i = 0; i < 200; ++i) differences += "~~[^b]";
  std::string boundaries;
  for (int i = 0; i < 8000; ++i) boundaries += "\\b";
  for (const std::string& pattern : {differences + "]", boundaries}) {
    EXPECT_THROW(compile_for(pattern, RegexDialect::rust, Search::interpreter), Error);
  }
}

// Tokenizers of SentencePiece have no pattern.
TEST(PublishedPatterns, AreKnownForPublishedDirectories) {
  size_t num_found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(QUIRE_TEST_DATA "/published_names")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".json")) continue;
    const Json directory = Json::parse(read_golden("../published_names/" + name));
    const Json split = directory.value("split", Json("SentencePiece"));
    if (!split.is_array()) continue;
    const Json& rows = golden_splits()[split[0].get<std::string>()];
    EXPECT_TRUE(
        std::any_of(rows.begin(), rows.end(), [&](const Json& row) { return row["name"] == split[1]; }))
        << name << ": " << split;
    ++num_found;
  }
  EXPECT_GE(num_found, 15U);
}

// A long word without a place to split it, as in base64 text.
TEST(PublishedPatterns, OfKimiTakeLongWords) {
  for (const Json& family : golden_splits()["rust"]) {
    if (family["name"] != "Kimi K2") continue;
    const std::string text(20000, 'a');
    EXPECT_EQ(
        matches_of(compile_for(family["pattern"], RegexDialect::rust, Search::machine_code), text).size(),
        1U);
  }
}

}  // namespace
}  // namespace quire
