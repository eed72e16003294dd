// The form in which JSON is drawn: order, closed objects, integers and white space. Every drawn text must be
// valid, and every schema that has a text must still have one.
#include "core/constrained/json_form.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/constrained/constraint_fixture.h"
#include "tests/support/case_stride.h"
#include "tests/support/golden_schemas.h"

namespace quire {
namespace {

const std::shared_ptr<const TokenVocabulary>& test_vocabulary() {
  static const auto* const made = new std::shared_ptr<const TokenVocabulary>(small_vocabulary());
  return *made;
}

std::shared_ptr<const Constraint> drawn(std::string_view schema, const JsonForm& form = kDrawnForm) {
  return Constraint::compile(ConstraintKind::json_schema, schema, test_vocabulary(), {}, form);
}

bool draws(std::string_view schema, std::string_view text, const JsonForm& form = kDrawnForm) {
  return accepts_tokens(drawn(schema, form), text);
}

constexpr const char* kPerson = R"({"type": "object", "required": ["name"], "properties":
    {"reason": {"type": "string"}, "name": {"type": "string"}, "age": {"type": "integer"}}})";

TEST(JsonForm, MembersComeInTheOrderOfTheSchema) {
  EXPECT_TRUE(draws(kPerson, R"({"reason": "x", "name": "a", "age": 1})"));
  EXPECT_TRUE(draws(kPerson, R"({"name": "a", "age": 1})"));
  EXPECT_TRUE(draws(kPerson, R"({"name": "a"})"));
  EXPECT_FALSE(draws(kPerson, R"({"name": "a", "reason": "x"})"));
  EXPECT_FALSE(draws(kPerson, R"({"age": 1, "name": "a"})")) << "passes a required name";
  JsonForm any = kDrawnForm;
  any.in_order = false;
  EXPECT_TRUE(draws(kPerson, R"({"age": 1, "name": "a", "reason": "x"})", any));
}

TEST(JsonForm, ObjectsHaveOnlyTheMembersThatTheSchemaNames) {
  EXPECT_FALSE(draws(kPerson, R"({"name": "a", "x": 1})"));
  EXPECT_TRUE(accepts(compile(ConstraintKind::json_schema, kPerson), R"({"name": "a", "x": 1})"));
  JsonForm open = kDrawnForm;
  open.closed = false;
  EXPECT_TRUE(draws(kPerson, R"({"name": "a", "x": 1})", open));
  EXPECT_TRUE(draws(R"({"type": "object", "properties": {}})", "{}"));
  EXPECT_FALSE(draws(R"({"type": "object", "properties": {}})", R"({"x": 1})"));
}

TEST(JsonForm, ASchemaOpensItsObjectsInItsOwnWords) {
  const char* const open[] = {
      R"({"type": "object"})",
      R"({"type": "object", "required": ["a"]})",
      R"({"properties": {"a": true}, "additionalProperties": true})",
      R"({"properties": {"a": true}, "additionalProperties": {"type": "integer"}})",
      R"({"properties": {"a": true}, "patternProperties": {"^x": {"type": "integer"}}})",
      R"({"properties": {"a": true}, "unevaluatedProperties": {"type": "integer"}})",
      R"({"properties": {"a": true}, "propertyNames": {"maxLength": 3}})",
      R"({"allOf": [{"properties": {"a": true}}, {"additionalProperties": true}]})",
      R"({"properties": {"a": true}, "$ref": "#/$defs/open", "$defs": {"open": {"additionalProperties": true}}})",
  };
  for (const char* const schema : open) EXPECT_TRUE(draws(schema, R"({"a": 2, "x": 1})")) << schema;
  EXPECT_FALSE(
      draws(R"({"properties": {"a": true}, "patternProperties": {"^x": true}})", R"({"a": 2, "y": 1})"));
}

