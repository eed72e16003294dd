// Matchers: masks compared with steps, rollback, random texts under masks, limits.
#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/constrained/constraint_cache.h"
#include "tests/core/constrained/constraint_fixture.h"
#include "tests/core/constrained/expect_refusal.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

std::vector<TokenId> allowed_tokens(const Matcher& matcher) {
  TokenBits mask(matcher.constraint().vocabulary().num_words());
  matcher.mask(mask);
  std::vector<TokenId> tokens;
  for (size_t i = 0; i < matcher.constraint().vocabulary().size(); ++i) {
    if ((mask[i / 32] >> (i % 32) & 1) != 0) tokens.push_back(static_cast<TokenId>(i));
  }
  return tokens;
}

void expect_mask_of_what_steps_accept(const Matcher& matcher) {
  const std::vector<TokenId> allowed = allowed_tokens(matcher);
  for (size_t i = 0; i < matcher.constraint().vocabulary().size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    Matcher next = matcher;
    ASSERT_EQ(next.accept(token), std::binary_search(allowed.begin(), allowed.end(), token))
        << "after " << matcher.text() << ": token " << i;
  }
}

// Generates a text of random tokens; once it is long, prefers to end or to close brackets.
std::string random_text(const std::shared_ptr<const Constraint>& constraint, std::mt19937& random) {
  Matcher matcher(constraint);
  while (!matcher.has_ended()) {
    const std::vector<TokenId> tokens = allowed_tokens(matcher);
    if (tokens.empty()) return matcher.text() + " (cannot continue)";
    TokenId token = tokens[random() % tokens.size()];
    if (matcher.num_steps() > 60) {
      if (matcher.may_end()) break;
      const auto has = [&tokens](char byte) {
        return std::binary_search(tokens.begin(), tokens.end(), TokenId{static_cast<uint8_t>(byte)});
      };
      const std::string_view wanted = has('Q') ? "\"" : "}]),";  // a letter: within a string
      for (const char byte : wanted) {
        if (!has(byte)) continue;
        token = static_cast<uint8_t>(byte);
        break;
      }
    }
    EXPECT_TRUE(matcher.accept(token));
    if (matcher.num_steps() > 5000) return matcher.text() + " (no end)";
  }
  return matcher.text();
}

bool is_valid_order(const Json& value) {
  if (!value.is_object() || !value.contains("id") || !value["id"].is_number_integer()) return false;
  for (const auto& [key, member] : value.items()) {
    if (key == "id" && member.get<int64_t>() < 1) return false;
    if (key == "tags") {
      if (!member.is_array() || member.size() > 3) return false;
      for (size_t i = 0; i < member.size(); ++i) {
        if (!member[i].is_string()) return false;
        for (size_t j = 0; j < i; ++j) {
          if (member[i] == member[j]) return false;
        }
      }
    }
    if (key == "kind" && member != "a" && member != "b") return false;
    if (key != "id" && key != "tags" && key != "kind" && !member.is_boolean()) return false;
  }
  return value.value("kind", "") != "b" || value.contains("tags");
}

TEST(Constraint, RandomTextsOfASchemaAreValidAndEnd) {
  const auto constraint = compile(ConstraintKind::json_schema, R"({
      "type": "object",
      "properties": {"id": {"type": "integer", "minimum": 1, "maximum": 99999},
                     "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3, "uniqueItems": true},
                     "kind": {"enum": ["a", "b"]}},
      "required": ["id"], "additionalProperties": {"type": "boolean"}, "maxProperties": 6,
      "if": {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}, "then": {"required": ["tags"]}})");
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const std::string text = random_text(constraint, random);
    const Json value = Json::parse(text, nullptr, false);
    EXPECT_TRUE(is_valid_order(value)) << text;
  }
}

TEST(Constraint, RandomTextsOfAGrammarBalance) {
  const auto constraint =
      compile(ConstraintKind::gbnf, "root ::= \"(\" root \")\" root | \"[\" root \"]\" | \"x\"?");
  std::mt19937 random(8);
  for (int i = 0; i < 100; ++i) {
    std::string open;
    for (const char symbol : random_text(constraint, random)) {
      if (symbol == '(' || symbol == '[') open.push_back(symbol);
      if (symbol != ')' && symbol != ']') continue;
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), symbol == ')' ? '(' : '[');
      open.pop_back();
    }
    EXPECT_TRUE(open.empty());
  }
}

