// Hostile texts take work proportional to their length. Work is counted, not timed: steps of the merge
// algorithms, and pattern items that PCRE2's interpreter passes while matching.
#include <gtest/gtest.h>
#include <pcre2.h>

#include "core/base/utf8.h"
#include "core/tokenizer/regex_syntax.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

struct Hostile {
  const char* name;
  std::string unit;  // repeated
  std::string tail;
};

const std::vector<Hostile>& hostile_texts() {
  static const auto* texts = new std::vector<Hostile>{
      {"letter", "a", ""},
      {"capital", "A", ""},
      {"caret", "^", ""},
      {"space", " ", ""},
      {"space_then_letter", " ", "x"},
      {"newline", "\n", ""},
      {"newline_then_letter", "\n", "x"},
      {"newline_and_spaces", "\n  ", "x"},
      {"spaces_and_newline", "      \n", " x"},
      {"carriage_return", "\r", "x"},
      {"digit", "7", ""},
      {"apostrophe", "'", ""},
      {"contraction", "'s", ""},
      {"han", "\xe4\xb8\xad", ""},
      {"han_and_capital",
       "\xe4\xb8\xad"
       "A",
       ""},
      {"han_then_capitals", "\xe4\xb8\xad", std::string(500, 'A')},
      {"hangul", "\xea\xb0\x81", ""},
      {"acute", "\xcc\x81", ""},
      {"acute_and_dot_below", "\xcc\x81\xcc\xa3", ""},
      {"ideographic_space", "\xe3\x80\x80", "x"},
      {"emoji", "\xf0\x9f\x98\x80", ""},
      {"nul", std::string(1, '\0'), ""},
      {"almost_special", "<|im_start|", ""},
      {"mixed", "a1 \n'", ""},
  };
  return *texts;
}

std::string repeat(const Hostile& hostile, size_t num_units) {
  std::string text;
  for (size_t i = 0; i < num_units; ++i) text += hostile.unit;
  return text + hostile.tail;
}

// Patterns of the golden tokenizers, in PCRE2 syntax.
std::vector<std::string> golden_patterns() {
  std::vector<std::string> patterns;
  for (const auto& kind : byte_level_kinds()) {
    const Json json = Json::parse(read_golden(kind + "/tokenizer.json"));
    const Json& pre_tokenizer = json["pre_tokenizer"];
    if (!pre_tokenizer.contains("pretokenizers")) continue;
    for (const Json& step : pre_tokenizer["pretokenizers"]) {
      if (step["type"] == "Split") {
        patterns.push_back(to_pcre2(step["pattern"]["Regex"].get<std::string>(), "pattern"));
      }
    }
  }
  return patterns;
}

int count_callout(pcre2_callout_block*, void* counter) {
  ++*static_cast<uint64_t*>(counter);
  return 0;
}

// Returns how many pattern items are passed until the text is split completely.
uint64_t count_steps(const std::string& pattern, const std::string& text) {
  int error = 0;
  size_t offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_AUTO_CALLOUT, &error, &offset, nullptr);
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  uint64_t num_steps = 0;
  pcre2_set_callout(context, count_callout, &num_steps);
  for (size_t pos = 0; pos < text.size();) {
    const int rc = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), pos,
                               PCRE2_NO_JIT | PCRE2_NO_UTF_CHECK, match, context);
    if (rc < 0) {
      EXPECT_EQ(rc, PCRE2_ERROR_NOMATCH);
      break;
    }
    pos = pcre2_get_ovector_pointer(match)[1];
  }
  pcre2_match_context_free(context);
  pcre2_match_data_free(match);
  pcre2_code_free(code);
  return num_steps;
}

TEST(Scaling, PatternsTakeLinearSteps) {
  const auto patterns = golden_patterns();
  ASSERT_EQ(patterns.size(), 7U);
  for (const std::string& pattern : patterns) {
    for (const Hostile& hostile : hostile_texts()) {
      const uint64_t once = count_steps(pattern, repeat(hostile, 4000));
      const uint64_t twice = count_steps(pattern, repeat(hostile, 8000));
      EXPECT_LE(static_cast<double>(twice), 2.1 * static_cast<double>(once) + 100)
          << hostile.name << ": " << pattern;
    }
  }
}

TEST(Scaling, MergesTakeNearlyLinearSteps) {
  constexpr size_t kNum = 30000 / testing::stride_if_sanitized(10);
  for (const auto& kind : golden_kinds()) {
    const auto tokenizer = load_golden(kind);
    for (const Hostile& hostile : hostile_texts()) {
      SCOPED_TRACE(kind + ": " + hostile.name);
      const std::string text = repeat(hostile, kNum);
      const EncodeResult once = tokenizer->encode_counted(text, {});
      const EncodeResult twice = tokenizer->encode_counted(repeat(hostile, 2 * kNum), {});
      EXPECT_LE(once.work.num_merge_steps, 4 * text.size());
      EXPECT_LE(static_cast<double>(twice.work.num_merge_steps),
                2.1 * static_cast<double>(once.work.num_merge_steps) + 100);
      EXPECT_LE(once.work.num_regex_steps, 64 * text.size() + 100000);
    }
  }
}

// Text that would take minutes if any step looked back, ahead or across it more than once.
TEST(Scaling, HostileTextsOfEveryPartAreEncoded) {
  constexpr size_t kNum = (1U << 19) / testing::stride_if_sanitized(8);
  Json strips = added_token(300, "\n", false);
  strips["rstrip"] = true;
  strips["lstrip"] = true;
  Json many = tiny_tokenizer();
  for (int i = 0; i < 500; ++i)
    many["added_tokens"].push_back(added_token(300 + i, std::string(12 + i, 'a') + "!", false));
  Json white = tiny_tokenizer();
  white["added_tokens"] = Json::array({strips});
  EXPECT_EQ(load_json(many)->encode(std::string(kNum, 'a')).size(), kNum);
  EXPECT_GE(load_json(white)->encode(std::string(kNum, '\n')).size(), 1U);

  const Json word = {{"type", "WordPiece"},
                     {"unk_token", "?"},
                     {"max_input_chars_per_word", 1 << 30},
                     {"continuing_subword_prefix", "##"},
                     {"vocab", {{"?", 0}, {"a", 1}, {"##a", 2}, {"##" + std::string(500, 'a') + "b", 3}}}};
  EXPECT_EQ(load_json({{"model", word}})->encode(std::string(kNum / 8, 'a')).size(), kNum / 8);
  Json pieces = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", Json::array()}};
  for (const std::string& token : {std::string("?"), std::string("a"), std::string(500, 'a') + "b"}) {
    pieces["vocab"].push_back(Json::array({token, -1.0}));
  }
  EXPECT_EQ(load_json({{"model", pieces}})->encode(std::string(kNum / 8, 'a')).size(), kNum / 8);
}

// A megabyte of each hostile text is encoded and decoded.
TEST(Scaling, LongTextsSurviveARoundTrip) {
  for (const std::string kind : {"llama3", "o200k"}) {
    const auto tokenizer = load_golden(kind);
    for (const Hostile& hostile : hostile_texts()) {
      const std::string text =
          repeat(hostile, (1U << 20) / testing::stride_if_sanitized(16) / hostile.unit.size());
      EXPECT_TRUE(tokenizer->decode(tokenizer->encode(text), false) == text) << kind << ": " << hostile.name;
    }
  }
}

}  // namespace
}  // namespace quire