TEST(JsonForm, ObjectsAreClosedAfterAllSchemasThatApply) {
  const char* const both =
      R"({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"properties": {"b": {"type": "integer"}}, "required": ["b", "c"]}]})";
  EXPECT_TRUE(draws(both, R"({"a": 1, "b": 2, "c": null})"));
  EXPECT_FALSE(draws(both, R"({"a": 1, "b": 2, "c": null, "d": 1})"));
  const char* const choice = R"({"properties": {"kind": {"enum": ["x", "y"]}}, "required": ["kind"],
      "if": {"properties": {"kind": {"const": "x"}}}, "then": {"properties": {"x": {"type": "boolean"}}},
      "else": {"properties": {"y": {"type": "boolean"}}, "required": ["y"]}})";
  EXPECT_TRUE(draws(choice, R"({"kind": "x", "x": true})"));
  EXPECT_TRUE(draws(choice, R"({"kind": "y", "y": true})"));
  EXPECT_FALSE(draws(choice, R"({"kind": "x", "y": true})"));
  EXPECT_FALSE(draws(choice, R"({"kind": "y", "x": true})"));
  const char* const dependent = R"({"properties": {"card": {"type": "integer"}},
      "dependentSchemas": {"card": {"properties": {"street": {"type": "string"}}, "required": ["street"]}}})";
  EXPECT_TRUE(draws(dependent, R"({"card": 1, "street": "s"})"));
  EXPECT_FALSE(draws(dependent, R"({"card": 1})"));
  EXPECT_TRUE(draws(dependent, "{}"));
}

TEST(JsonForm, AnObjectThatWouldHaveNoValueStaysOpen) {
  EXPECT_TRUE(
      draws(R"({"type": "object", "properties": {"a": true}, "minProperties": 2})", R"({"a": 1, "b": 2})"));
  EXPECT_TRUE(draws(
      R"({"type": "object", "properties": {"a": true}, "not": {"required": ["a"]}, "minProperties": 1})",
      R"({"b": 2})"));
  // Only the inner object opens.
  const char* const nested = R"({"type": "object", "properties": {"in": {"type": "object", "minProperties": 1,
      "properties": {}}}, "required": ["in"]})";
  EXPECT_TRUE(draws(nested, R"({"in": {"z": 1}})"));
  EXPECT_FALSE(draws(nested, R"({"in": {"z": 1}, "y": 1})"));
}

TEST(JsonForm, IntegersArePlain) {
  for (const char* const text : {"0", "-7", "3440"})
    EXPECT_TRUE(draws(R"({"type": "integer"})", text)) << text;
  for (const char* const text : {"3440.000", "1e3", "1.5", "01"})
    EXPECT_FALSE(draws(R"({"type": "integer"})", text)) << text;
  EXPECT_FALSE(draws(R"({"enum": [3, 4]})", "3.0"));
  EXPECT_TRUE(draws(R"({"enum": [3, 4.5]})", "4.5"));
  EXPECT_FALSE(draws(R"({"enum": [3, 4.5]})", "4.500"));
  EXPECT_TRUE(draws(R"({"type": "number"})", "1e3"));
  EXPECT_TRUE(draws(R"({"type": "integer", "minimum": 10, "multipleOf": 5})", "15"));
  EXPECT_FALSE(draws(R"({"not": {"type": "integer"}})", "3.0")) << "a negation keeps the meaning";
  JsonForm any = kDrawnForm;
  any.plain_integers = false;
  EXPECT_TRUE(draws(R"({"type": "integer"})", "3440.000", any));
}