TEST(Constraint, MaskHasExactlyTheTokensThatAStepAccepts) {
  const auto constraint = compile(ConstraintKind::json_schema, R"({"type": "array", "uniqueItems": true,
      "items": {"type": ["object", "string"], "patternProperties": {"^a": {"type": "integer"}}}})");
  Matcher matcher(constraint);
  for (const char byte : std::string_view(R"([{"ab": 12, "x": [null]}, "foo", {"ab": 12, "x": [null]})")) {
    ASSERT_NO_FATAL_FAILURE(expect_mask_of_what_steps_accept(matcher));
    if (!matcher.accept_text(std::string_view(&byte, 1))) break;
  }
  EXPECT_EQ(matcher.text(), R"([{"ab": 12, "x": [null]}, "foo", {"ab": 12, "x": [null])")
      << "an equal item cannot be closed";
}

// Steps read byte by byte; masks are computed by walks over all tokens.
TEST(Constraint, MasksAgreeWithStepsAlongRandomTexts) {
  using Kind = ConstraintKind;
  const std::vector<std::pair<Kind, const char*>> sources = {
      {Kind::json_schema,
       R"({"type": "array", "uniqueItems": true, "items": {"enum": ["a", "ab", "b", 1, 10, null]}})"},
      {Kind::json_schema,
       R"({"type": "array", "uniqueItems": true, "items": {"type": "string", "minLength": 1}})"},
      {Kind::json_schema,
       R"({"properties": {"a": {"type": "integer"}, "ab": {"type": "string", "maxLength": 3}},
          "additionalProperties": {"type": "string", "pattern": "^[^/]+$"}, "minProperties": 2, "maxProperties": 3,
          "dependentRequired": {"a": ["ab"]}})"},
      {Kind::json_schema, R"({"anyOf": [{"required": ["a"], "properties": {"a": {"const": 1}}},
          {"required": ["b"], "properties": {"a": {"type": "string"}}}, {"type": "array", "maxItems": 2}]})"},
      {Kind::gbnf, R"(root ::= ("a" root "b" | [^a-m"]{1,3} ", ")* "." )"},
      {Kind::regex, R"(("[a-z ]*"|\d+)(, ?("[a-z ]*"|\d+)){0,3})"}};
  std::mt19937 random(11);
  for (const auto& [kind, source] : sources) {
    const auto constraint = compile(kind, source);
    for (int text = 0; text < 3; ++text) {
      Matcher matcher(constraint);
      for (int step = 0; step < 25 && !matcher.has_ended(); ++step) {
        const std::vector<TokenId> allowed = allowed_tokens(matcher);
        ASSERT_FALSE(allowed.empty()) << source << ": cannot continue after " << matcher.text();
        ASSERT_NO_FATAL_FAILURE(expect_mask_of_what_steps_accept(matcher)) << source;
        ASSERT_TRUE(matcher.accept(allowed[random() % allowed.size()]));
      }
    }
  }
}

