// Sources of grammars and patterns: what their notations mean, and the places that errors name.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/constrained/constraint_fixture.h"
#include "tests/core/constrained/expect_refusal.h"

namespace quire {
namespace {

TEST(GrammarSource, ErrorsNameLineColumnAndCharacter) {
  const auto expect_place = [](ConstraintKind kind, const std::string& source, const std::string& place) {
    expect_refusal(kind, source, ErrorCode::format, place);
  };
  expect_place(ConstraintKind::gbnf, "root ::= \"a\" b\nb ::= \"\u00e4\" $", "line 2, column 11, at \"$\"");
  expect_place(ConstraintKind::gbnf, "root ::= \"a\"\n  | other", "line 2, column 5, at \"o\"");
  expect_place(ConstraintKind::gbnf, "root ::= [a", "line 1, column 12, at the end");
  expect_place(ConstraintKind::gbnf, "root ::= \"a\"{x}", "line 1, column 14, at \"x\"");
  expect_place(ConstraintKind::lark, "start: A\nA: \"a\" $", "line 2, column 8, at \"$\"");
  expect_place(ConstraintKind::lark, "start: missing", "line 1, column 8, at \"m\"");
  expect_place(ConstraintKind::lark, "start: \"x\"\n  /a(b/", "line 2, column 3, at \"/\"");
  expect_place(ConstraintKind::lark, "start: %json {\"type\": }", "line 1, column 10, at \"}\"");
  expect_place(ConstraintKind::regex, "ab(c", "line 1, column 5, at the end");
  expect_place(ConstraintKind::regex, "\u00e4*b)", "line 1, column 4, at \")\"");
  expect_place(ConstraintKind::json_schema, "{\"type\":\n  object}", "line 2, column 3, at \"o\"");
  expect_refusal(ConstraintKind::gbnf, "root ::= (= \"a\")", ErrorCode::unsupported, "line 1, column 11");
}

// A source that ends anywhere, after a backslash too, is compiled or refused.
TEST(GrammarSource, EveryBeginningIsReadOrRefused) {
  const auto read_beginnings = [](ConstraintKind kind, const std::string& source) {
    for (size_t length = 0; length <= source.size(); ++length) {
      try {
        compile(kind, source.substr(0, length));
      } catch (const Error& error) {
        EXPECT_NE(error.code(), ErrorCode::internal) << source.substr(0, length);
      }
    }
  };
  read_beginnings(ConstraintKind::lark,
                  "start: A \"\\n\\\\\" | B\nA: /x\\/[\\]]/i\nB: \"a\"..\"\\t\"\n%ignore /\\s/\n");
  read_beginnings(ConstraintKind::gbnf, "root ::= \"\\n\\\\\" [\\]\\x41-\\u0042] # c\n| \"\\\"\"");
  read_beginnings(ConstraintKind::regex, "(?:\\d|[\\]\\x41])\\\\{2,3}\\u{1F600}");
}

TEST(GrammarSource, LarkCombinesTerminalsWithAndAndNot) {
  const auto words = compile(ConstraintKind::lark, "start: WORD\nWORD: /[a-z]+/ & ~/.*foo.*/\n");
  EXPECT_TRUE(accepts_tokens(words, "abc"));
  EXPECT_FALSE(accepts_tokens(words, "xfoo"));
  EXPECT_FALSE(accepts_tokens(words, "foobar"));
  EXPECT_TRUE(accepts_tokens(words, "fobar"));
  const auto names =
      compile(ConstraintKind::lark,
              "start: NAME \"=\" NAME\nNAME: LETTERS & ~(\"if\" | \"else\") | \"9\"\nLETTERS: /[a-z]+/");
  EXPECT_TRUE(accepts(names, "iff=9"));
  EXPECT_FALSE(accepts(names, "if=x"));
  EXPECT_FALSE(accepts(names, "x=else"));
  // ~ binds more tightly than +, and a count after it is a repetition.
  const auto repeated = compile(ConstraintKind::lark, "start: A\nA: ~/b/+ & /[ab]*/\n");
  EXPECT_TRUE(accepts(repeated, "bb")) << "two texts that are not b";
  const auto counted = compile(ConstraintKind::lark, "start: \"a\" ~ 2..3 \"b\"");
  EXPECT_TRUE(accepts(counted, "aab") && accepts(counted, "aaab") && !accepts(counted, "ab"));
  const auto ignoring = compile(ConstraintKind::lark, "%ignore \" \"\nstart: (/[a-c ]+/ & ~/.*b.*/) \"!\"");
  EXPECT_TRUE(accepts(ignoring, "a c !"));
  EXPECT_FALSE(accepts(ignoring, "a b!"));
  expect_refusal(ConstraintKind::lark, "start: %json {} & /a/", ErrorCode::unsupported, "& or ~");
  expect_refusal(ConstraintKind::lark, "start: a & /x/\na: \"(\" a \")\" | \"x\"", ErrorCode::unsupported,
                 "& or ~");
}

TEST(GrammarSource, LarkNamesSchemasAndTheirParts) {
  const auto constraint =
      compile(ConstraintKind::lark, R"(%schema s {"properties": {"a": {"$ref": "#/$defs/n"}},
    "$defs": {"n": {"type": "integer", "maximum": 9}}}
start: %json s "#/properties/a" ";" %json s)");
  EXPECT_TRUE(accepts(constraint, R"(7;{"a": 8})"));
  EXPECT_FALSE(accepts(constraint, R"(17;{"a": 8})"));
  EXPECT_FALSE(accepts(constraint, R"(7;{"a": 18})"));
  expect_refusal(ConstraintKind::lark, "start: %json s", ErrorCode::format, "line 1, column 14");
}

TEST(GrammarSource, GbnfRepeatsAfterWhiteSpace) {
  const auto constraint = compile(ConstraintKind::gbnf, R"(root ::= "a" + [0-9] {2})");
  EXPECT_TRUE(accepts_tokens(constraint, "aa12"));
  EXPECT_FALSE(accepts_tokens(constraint, "aa1"));
  EXPECT_FALSE(accepts_tokens(constraint, "12"));
  const auto counts = compile(ConstraintKind::gbnf, "root ::= (\"x\" | [yz]) {1, 2} \"-\" ?\n  [0-9] *");
  EXPECT_TRUE(accepts(counts, "xy-12") && accepts(counts, "z") && !accepts(counts, "xyz"));
}

TEST(GrammarSource, PatternsHaveFlagsOfOneGroup) {
  const auto pattern = compile(ConstraintKind::regex, "a(?i:bc)d(?s:.)(.)");
  EXPECT_TRUE(accepts(pattern, "aBcd\nx"));
  EXPECT_FALSE(accepts(pattern, "aBCD\nx"));
  EXPECT_FALSE(accepts(pattern, "abcdx\n"));
}

}  // namespace
}  // namespace quire