TEST(JsonForm, ADoubleHoldsNumbersWithAnExponent) {
  constexpr const char* kNumbers = R"({"type": "number"})";
  for (const char* const text : {"0", "-12.5", "7.25e306", "9.99e307", "-1e+22", "3E-5", "1e0"}) {
    EXPECT_TRUE(draws(kNumbers, text)) << text;
    EXPECT_TRUE(draws("true", text)) << text;
    EXPECT_TRUE(std::isfinite(Json::parse(text).get<double>())) << text;
  }
  for (const char* const text : {"76.25e306", "10e2", "0e5", "1e308", "-0.5e1"}) {
    EXPECT_FALSE(draws(kNumbers, text)) << text;
    EXPECT_FALSE(draws("true", text)) << text;
  }
  EXPECT_TRUE(draws(R"({"not": {"type": "string"}})", "7.25e306"));
  EXPECT_FALSE(draws(R"({"not": {"type": "string"}})", "76.25e306"));
  JsonForm any = kDrawnForm;
  any.plain_integers = false;
  EXPECT_TRUE(draws(kNumbers, "76.25e306", any));
}

TEST(JsonForm, WhiteSpaceHasOneForm) {
  const char* const schema = R"({"properties": {"a": {"type": "array"}, "b": {}}})";
  const char* const spaced = R"({"a": [1, {}, []], "b": {"x": 1, "y": 2}})";
  const char* const compact = R"({"a":[1,{},[]],"b":{"x":1,"y":2}})";
  const char* const indented = "{\n  \"a\": [1, {}, []],\n  \"b\": {\"x\": 1, \"y\": 2}\n}";
  JsonForm form = kDrawnForm;
  EXPECT_TRUE(draws(schema, spaced, form) && !draws(schema, compact, form) && !draws(schema, indented, form));
  form.space = JsonSpace::compact;
  EXPECT_TRUE(!draws(schema, spaced, form) && draws(schema, compact, form) && !draws(schema, indented, form));
  form.space = JsonSpace::printed;
  EXPECT_TRUE(draws(schema, spaced, form) && draws(schema, compact, form) && draws(schema, indented, form));
}

// With an order, a member that can no longer come must not be needed.
TEST(JsonForm, OrderLeavesNoDeadEnd) {
  const char* const needs_earlier =
      R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}},
      "dependentRequired": {"c": ["a"], "b": ["c"]}})";
  EXPECT_FALSE(draws(needs_earlier, R"({"b": 2, "c": 3})"));
  Matcher matcher(drawn(needs_earlier));
  EXPECT_FALSE(matcher.accept_text("{\"b\"")) << "b needs c, and c needs a, which comes first";
  EXPECT_TRUE(draws(needs_earlier, R"({"a": 1, "b": 2, "c": 3})"));
  EXPECT_TRUE(draws(needs_earlier, R"({"a": 1})"));
  EXPECT_TRUE(draws(needs_earlier, R"({})"));
  const char* const two_of_three =
      R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "minProperties": 2})";
  EXPECT_FALSE(Matcher(drawn(two_of_three)).accept_text("{\"c\""));
  EXPECT_TRUE(draws(two_of_three, R"({"b": 2, "c": 3})"));
}

// Members without a name of their own come after those that other members need.
TEST(JsonForm, OtherMembersComeAfterThoseThatAreNeeded) {
  const char* const schema = R"({"properties": {"a": {"const": 1}, "b": {"const": 2}},
      "patternProperties": {"^x-": {"const": 3}}, "dependentRequired": {"a": ["b"]}})";
  EXPECT_FALSE(draws(schema, R"({"a": 1})"));
  EXPECT_FALSE(draws(schema, R"({"a": 1, "x-y": 3})"));
  EXPECT_FALSE(Matcher(drawn(schema)).accept_text("{\"a\": 1, \"x"));
  EXPECT_TRUE(draws(schema, R"({"a": 1, "b": 2, "x-y": 3})"));
  EXPECT_TRUE(draws(schema, R"({"b": 2, "x-y": 3})"));
  EXPECT_TRUE(draws(schema, R"({"x-y": 3, "x-z": 3})"));
}