// Walks accept whole branches of the vocabulary if none of their characters changes the state.
TEST(Constraint, MasksOfPatternsAgreeWithSteps) {
  std::vector<std::string> bytes = {"\"", "\\"};
  std::mt19937 random(5);
  const std::vector<std::string> chars = {"a", "b", "z", "A", "0", "9",  " ", "/",
                                          "#", "-", "~", "^", "é", "日", "😀"};
  for (int i = 0; i < 600; ++i) {
    std::string word;
    const size_t length = i < 15 ? 1 : 1 + random() % (i % 4 == 0 ? 40 : 4);
    for (size_t n = 0; n < length; ++n)
      word += chars[i < 15 ? static_cast<size_t>(i) : random() % chars.size()];
    bytes.push_back(word);
  }
  bytes.emplace_back();
  const auto vocabulary = std::make_shared<const TokenVocabulary>(
      bytes, std::unordered_map<std::string, TokenId>{}, TokenIds{static_cast<TokenId>(bytes.size() - 1)});
  for (const char* schema :
       {R"({"pattern": "^[^/#]+$"})", R"({"pattern": "^[a-z ]*$"})", R"({"pattern": "^[^~]*-[^A-Z]*$"})",
        R"({"pattern": "^[a-zé]+$"})", R"({"pattern": "^[^日]*$", "maxLength": 50})", R"({"maxLength": 45})",
        R"({"pattern": "^[ab]", "maxLength": 20})", R"({"pattern": "^([^/]+/)*$", "maxLength": 34})",
        R"({"not": {"pattern": "[^a-z0-9]"}, "minLength": 3})"}) {
    const auto constraint = Constraint::compile(ConstraintKind::json_schema, schema, vocabulary);
    Matcher matcher(constraint);
    for (int step = 0; step < 12 && !matcher.has_ended(); ++step) {
      ASSERT_NO_FATAL_FAILURE(expect_mask_of_what_steps_accept(matcher)) << schema;
      const std::vector<TokenId> allowed = allowed_tokens(matcher);
      ASSERT_TRUE(matcher.accept(allowed[random() % allowed.size()]));
    }
  }
}

// Reaches the maximum stack depth after various lexemes: a special token, one that can continue, one preceded
// by another.
TEST(Constraint, MasksOpenNothingMoreAtTheMaximumDepth) {
  const std::vector<std::pair<ConstraintKind, const char*>> sources = {
      {ConstraintKind::gbnf, R"g(root ::= term ([+*] term)*
          term ::= [a-z]+ | "(" root ")" | [a-z]+ " "? "(" (root ("," " "? root)*)? ")")g"},
      {ConstraintKind::gbnf, R"g(root ::= "a" | "(" " "? root ")" | "x(" root ")")g"},
      {ConstraintKind::gbnf, R"g(root ::= "a" | "(" <think> root ")")g"},
      {ConstraintKind::json_object, ""}};
  for (const auto& [kind, source] : sources) {
    const auto constraint = compile(kind, source);
    const std::string_view opening = kind == ConstraintKind::json_object ? "{\"a\":" : "(";
    const TokenId think = constraint->vocabulary().find_special("<think>");
    Matcher matcher(constraint);
    while (matcher.accept_text(opening) || matcher.accept(think)) ASSERT_LT(matcher.num_steps(), 2000U);
    ASSERT_GT(matcher.num_steps(), 80U);
    for (int back = 0; back < 5; ++back) {
      ASSERT_NO_FATAL_FAILURE(expect_mask_of_what_steps_accept(matcher)) << source;
      matcher.rollback(1);
    }
  }
}

TEST(Constraint, NothingMoreIsForcedAtTheMaximumDepth) {
  Matcher matcher(compile(ConstraintKind::gbnf, R"g(root ::= "(" root ")")g"));
  const std::string forced = matcher.forced(5000);
  EXPECT_LT(forced.size(), 5000U);
  EXPECT_TRUE(matcher.accept_text(forced));
}

// The last level opens in several parts: after the first part, the next rule exceeds the depth.
TEST(Constraint, ADeadEndNamesTheDepthLimit) {
  const std::vector<std::pair<const char*, const char*>> sources = {
      {R"g(root ::= "(" root ")")g", "("},
      {"root ::= \"(\" \"-\" item \")\"\nitem ::= \"b\" root | root", "(-"},
      {R"g(root ::= "(" <think> root ")")g", "("}};
  for (const auto& [source, opening] : sources) {
    const auto constraint = compile(ConstraintKind::gbnf, source);
    const TokenId think = constraint->vocabulary().find_special("<think>");
    Matcher matcher(constraint);
    while (matcher.accept_text(opening) || matcher.accept(think)) ASSERT_LT(matcher.num_steps(), 2000U);
    matcher.accept_text("(");
    ASSERT_GT(matcher.num_steps(), 80U);
    ASSERT_TRUE(allowed_tokens(matcher).empty()) << source;
    EXPECT_FALSE(matcher.may_end());
    EXPECT_NE(matcher.exceeded_limit().find("max_depth = 600"), std::string::npos) << source;
    matcher.rollback(4);
    EXPECT_FALSE(allowed_tokens(matcher).empty()) << source;
    EXPECT_EQ(matcher.exceeded_limit(), "") << source;
  }
}

// The items of the list must differ, but only one value is possible.
TEST(Constraint, OtherDeadEndsNameNoLimit) {
  Matcher matcher(compile(ConstraintKind::json_schema,
                          R"({"type": "array", "uniqueItems": true, "minItems": 2, "maxItems": 2,
                              "items": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"const": 1}}})"));
  ASSERT_TRUE(matcher.accept_text("[[1],"));
  while (!allowed_tokens(matcher).empty()) ASSERT_TRUE(matcher.accept(allowed_tokens(matcher)[0]));
  EXPECT_FALSE(matcher.may_end());
  EXPECT_EQ(matcher.exceeded_limit(), "");
}

