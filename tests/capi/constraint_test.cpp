// Constraints and matchers through the C interface.
#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

class CapiConstraintTest : public ::testing::Test {
 protected:
  OwnedConstraint make(int32_t kind, const std::string& source) {
    return OwnedConstraint(
        quire_constraint_create(world.model.get(), kind, source.data(), source.size(), report.out()));
  }
  std::vector<int32_t> encode(const std::string& text) {
    std::vector<int32_t> tokens(text.size());
    const int64_t count = quire_model_encode(world.model.get(), text.data(), text.size(), 0, 0, tokens.data(),
                                             tokens.size(), nullptr);
    tokens.resize(static_cast<size_t>(count));
    return tokens;
  }
  bool lets_through(quire_constraint* constraint, const std::string& text) {
    const OwnedMatcher matcher(quire_matcher_create(constraint, nullptr));
    for (const int32_t token : encode(text)) {
      if (quire_matcher_accept(matcher.get(), token, nullptr) != 1) return false;
    }
    return quire_matcher_may_end(matcher.get(), nullptr) == 1;
  }
  World world;
  Report report;
};

TEST_F(CapiConstraintTest, EachKindAcceptsOnlyMatchingTexts) {
  const struct {
    int32_t kind;
    const char* source;
    const char* good;
    const char* bad;
  } cases[] = {{QUIRE_CONSTRAINT_JSON_SCHEMA, R"({"type": "integer"})", "12", "x"},
               {QUIRE_CONSTRAINT_JSON_OBJECT, "", R"({"a": [1, null]})", "[1]"},
               {QUIRE_CONSTRAINT_REGEX, "a+b", "aab", "aa"},
               {QUIRE_CONSTRAINT_CHOICE, R"(["yes", "no"])", "yes", "yesno"},
               {QUIRE_CONSTRAINT_GBNF, "root ::= \"(\" root \")\" | \"x\"", "((x))", "((x)"},
               {QUIRE_CONSTRAINT_LARK, "start: \"(\" start \")\" | \"x\"", "((x))", "((x)"}};
  for (const auto& test : cases) {
    const OwnedConstraint constraint = make(test.kind, test.source);
    ASSERT_TRUE(constraint) << test.source;
    EXPECT_TRUE(lets_through(constraint.get(), test.good)) << test.source;
    EXPECT_FALSE(lets_through(constraint.get(), test.bad)) << test.source;
  }
}

TEST_F(CapiConstraintTest, MatchersFollowTheMeaningOfASchema) {
  const OwnedConstraint constraint =
      make(QUIRE_CONSTRAINT_JSON_SCHEMA, R"({"type": "object", "required": ["b"],
      "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})");
  ASSERT_TRUE(constraint) << report.message();
  EXPECT_TRUE(lets_through(constraint.get(), R"({"b":1, "c": null, "a": 3.0})"));
  EXPECT_FALSE(lets_through(constraint.get(), R"({"a": 3})"));
}

TEST_F(CapiConstraintTest, AnUnsupportedKeywordIsRefusedByName) {
  EXPECT_FALSE(make(QUIRE_CONSTRAINT_JSON_SCHEMA, R"({"unevaluatedItems": false, "contains": {}})"));
  EXPECT_EQ(report.code(), QUIRE_ERROR_UNSUPPORTED);
  EXPECT_NE(report.message().find("unevaluatedItems"), std::string::npos);
}

TEST_F(CapiConstraintTest, TheMaskHasExactlyTheAcceptedTokens) {
  const OwnedConstraint constraint = make(QUIRE_CONSTRAINT_REGEX, "(the|a) [a-z]+");
  const OwnedMatcher matcher(quire_matcher_create(constraint.get(), nullptr));
  std::vector<uint8_t> mask(static_cast<size_t>(quire_matcher_mask(matcher.get(), nullptr, 0, nullptr)));
  ASSERT_EQ(quire_matcher_mask(matcher.get(), mask.data(), mask.size(), nullptr),
            static_cast<int64_t>(mask.size()));
  int num_allowed = 0;
  for (int32_t token = 0; token < static_cast<int32_t>(mask.size() * 8); ++token) {
    const bool allowed = (mask[static_cast<size_t>(token) / 8] >> (token % 8) & 1) != 0;
    const int32_t accepted = quire_matcher_accept(matcher.get(), token, nullptr);
    EXPECT_EQ(accepted, allowed ? 1 : 0) << token;
    if (accepted == 1) {
      EXPECT_EQ(quire_matcher_rollback(matcher.get(), 1, nullptr), 1);
    }
    num_allowed += allowed ? 1 : 0;
  }
  EXPECT_GT(num_allowed, 0);
}

TEST_F(CapiConstraintTest, ForcedTokensAreReturned) {
  const OwnedConstraint constraint = make(QUIRE_CONSTRAINT_REGEX, "once upon a time[.!]");
  const OwnedMatcher matcher(quire_matcher_create(constraint.get(), nullptr));
  std::string text(64, '\0');
  text.resize(
      static_cast<size_t>(quire_matcher_forced_text(matcher.get(), text.data(), text.size(), nullptr)));
  EXPECT_EQ(text, "once upon a time");
}

TEST_F(CapiConstraintTest, RollbackIsLimitedToTheStepsTaken) {
  const OwnedConstraint constraint = make(QUIRE_CONSTRAINT_REGEX, "a+");
  const OwnedMatcher matcher(quire_matcher_create(constraint.get(), nullptr));
  EXPECT_EQ(quire_matcher_rollback(matcher.get(), 1, report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace quire::testing