// After the only value of an empty object or array, no other item can differ from it.
TEST(JsonForm, AUniqueListEndsAfterItsOnlyValue) {
  const auto list_of = [](const std::string& items) {
    return R"({"type": "array", "uniqueItems": true, "items": )" + items + "}";
  };
  const std::string empty = list_of(R"({"type": "object", "properties": {}, "additionalProperties": false})");
  EXPECT_TRUE(draws(empty.c_str(), "[{}]"));
  EXPECT_FALSE(Matcher(drawn(empty.c_str())).accept_text("[{},"));
  const std::string none = list_of(R"({"type": ["array", "null"], "maxItems": 0})");
  EXPECT_TRUE(draws(none.c_str(), "[[], null]"));
  EXPECT_FALSE(Matcher(drawn(none.c_str())).accept_text("[null, [],"));
}

TEST(JsonForm, TheOrderFollowsTheKeywordsThatNameMembers) {
  const char* const base_first = R"({"allOf": [{"$ref": "#/$defs/base"}], "properties": {"b": {"const": 1}},
      "$defs": {"base": {"properties": {"a": {"const": 1}}}}})";
  EXPECT_TRUE(draws(base_first, R"({"a": 1, "b": 1})"));
  EXPECT_FALSE(draws(base_first, R"({"b": 1, "a": 1})"));
  const char* const own_first = R"({"properties": {"b": {"const": 1}}, "allOf": [{"$ref": "#/$defs/base"}],
      "$defs": {"base": {"properties": {"a": {"const": 1}}}}})";
  EXPECT_TRUE(draws(own_first, R"({"b": 1, "a": 1})"));
  EXPECT_FALSE(draws(own_first, R"({"a": 1, "b": 1})"));
  // An inner object has its own order.
  const char* const nested =
      R"({"properties": {"a": {"const": 1}, "b": {"properties": {"b": {"const": 1}, "a": {"const": 1}}}}})";
  EXPECT_TRUE(draws(nested, R"({"a": 1, "b": {"b": 1, "a": 1}})"));
}

TEST(JsonForm, AppliesToSchemasInsideOfGrammars) {
  const std::string grammar = std::string("start: \"<\" %json ") + kPerson + " \">\"";
  const auto constraint =
      Constraint::compile(ConstraintKind::lark, grammar, test_vocabulary(), {}, kDrawnForm);
  EXPECT_TRUE(accepts(constraint, R"(<{"name": "a", "age": 1}>)"));
  EXPECT_FALSE(accepts(constraint, R"(<{"age": 1, "name": "a"}>)"));
}

// Draws texts from a constraint: random tokens first, then whatever ends the text soonest.
class Drawer {
 public:
  Drawer(std::shared_ptr<const Constraint> constraint, uint32_t seed)
      : constraint_(std::move(constraint)), mask_(test_vocabulary()->num_words()), random_(seed) {}

  // Returns nothing if no text was found within the steps.
  std::optional<std::string> draw() {
    Matcher matcher(constraint_);
    const size_t num_free = random_() % 40;
    for (size_t step = 0; step < kMostSteps; ++step) {
      if (matcher.may_end() && step >= num_free) return matcher.text();
      const TokenIds tokens = allowed(matcher);
      if (tokens.empty()) return matcher.may_end() ? std::optional(matcher.text()) : std::nullopt;
      TokenId token = tokens[random_() % tokens.size()];
      if (step >= num_free && random_() % 8 != 0) token = closing(tokens, token);
      EXPECT_TRUE(matcher.accept(token)) << matcher.text();
    }
    return std::nullopt;
  }

 private:
  static constexpr size_t kMostSteps = 3000;

  TokenIds allowed(const Matcher& matcher) {
    matcher.mask(mask_);
    TokenIds tokens;
    for (size_t id = 0; id + 2 < test_vocabulary()->size(); ++id) {
      if ((mask_[id / 32] >> (id % 32) & 1) != 0) tokens.push_back(static_cast<TokenId>(id));
    }
    return tokens;
  }