TEST(Constraint, RollbackRestoresTheState) {
  const auto constraint =
      compile(ConstraintKind::json_schema, R"({"properties": {"a": {"type": "string"}}, "required": ["a"]})");
  std::mt19937 random(9);
  Matcher matcher(constraint);
  for (int i = 0; i < 300; ++i) {
    const std::vector<TokenId> before = allowed_tokens(matcher);
    const std::string text = matcher.text();
    size_t num_steps = 0;
    for (; num_steps < random() % 5; ++num_steps) {
      const std::vector<TokenId> allowed = allowed_tokens(matcher);
      if (matcher.has_ended() || allowed.empty() || !matcher.accept(allowed[random() % allowed.size()]))
        break;
    }
    matcher.rollback(num_steps);
    EXPECT_EQ(matcher.text(), text);
    EXPECT_EQ(allowed_tokens(matcher), before);
    if (!matcher.has_ended() && !before.empty()) matcher.accept(before[random() % before.size()]);
  }
}

// JSON parsers keep only the last of several members with the same name.
TEST(Constraint, ADuplicateNameIsNotASecondMember) {
  const auto says = [](const char* schema, std::string_view text) {
    const auto constraint = compile(ConstraintKind::json_schema, schema);
    EXPECT_EQ(accepts(constraint, text), accepts_tokens(constraint, text)) << text;
    return accepts(constraint, text);
  };
  const char* const two = R"({"type": "object", "minProperties": 2})";
  EXPECT_TRUE(says(two, R"({"a": 1, "b": 1})"));
  EXPECT_FALSE(says(two, R"({"a": 1, "a": 1})"));
  EXPECT_FALSE(says(two, R"({"a": 1, "\u0061": 1})")) << "escaped spelling";
  EXPECT_TRUE(says(two, R"({"a": {"a": 1, "b": 2}, "b": {"c": 1, "a": 2}})")) << "names of different objects";
  EXPECT_FALSE(says(two, R"({"foo": 1,
    "foo": 1})"));
  const char* const named = R"({"type": "object", "minProperties": 3, "properties": {"foo": true}})";
  EXPECT_TRUE(says(named, R"({"a": 1, "foo": 2, "b": 1})"));
  EXPECT_FALSE(says(named, R"({"a": 1, "foo": 2, "a": 1})"));
  const char* const some_text = R"({"type": "object", "not": {"additionalProperties": {"type": "number"}}})";
  EXPECT_TRUE(says(some_text, R"({"a": "x", "b": 1})"));
  EXPECT_FALSE(says(some_text, R"({"a": "x", "a": 1})")) << "the second member replaces the string";
  const char* const few =
      R"({"patternProperties": {"^[ab]$": true}, "additionalProperties": false, "minProperties": 2,
                              "type": "object"})";
  EXPECT_TRUE(says(few, R"({"b": 1, "a": 1})"));
  EXPECT_FALSE(says(few, R"({"b": 1, "a": 1, "b": 1})"));
  Matcher matcher(compile(ConstraintKind::json_schema, few));
  ASSERT_TRUE(matcher.accept_text("{\"b\":1,\""));
  EXPECT_EQ(matcher.forced(9), "a\"") << "only the other name is left";
}

TEST(Constraint, ForcedTextEndsAtAChoice) {
  const auto constraint = compile(ConstraintKind::json_schema, R"({"const": {"name": "x"}})");
  Matcher matcher(constraint);
  EXPECT_EQ(matcher.forced(100), "{");
  EXPECT_EQ(Matcher(compile(ConstraintKind::regex, "abc(d|e)")).forced(100), "abc");
  EXPECT_EQ(Matcher(compile(ConstraintKind::regex, "abc")).forced(2), "ab");
}

