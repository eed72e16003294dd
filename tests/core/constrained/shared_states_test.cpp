// Texts of one compiled constraint: each has the masks and the limits that it has alone.
#include <filesystem>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/constrained/constraint_fixture.h"
#include "tests/support/case_stride.h"
#include "tests/support/golden_folders.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUniqueWords =
    R"({"type": "array", "uniqueItems": true, "items": {"type": "string", "maxLength": 9}})";

std::shared_ptr<const Constraint> with_limits(const char* schema, const ConstraintLimits& limits) {
  static const auto* const vocabulary = new std::shared_ptr<const TokenVocabulary>(small_vocabulary());
  return Constraint::compile(ConstraintKind::json_schema, schema, *vocabulary, limits);
}

// The items of a text differ from those of the other texts.
std::string item(size_t text, int number) {
  return fmt::format("\"{}w{}\"", static_cast<char>('a' + text), number);
}

// Reads one more item with masks. Returns false if the text has reached a limit.
bool read_item(Matcher& matcher, size_t text, int number) {
  TokenBits mask(matcher.constraint().vocabulary().num_words());
  try {
    matcher.mask(mask);
    EXPECT_TRUE(matcher.accept_text((number == 0 ? "[" : ", ") + item(text, number)));
    matcher.mask(mask);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::capacity) << error.what();
    return false;
  }
  return true;
}

// Returns how many items each text has before it reaches a limit; at most 500. The texts take turns.
std::vector<int> lengths_of(const std::vector<size_t>& texts, const ConstraintLimits& limits) {
  const auto constraint = with_limits(kUniqueWords, limits);
  std::vector<Matcher> matchers(texts.size(), Matcher(constraint));
  std::vector<int> lengths(texts.size());
  std::vector<bool> ended(texts.size());
  for (int number = 0; number < 500; ++number) {
    for (size_t i = 0; i < texts.size(); ++i) {
      ended[i] = ended[i] || !read_item(matchers[i], texts[i], number);
      if (!ended[i]) ++lengths[i];
    }
  }
  return lengths;
}

// Returns limits that a text of this one fits into whenever it fits into the returned ones.
ConstraintLimits tighter(ConstraintLimits limits) {
  limits.max_states = limits.max_states * 4 / 5;
  limits.max_items = limits.max_items * 4 / 5;
  limits.max_bytes = limits.max_bytes * 4 / 5;
  return limits;
}

TEST(SharedStates, ATextWithinItsLimitsDoesNotEndBecauseOfOthers) {
  ConstraintLimits few_states;
  few_states.max_states = 800;
  ConstraintLimits few_items;
  few_items.max_items = 300 / testing::stride_if_sanitized(3);
  std::vector<size_t> others = {0, 1, 2, 3, 4, 5, 6, 7};
  others.resize(others.size() / testing::stride_if_sanitized(4));
  for (const ConstraintLimits& limits : {few_states, few_items}) {
    const int fitting = lengths_of({0}, tighter(limits))[0];
    EXPECT_GT(fitting, 10);
    for (const int length : lengths_of(others, limits)) {
      EXPECT_GE(length, fitting);
      EXPECT_LE(length, 2 * fitting) << "the limits bound a text";
    }
  }
}

TEST(SharedStates, MemoryIsBoundedAndDroppedStatesAreMadeAgain) {
  ConstraintLimits limits;
  limits.max_bytes = 300U << 10;
  const auto constraint = with_limits(kUniqueWords, limits);
  std::vector<Matcher> matchers(10, Matcher(constraint));
  for (int number = 0; number < 12; ++number) {
    for (size_t i = 0; i < matchers.size(); ++i) ASSERT_TRUE(read_item(matchers[i], i, number)) << number;
    EXPECT_LE(constraint->held_bytes(), 4 * limits.max_bytes);
  }
  for (Matcher& matcher : matchers) {
    EXPECT_FALSE(Matcher(matcher).accept_text(", \"aw1\", \"aw1\""));
    matcher.rollback(7);
    EXPECT_TRUE(matcher.accept_text("]"));
  }
  const std::string first = matchers[0].text();
  EXPECT_TRUE(first.ends_with("\"aw4\"]")) << first;
  matchers.clear();
  EXPECT_LE(constraint->held_bytes(), limits.max_bytes);
}

TEST(SharedStates, AMoveKeepsTokensAndEndsOfTheText) {
  ConstraintLimits limits;
  limits.max_states = 400;
  const auto vocabulary = small_vocabulary();
  const auto constraint = Constraint::compile(ConstraintKind::gbnf,
                                              "root ::= <think> ([a-z]{4,9} \" \" [0-9]{3,7} <think>)* \".\"",
                                              vocabulary, limits);
  const TokenId think = vocabulary->find_special("<think>");
  const auto read_word = [&](Matcher& matcher, const std::string& word) {
    return matcher.accept_text(word + " 12345") && matcher.accept(think);
  };
  Matcher ended(constraint);
  ASSERT_TRUE(ended.accept(think) && ended.accept_text(".") && ended.accept(vocabulary->ends()[0]));
  Matcher first(constraint);
  ASSERT_TRUE(first.accept(think) && read_word(first, "first"));
  TokenBits before(vocabulary->num_words());
  first.mask(before);
  for (int i = 0; i < 30; ++i) {
    Matcher other(constraint);
    ASSERT_TRUE(other.accept(think) && read_word(other, "other"));
    TokenBits mask(vocabulary->num_words());
    other.mask(mask);
    EXPECT_EQ(mask, before);
    first.mask(mask);
    EXPECT_EQ(mask, before);
  }
  EXPECT_TRUE(read_word(first, "again"));
  first.rollback(3);
  EXPECT_EQ(first.num_steps(), 2U);
  EXPECT_FALSE(first.accept_text("word"));
  EXPECT_TRUE(first.accept(think));
  EXPECT_TRUE(ended.has_ended());
  ended.rollback(1);
  EXPECT_TRUE(ended.may_end());
}