  // Prefers the ends of strings, objects and lists, and short values.
  static TokenId closing(const TokenIds& tokens, TokenId otherwise) {
    const bool in_string = std::binary_search(tokens.begin(), tokens.end(), TokenId{'Q'}) &&
                           std::binary_search(tokens.begin(), tokens.end(), TokenId{'%'});
    for (const char wanted : std::string_view(in_string ? "\"" : "}]\"01nt")) {
      const auto token = TokenId{static_cast<uint8_t>(wanted)};
      if (std::binary_search(tokens.begin(), tokens.end(), token)) return token;
    }
    return otherwise;
  }

  std::shared_ptr<const Constraint> constraint_;
  TokenBits mask_;
  std::mt19937 random_;
};

bool has_text(const std::shared_ptr<const Constraint>& constraint) {
  TokenBits mask(test_vocabulary()->num_words());
  Matcher matcher(constraint);
  matcher.mask(mask);
  return matcher.may_end() || std::any_of(mask.begin(), mask.end(), [](uint32_t word) { return word != 0; });
}

struct Counts {
  int schemas = 0;
  int texts = 0;
  int endless = 0;
};

// Checks that the drawn form of a schema is a part of its meaning and not empty if that is not.
void check_form(const Json& schema, const std::string& what, int num_texts, Counts& counts) {
  const std::string source = schema.dump();
  std::shared_ptr<const Constraint> meaning;
  try {
    meaning = compile(ConstraintKind::json_schema, source);
  } catch (const Error&) {
    return;
  }
  std::shared_ptr<const Constraint> form;
  ASSERT_NO_THROW(form = drawn(source)) << what << "\n" << source;
  ++counts.schemas;
  ASSERT_EQ(has_text(meaning), has_text(form)) << what << "\n" << source;
  if (!has_text(form)) return;
  Drawer drawer(form, static_cast<uint32_t>(counts.schemas));
  for (int i = 0; i < num_texts; ++i) {
    std::optional<std::string> text;
    try {
      text = drawer.draw();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::capacity) << what << error.what();
      continue;
    }
    if (!text) {
      ++counts.endless;
      continue;
    }
    ++counts.texts;
    EXPECT_TRUE(accepts(meaning, *text)) << what << "\n" << source << "\n" << *text;
    EXPECT_FALSE(Json::parse(*text, nullptr, false).is_discarded()) << what << "\n" << *text;
  }
}

void report(const Counts& counts) {
  std::cout << counts.schemas << " schemas, " << counts.texts << " texts, " << counts.endless
            << " without an end\n";
  if (!testing::kIsSanitized) {
    EXPECT_LE(counts.endless * 20, counts.texts);
  }
}

TEST(JsonFormGolden, SchemasOfTheSuiteKeepATextAndDrawValidOnes) {
  Counts counts;
  for (const char* const draft : {"draft2020-12", "draft7"}) {
    for (const std::string& file : testing::golden_schemas(std::string("suite/") + draft)) {
      for (const Json& group : read_json_file(file)) {
        Json schema = group["schema"];
        if (schema.is_object() && !schema.contains("$schema") && std::string_view(draft) == "draft7")
          schema["$schema"] = "http://json-schema.org/draft-07/schema#";
        check_form(schema, file + ": " + group["description"].get<std::string>(), 3, counts);
      }
    }
  }
  report(counts);
}

TEST(JsonFormGolden, RealSchemasKeepATextAndDrawValidOnes) {
  Counts counts;
  for (const std::string& file : testing::golden_schemas("real"))
    check_form(read_json_file(file)["schema"], file, 4, counts);
  report(counts);
}

TEST(JsonFormGolden, ArgumentsOfToolsKeepATextAndDrawValidOnes) {
  Counts counts;
  for (const std::string& file : testing::golden_schemas("tools")) {
    const Json test = read_json_file(file);
    for (const Json& tool : test["tools"]) {
      const Json& function = tool.contains("function") ? tool["function"] : tool;
      check_form(function["parameters"], file, 2, counts);
    }
  }
  report(counts);
}

}  // namespace
}  // namespace quire