TEST(Constraint, PlainSpellingIsForcedIfOnlyTheSpellingIsOpen) {
  const auto forced_after = [](const char* schema, const char* text) {
    Matcher matcher(compile(ConstraintKind::json_schema, schema));
    EXPECT_TRUE(matcher.accept_text(text));
    return matcher.forced(100);
  };
  const char* const object =
      R"({"properties": {"name": true, "nation/\u00e4": true, "new\nline": true, "say\"": true},
                                "additionalProperties": false, "minProperties": 3})";
  EXPECT_EQ(forced_after(object, "{\"nam"), "e\"");
  EXPECT_EQ(forced_after(object, "{\"na"), "") << "two names";
  EXPECT_EQ(forced_after(object, "{\"nat"), "ion/\u00e4\"");
  EXPECT_EQ(forced_after(object, "{\"nat\\u0069"), "on/\u00e4\"");
  EXPECT_EQ(forced_after(object, "{\"nat\\"), "u0069on/\u00e4\"") << "an escape that has begun";
  EXPECT_EQ(forced_after(object, "{\"ne"), "w\\") << "an escaped character has two spellings";
  EXPECT_EQ(forced_after(object, "{\"s"), "ay\\");
  EXPECT_EQ(forced_after(R"({"enum": ["ab", "a\nb"]})", "\"a"), "");
  EXPECT_EQ(forced_after(R"({"enum": ["ab", "abc"]})", "\"a"), "b");
  EXPECT_EQ(forced_after(R"({"type": "string", "pattern": "^a.$"})", "\""), "a");
  EXPECT_EQ(forced_after(R"({"type": "string"})", "\""), "");
}

TEST(Constraint, LongestTokenMatchesALinearSearch) {
  const auto vocabulary = small_vocabulary();
  std::mt19937 random(7);
  const std::string letters = "\"{}:, 012abcefnotrue\n[]\xe6\x97\xa5";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t n = 1 + random() % 6; n > 0; --n) text += letters[random() % letters.size()];
    TokenVocabulary::Longest expected;
    for (size_t i = 0; i < vocabulary->size(); ++i) {
      const std::string_view bytes = vocabulary->bytes(static_cast<TokenId>(i));
      if (!bytes.empty() && bytes.size() > expected.num_bytes &&
          std::string_view(text).substr(0, bytes.size()) == bytes)
        expected = {static_cast<TokenId>(i), bytes.size(), expected.is_open};
      if (bytes.size() > text.size() && bytes.substr(0, text.size()) == text) expected.is_open = true;
    }
    const TokenVocabulary::Longest found = vocabulary->longest(text);
    EXPECT_EQ(found.num_bytes, expected.num_bytes) << text;
    EXPECT_EQ(vocabulary->bytes(found.token), vocabulary->bytes(expected.token)) << text;
    EXPECT_EQ(found.is_open, expected.is_open) << text;
  }
  EXPECT_EQ(vocabulary->longest("").token, -1);
}

TEST(Constraint, ForcedTokensAreTheLongestAndStopBeforeAnAmbiguousOne) {
  const auto tokens_of = [](const char* pattern) {
    TokenIds tokens;
    Matcher(compile(ConstraintKind::regex, pattern)).force(100, tokens);
    std::vector<std::string> texts;
    for (const TokenId token : tokens)
      texts.emplace_back(compile(ConstraintKind::regex, "a")->vocabulary().bytes(token));
    return texts;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(tokens_of("\\{\"name\": (a|b)"), Texts({"{\"", "name", "\": "}));
  EXPECT_EQ(tokens_of("xab(c|d)"), Texts({"x"})) << "may become abc";
  EXPECT_EQ(tokens_of("x12(3|4)"), Texts({"x"})) << "12 may become 123";
  EXPECT_EQ(tokens_of("[xy]abc"), Texts());
  EXPECT_EQ(tokens_of("xyz"), Texts({"x", "y", "z"}));
  TokenIds few;
  Matcher(compile(ConstraintKind::regex, "xyz")).force(2, few);
  EXPECT_EQ(few.size(), 2U);
}

TEST(Constraint, ForcedTokensAreAllAllowed) {
  const auto constraint = compile(ConstraintKind::json_schema, R"({
    "type": "object", "required": ["foobar", "named12"], "additionalProperties": false,
    "properties": {"foobar": {"type": "boolean"}, "named12": {"enum": ["bartrue", "falsehood"]}}})");
  size_t num_forced = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Matcher matcher(constraint);
    for (int step = 0; step < 60 && !matcher.has_ended(); ++step) {
      TokenIds forced;
      matcher.force(32, forced);
      const std::string bytes = matcher.forced(256);
      num_forced += forced.size();
      std::string text;
      for (const TokenId token : forced) {
        const std::vector<TokenId> allowed = allowed_tokens(matcher);
        EXPECT_TRUE(std::binary_search(allowed.begin(), allowed.end(), token));
        ASSERT_TRUE(matcher.accept(token));
        text += constraint->vocabulary().bytes(token);
      }
      EXPECT_EQ(bytes.substr(0, text.size()), text);
      const std::vector<TokenId> allowed = allowed_tokens(matcher);
      if (allowed.empty()) break;
      ASSERT_TRUE(matcher.accept(allowed[random() % allowed.size()]));
    }
  }
  EXPECT_GT(num_forced, 300U);
}