// A walk over the vocabulary counts also if an earlier mask has made it.
TEST(SharedStates, TheStepsOfAMaskDoNotDependOnEarlierMasks) {
  ConstraintLimits limits;
  limits.max_mask_steps = 600;
  const auto constraint =
      with_limits(R"({"type": ["object", "array", "string"], "required": ["name"]})", limits);
  TokenBits mask(constraint->vocabulary().num_words());
  for (int i = 0; i < 5; ++i) EXPECT_THROW(Matcher(constraint).mask(mask), Error) << i;
}

// Chooses one of the allowed tokens at random; prefers bytes that close something once the text is long.
TokenId draw(const TokenBits& mask, size_t num_steps, std::mt19937& random) {
  std::vector<TokenId> allowed;
  for (size_t i = 0; i < mask.size() * 32; ++i) {
    if ((mask[i / 32] >> (i % 32) & 1) != 0) allowed.push_back(static_cast<TokenId>(i));
  }
  if (num_steps > 25) {
    for (const char byte : std::string_view("\"}]")) {
      const TokenId token = static_cast<uint8_t>(byte);
      if (std::find(allowed.begin(), allowed.end(), token) != allowed.end()) return token;
    }
  }
  return allowed.empty() ? -1 : allowed[random() % allowed.size()];
}

struct Writer {
  Writer(const std::shared_ptr<const Constraint>& constraint, uint32_t seed)
      : matcher(constraint), random(seed) {}

  // Returns false after the end of the text.
  bool step() {
    TokenBits mask(matcher.constraint().vocabulary().num_words());
    matcher.mask(mask);
    const TokenId token = draw(mask, matcher.num_steps(), random);
    masks.push_back(std::move(mask));
    if (token < 0 || matcher.num_steps() >= 40) return false;
    EXPECT_TRUE(matcher.accept(token));
    return true;
  }

  Matcher matcher;
  std::mt19937 random;
  std::vector<TokenBits> masks;
};

void expect_texts_as_alone(const std::string& schema, const std::string& name) {
  constexpr uint32_t kNumTexts = 64;
  const auto shared = compile(ConstraintKind::json_schema, schema);
  std::vector<Writer> writers;
  for (uint32_t i = 0; i < kNumTexts; ++i) writers.emplace_back(shared, i);
  for (bool any = true; any;) {
    any = false;
    for (Writer& writer : writers)
      any = (writer.masks.size() <= writer.matcher.num_steps() && writer.step()) || any;
  }
  for (uint32_t i = 0; i < kNumTexts; ++i) {
    Writer alone(compile(ConstraintKind::json_schema, schema), i);
    while (alone.step()) continue;
    ASSERT_EQ(alone.matcher.text(), writers[i].matcher.text()) << name << ", text " << i;
    ASSERT_EQ(alone.masks, writers[i].masks) << name << ", text " << i << ": " << alone.matcher.text();
  }
}

TEST(SharedStates, SixtyFourTextsHaveTheMasksOfEachAlone) {
  const std::vector<std::string> schemas = {
      R"({"type": "array", "uniqueItems": true, "items": {"enum": ["a", "ab", "b", 1, 10, null]}})",
      R"({"type": "array", "uniqueItems": true, "items": {"type": ["string", "number"], "maxLength": 4}})",
      R"({"type": "object", "minProperties": 2, "properties": {"a": {"type": "integer", "minimum": 3}},
          "patternProperties": {"^b": {"type": "string", "pattern": "^[a-f]{2,5}$"}}})",
      R"({"type": "object", "required": ["id", "kind"], "properties": {"id": {"type": "integer"},
          "kind": {"enum": ["one", "other"]}, "children": {"type": "array", "items": {"$ref": "#"}}},
          "if": {"properties": {"kind": {"const": "one"}}}, "then": {"required": ["children"]}})"};
  for (const std::string& schema : schemas) expect_texts_as_alone(schema, schema);
}

TEST(SharedStates, TextsOfRealSchemasHaveTheMasksOfEachAlone) {
  for (const std::string& folder : testing::golden_folders("json_schema")) {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder + "/real")) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (size_t i = 0; i < files.size(); i += 25 * testing::stride_if_sanitized(3)) {
      const std::string schema = read_json_file(files[i])["schema"].dump();
      if (schema.size() > 6000) continue;
      ASSERT_NO_FATAL_FAILURE(expect_texts_as_alone(schema, files[i]));
    }
  }
}

}  // namespace
}  // namespace quire
