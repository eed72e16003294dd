#include "core/tokenizer/regex.h"

#include <random>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/tokenizer/pre_tokenizer.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"

namespace quire {
namespace {

std::vector<size_t> all_ends(const Regex& regex, const std::string& text) {
  RegexScratch scratch(text.size());
  RegexMatches matches(regex, text, scratch);
  std::vector<size_t> ends;
  while (const auto match = matches.next()) ends.push_back(match->end);
  return ends;
}

std::string random_parts(std::mt19937& random, size_t num_characters) {
  static const std::vector<std::string> kParts = {" ",
                                                  "  ",
                                                  "\n",
                                                  "\r\n",
                                                  "\t",
                                                  "a",
                                                  "Z",
                                                  "'s",
                                                  "'LL",
                                                  "1",
                                                  "23",
                                                  ".",
                                                  "-",
                                                  utf8(U"\u00e9"),
                                                  utf8(U"\u4e2d"),
                                                  utf8(U"\u3000"),
                                                  utf8(U"\u0301"),
                                                  utf8(U"\U0001f600"),
                                                  utf8(U"\u180e"),
                                                  utf8(U"\u0967")};
  std::string text;
  for (size_t i = 0; i < num_characters; ++i) text += kParts[random() % kParts.size()];
  return text;
}

TEST(Regex, InterpreterAndMachineCodeAgree) {
  std::mt19937 random(7);
  const Regex compiled(byte_level_pattern(), "pattern");
  Regex interpreted(byte_level_pattern(), "pattern");
  interpreted.use_interpreter();
  EXPECT_FALSE(interpreted.is_compiled_to_machine_code());
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_parts(random, random() % 60);
    EXPECT_EQ(all_ends(compiled, text), all_ends(interpreted, text)) << text;
  }
}

// The search by position with growing limits finds the same matches as a single search.
TEST(Regex, SlowSearchOfLongRunsFindsTheSameMatches) {
  for (const bool interpret : {false, true}) {
    Regex regex(R"(\s*[\r\n]+|\s+(?!\S)|\s+|\S+)", "pattern");
    if (interpret) regex.use_interpreter();
    const std::string text = "ab" + std::string(50000, ' ') + "cd" + std::string(50000, '\t') + "\n  x";
    EXPECT_EQ(all_ends(regex, text),
              (std::vector<size_t>{2, 50001, 50002, 50004, 100005, 100006, 100007, 100008}));
    RegexScratch scratch(text.size());
    RegexMatches matches(regex, text, scratch);
    while (matches.next()) {
    }
    EXPECT_GT(scratch.num_steps(), 0U);
  }
}

// Patterns with exponential or quadratic time end in an Error once the budget is used up.
TEST(Regex, RunawayPatternsAreStopped) {
  for (const std::string pattern :
       {"(?:a+)+[bc]", "(?:a|a)*[bc]", "(?:a*)*[bc]", "(?:a?){30}(?:a){30}[bc]"}) {
    for (const bool interpret : {false, true}) {
      Regex regex(pattern, "field");
      if (interpret) regex.use_interpreter();
      const std::string text(3000, 'a');
      RegexScratch scratch(text.size());
      try {
        regex.find(text, 0, scratch);
        ADD_FAILURE() << pattern;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
        EXPECT_EQ(std::string(error.what()).find("field: "), 0U);
      }
    }
  }
}

TEST(Regex, DeepGroupsUseLimitedMemory) {
  for (const bool interpret : {false, true}) {
    Regex regex("(?:ab|a)+", "field");
    if (interpret) regex.use_interpreter();
    const std::string text(2000, 'a');
    RegexScratch scratch(text.size());
    const auto match = regex.find(text, 0, scratch);
    ASSERT_TRUE(match);
    EXPECT_EQ(match->end, text.size());
    const std::string long_text(5000000, 'a');  // matches everything or is refused
    RegexScratch long_scratch(long_text.size());
    try {
      EXPECT_EQ(regex.find(long_text, 0, long_scratch)->end, long_text.size());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
    }
  }
}

TEST(Regex, HandlesEmptyTextAndEmptyMatches) {
  EXPECT_EQ(all_ends(Regex("a*", "p"), ""), std::vector<size_t>{0});
  EXPECT_EQ(all_ends(Regex("a+", "p"), ""), std::vector<size_t>{});
  EXPECT_EQ(all_ends(Regex("a*", "p"), "baab"), (std::vector<size_t>{0, 3, 4}));
  EXPECT_EQ(all_ends(Regex("", "p"), utf8(U"\u00e9\u4e2d")), (std::vector<size_t>{0, 2, 5}));
}

}  // namespace
}  // namespace quire