TEST(Constraint, SpecialTokensHaveNamesAndAreNotText) {
  const auto constraint = compile(ConstraintKind::gbnf, "root ::= <think> \"a\"");
  const TokenId think = constraint->vocabulary().find_special("<think>");
  Matcher matcher(constraint);
  EXPECT_FALSE(matcher.accept_text("<think>"));
  EXPECT_TRUE(matcher.accept(think));
  EXPECT_TRUE(matcher.accept_text("a"));
  EXPECT_TRUE(matcher.may_end());
}

TEST(Constraint, Draft4DoesNotAcceptAFractionOfZerosAsInteger) {
  const auto later = compile(ConstraintKind::json_schema, R"({"type": "integer"})");
  const auto draft4 =
      compile(ConstraintKind::json_schema,
              R"({"$schema": "http://json-schema.org/draft-04/schema#", "type": ["integer", "string"]})");
  EXPECT_TRUE(accepts(later, "45.0"));
  EXPECT_TRUE(accepts(draft4, "-45"));
  EXPECT_FALSE(accepts(draft4, "45.0"));
}

TEST(Constraint, MembersOutsideTheTakenBranchAreUnevaluated) {
  const auto schema =
      compile(ConstraintKind::json_schema, R"({"type": "object", "unevaluatedProperties": false,
      "properties": {"kind": {"type": "string"}},
      "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
      "then": {"properties": {"x": {"type": "integer"}}}, "else": {"$ref": "#/$defs/other"},
      "$defs": {"other": {"properties": {"y": {"type": "boolean"}}}}})");
  EXPECT_TRUE(accepts(schema, R"({"kind": "a", "x": 1})"));
  EXPECT_TRUE(accepts(schema, R"({"x": 1, "kind": "a"})"));
  EXPECT_FALSE(accepts(schema, R"({"kind": "b", "x": 1})"));
  EXPECT_TRUE(accepts(schema, R"({"y": true})"));
  EXPECT_FALSE(accepts(schema, R"({"kind": "a", "y": true})"));
  EXPECT_FALSE(accepts(schema, R"({"z": 1})"));
}

TEST(Constraint, UnsupportedFeaturesAreRefusedByName) {
  expect_refusal(ConstraintKind::json_schema,
                 R"({"unevaluatedProperties": false, "dependentSchemas": {"a": {"properties": {"b": {}}}}})",
                 ErrorCode::unsupported, "unevaluatedProperties");
  expect_refusal(ConstraintKind::json_schema, R"({"$ref": "http://elsewhere/x"})", ErrorCode::unsupported,
                 "http://elsewhere/x");
  expect_refusal(ConstraintKind::regex, "(a)\\1", ErrorCode::unsupported, "back-reference");
  expect_refusal(ConstraintKind::gbnf, "root ::= a\na ::= b \"x\"\nb ::= a | \"y\"", ErrorCode::unsupported,
                 "begins with itself");
  expect_refusal(ConstraintKind::lark, "start: \"a\"\n%declare X", ErrorCode::unsupported, "%declare");
}

TEST(Constraint, OversizedSourcesExceedANamedLimit) {
  expect_refusal(ConstraintKind::regex, std::string(500, '(') + std::string(500, ')'), ErrorCode::capacity,
                 "deeper");
  std::string all;
  for (int i = 0; i < 40; ++i) {
    if (i > 0) all += ",";
    all += fmt::format(R"({{"anyOf": [{{"required": ["a{0}"]}}, {{"required": ["b{0}"]}}]}})", i);
  }
  expect_refusal(ConstraintKind::json_schema, R"({"allOf": [)" + all + "]}", ErrorCode::capacity,
                 "max_alternatives");
}

TEST(Constraint, AHugeRepetitionCompilesFast) {
  const auto constraint = compile(ConstraintKind::regex, "(((a{100}){100}){100}){100}");
  EXPECT_FALSE(accepts(constraint, std::string(1000, 'a')));
  EXPECT_EQ(Matcher(constraint).forced(50), std::string(50, 'a'));
}

TEST(Constraint, ServesAnyNumberOfTexts) {
  constexpr int kMaxItems = 1000 / testing::stride_if_sanitized(4);
  ConstraintLimits limits;
  limits.max_items = kMaxItems;
  const auto constraint = Constraint::compile(
      ConstraintKind::json_schema, R"({"type": "array", "uniqueItems": true, "items": {"type": "integer"}})",
      small_vocabulary(), limits);
  for (int i = 0; i < 300; i += testing::stride_if_sanitized(10)) {
    Matcher matcher(constraint);
    const std::string text = fmt::format("[{}, {}, {}]", i, i + 7, 3 * i + 8);
    ASSERT_TRUE(matcher.accept_text(text) && matcher.may_end()) << text;
    EXPECT_FALSE(Matcher(constraint).accept_text(fmt::format("[{}, 5000, {}, ", i, i)));
  }
  std::string too_long = "[0";
  for (int i = 1; i < kMaxItems; ++i) too_long += fmt::format(", {}", i);
  try {
    Matcher(constraint).accept_text(too_long);
    FAIL() << "one text stayed within the limits";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::capacity);
  }
}

// Each pair of mutually exclusive names doubles the number of object alternatives.
Json object_without_pairs(int num_pairs) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}, {"maxProperties", 6}};
  for (int i = 0; i < num_pairs; ++i) {
    const std::string names[] = {fmt::format("a{}", i), fmt::format("b{}", i)};
    for (const std::string& name : names) schema["properties"][name] = {{"type", "integer"}};
    schema["allOf"].push_back({{"not", {{"required", names}}}});
  }
  return schema;
}

TEST(Constraint, ObjectAlternativesAreReadTogether) {
  ConstraintLimits limits;
  limits.max_ways = 100;
  limits.max_items = 60'000;
  const auto constraint = Constraint::compile(ConstraintKind::json_schema, object_without_pairs(10).dump(),
                                              small_vocabulary(), limits);
  std::mt19937 random(7);
  std::vector<int> members(20);
  std::iota(members.begin(), members.end(), 0);
  int num_valid = 0;
  for (int n = 0; n < 60; ++n) {
    std::shuffle(members.begin(), members.end(), random);
    const size_t num_members = 2 + random() % 6;
    std::string text;
    std::set<int> pairs;
    for (size_t i = 0; i < num_members; ++i) {
      pairs.insert(members[i] / 2);
      text += fmt::format(R"({}"{}{}": {})", i == 0 ? "{" : ", ", members[i] % 2 == 0 ? 'a' : 'b',
                          members[i] / 2, i);
    }
    const bool valid = pairs.size() == num_members && num_members <= 6;
    num_valid += static_cast<int>(valid);
    EXPECT_EQ(accepts_tokens(constraint, text + "}"), valid) << text;
  }
  EXPECT_GT(num_valid, 10);
}

TEST(Constraint, ManyThreadsCanShareOne) {
  const auto constraint =
      compile(ConstraintKind::json_schema, R"({"type": "object", "properties": {"a": {"maxLength": 5}}})");
  std::vector<std::thread> threads;
  std::vector<int> num_wrong(4);
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<unsigned>(i));
      for (int n = 0; n < 20; ++n) {
        if (Json::parse(random_text(constraint, random), nullptr, false).is_discarded()) ++num_wrong[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, std::vector<int>(4));
}

TEST(ConstraintCache, CompilesEachSourceOnceAndEvictsTheOldest) {
  ConstraintCache cache(small_vocabulary(), 1 << 20);
  const auto first = cache.get(ConstraintKind::regex, "a+");
  EXPECT_EQ(cache.get(ConstraintKind::regex, "a+"), first);
  EXPECT_NE(cache.get(ConstraintKind::choice, "[\"a+\"]"), first);
  for (int i = 0; i < 300; ++i) cache.get(ConstraintKind::regex, "b{" + std::to_string(i) + "}");
  EXPECT_LT(cache.size(), 300U);
  EXPECT_NE(cache.get(ConstraintKind::regex, "a+"), first);
}

}  // namespace
}  // namespace quire
