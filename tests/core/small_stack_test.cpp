// Everything that recurses as deep as its input runs on the smallest stack of a caller: the deepest input
// that is accepted, and deeper ones, which are refused.
#include "tests/support/small_stack.h"

#include <functional>
#include <iostream>
#include <string>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/chat/chat_template.h"
#include "core/config/model_config.h"
#include "core/response/dialect_table.h"
#include "core/response/response_grammar.h"
#include "core/response/response_parser.h"
#include "core/tokenizer/regex.h"
#include "tests/core/constrained/constraint_fixture.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

using testing::deepest_accepted;
using testing::kMinStackBytes;
using testing::run_on_stack;

std::string times(size_t n, std::string_view text) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += text;
  return out;
}

// Returns `open` n times, `inner`, and `close` n times.
std::string nested(size_t n, std::string_view open, std::string_view inner, std::string_view close) {
  return times(n, open) + std::string(inner) + times(n, close);
}

void walk(ConstraintKind kind, const std::string& source) {
  Matcher matcher(compile(kind, source));
  TokenBits mask(matcher.constraint().vocabulary().num_words());
  for (int i = 0; i < 3; ++i) {
    matcher.mask(mask);
    const std::string forced = matcher.forced(4);
    if (!matcher.accept_text(forced.empty() ? "a" : forced)) break;
  }
}

// Returns a schema whose definitions refer to each other: `link` with each `@` replaced by a reference to the
// next one, and at the end `last`.
std::string chain(size_t n, std::string_view link, const std::string& last) {
  std::string text = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (size_t i = 0; i < n; ++i) {
    text += "\"d" + std::to_string(i) + "\": ";
    for (const char symbol : link) {
      if (symbol == '@') {
        text += R"({"$ref": "#/$defs/d)" + std::to_string(i + 1) + "\"}";
      } else {
        text += symbol;
      }
    }
    text += ", ";
  }
  return text + "\"d" + std::to_string(n) + "\": " + last + "}}";
}

void render(const std::string& source, const std::string& input = R"({"messages": [], "a": {"b": 1}})") {
  const auto chat = chat::ChatTemplate::compile(source);
  chat->render(parse_json(input, "input", {.max_depth = 1000}), {});
}

void read_answer(const std::string& text) {
  const ToolSet tools = ToolSet::parse(R"([{"name": "f", "parameters": {"properties": {"a": {}}}}])");
  for (const Dialect* const dialect : all_dialects()) {
    ResponseParser parser(*dialect, tools, ReasoningStart::closed);
    parser.feed(text);
    parser.finish();
    parser.take();
  }
}

void match(const std::string& pattern) {
  Regex regex(pattern, "pattern");
  const std::string text = times(3000, "ab ");
  RegexScratch scratch(text.size());
  static_cast<void>(regex.find(text, 0, scratch));
  regex.use_interpreter();
  static_cast<void>(regex.find(text, 0, scratch));
}

// An input that gets deeper with n.
struct Descent {
  const char* name;
  std::function<void(size_t n)> run;
  size_t most = 2000;  // of n, if there is no limit
};

std::ostream& operator<<(std::ostream& out, const Descent& descent) {
  return out << descent.name;
}

class SmallStack : public ::testing::TestWithParam<Descent> {};

TEST_P(SmallStack, HoldsTheDeepestInput) {
  if (testing::kIsSanitized) GTEST_SKIP() << "the frames of a sanitizer are several times as large";
  const auto& run = GetParam().run;
  const size_t most = GetParam().most;
  const size_t deepest = deepest_accepted(most, run);
  EXPECT_GE(deepest, 10U) << "inputs that occur are refused";
  const size_t num_used = run_on_stack(size_t{16} << 20, [&] { run(deepest); });
  RecordProperty("deepest", static_cast<int>(deepest));
  RecordProperty("stack_bytes", static_cast<int>(num_used));
  std::cout << deepest << " levels, " << num_used << " bytes\n";
  ASSERT_LE(num_used, kMinStackBytes) << deepest << " levels";
  run_on_stack(kMinStackBytes, [&] { run(deepest); });
  if (deepest == most) return;
  for (const size_t too_deep : {deepest + 1, 2 * deepest, 100 * deepest})
    EXPECT_THROW(run_on_stack(kMinStackBytes, [&] { run(too_deep); }), Error) << too_deep;
}

#define SCHEMA(source) walk(ConstraintKind::json_schema, source)
#define PATTERN(source) walk(ConstraintKind::regex, source)
#define GBNF(source) walk(ConstraintKind::gbnf, source)
#define LARK(source) walk(ConstraintKind::lark, source)

INSTANTIATE_TEST_SUITE_P(
    Json, SmallStack,
    ::testing::Values(
        Descent{"arrays", [](size_t n) { (void)parse_json(nested(n, "[", "1", "]"), "text").copy(); }},
        Descent{"objects",
                [](size_t n) { (void)parse_json(nested(n, R"({"a":)", "1", "}"), "text").copy(); }},
        Descent{"config", [](size_t n) {
                  const std::string deep = nested(n, "[", "1", "]");
                  try {
                    (void)parse_model_config(R"({"architectures": ["LlamaForCausalLM"], "x": )" + deep + "}");
                  } catch (const Error& error) {
                    if (std::string_view(error.what()).find("nested") != std::string_view::npos) throw;
                  }
                }}));

const std::string kLastPattern = R"({"type": "string", "pattern": ")" + nested(50, "(b|", "a", ")*") + "\"}";

INSTANTIATE_TEST_SUITE_P(
    Schemas, SmallStack,
    ::testing::Values(
        Descent{"references", [](size_t n) { SCHEMA(chain(n, "@", R"({"type": "null"})")); }},
        Descent{"references to a pattern", [](size_t n) { SCHEMA(chain(n, "@", kLastPattern)); }},
        Descent{"references to a cycle", [](size_t n) { SCHEMA(chain(n, "@", R"({"$ref": "#"})")); }},
        Descent{"all_of", [](size_t n) { SCHEMA(chain(n, R"({"allOf": [@, {"type": "object"}]})", "{}")); }},
        Descent{"any_of",
                [](size_t n) { SCHEMA(chain(n, R"({"anyOf": [{"type": "null"}, @]})", kLastPattern)); }},
        Descent{"one_of",
                [](size_t n) { SCHEMA(chain(n, R"({"oneOf": [{"type": "null"}, @]})", R"({"const": 1})")); }},
        Descent{"one_of in members",
                [](size_t n) {
                  SCHEMA(chain(n,
                               R"({"oneOf": [{"type": "object", "required": ["a"], "properties": {"a": @}},
                                   {"type": "object", "required": ["a"], "properties": {"a": {"type": "null"}}}]})",
                               "{}"));
                }},
        Descent{"not", [](size_t n) { SCHEMA(chain(n, R"({"not": @})", R"({"type": "null"})")); }},
        Descent{"if",
                [](size_t n) {
                  SCHEMA(
                      chain(n, R"({"if": {"type": "string"}, "then": @, "else": {"type": "null"}})", "{}"));
                }},
        Descent{"dependent schemas",
                [](size_t n) { SCHEMA(chain(n, R"({"dependentSchemas": {"a": @}})", "{}")); }},
        Descent{"property names",
                [](size_t n) { SCHEMA(chain(n, R"({"propertyNames": @})", kLastPattern)); }},
        Descent{"unevaluated members of a chain",
                [](size_t n) {
                  const std::string all = chain(n, R"({"allOf": [@], "properties": {"a": {}}})", "{}");
                  SCHEMA(R"({"unevaluatedProperties": false, )" + all.substr(1));
                }},
        Descent{"items", [](size_t n) { SCHEMA(nested(n, R"({"type": "array", "items": )", "{}", "}")); }},
        Descent{
            "members",
            [](size_t n) { SCHEMA(nested(n, R"({"type": "object", "properties": {"a": )", "{}", "}}")); }},
        Descent{"all_of in all_of",
                [](size_t n) { SCHEMA(nested(n, R"({"allOf": [)", kLastPattern, "]}")); }},
        Descent{"not in not", [](size_t n) { SCHEMA(nested(n, R"({"not": )", "{}", "}")); }},
        Descent{"unique items",
                [](size_t n) {
                  Matcher matcher(
                      compile(ConstraintKind::json_schema, R"({"type": "array", "uniqueItems": true})"));
                  const std::string item = nested(n, R"([{"a": )", "1", "}]");
                  if (!matcher.accept_text("[" + item + ", ")) throw Error(ErrorCode::capacity, "refused");
                  EXPECT_FALSE(matcher.accept_text(nested(n, R"([ {"a":)", "1", "}]") + "]"));
                },
                400},
        Descent{"constants", [](size_t n) { SCHEMA(R"({"const": )" + nested(n, "[", "1", "]") + "}"); }}));

INSTANTIATE_TEST_SUITE_P(
    Patterns, SmallStack,
    ::testing::Values(Descent{"groups", [](size_t n) { PATTERN(nested(n, "(", "a", ")")); }},
                      Descent{"choices", [](size_t n) { PATTERN(nested(n, "(b|", "a", ")")); }},
                      Descent{"repetitions", [](size_t n) { PATTERN(nested(n, "(a", "b", "){2}")); }},
                      Descent{"loops", [](size_t n) { PATTERN(nested(n, "(?:a|", "b", "c)*")); }},
                      Descent{"lookaheads", [](size_t n) { PATTERN(nested(n, "(?=a", "b", ").*")); }},
                      Descent{"options", [](size_t n) { PATTERN(times(n, "a?")); }},
                      Descent{"counts", [](size_t n) { PATTERN(times(n, "a{90}b")); }, 400}));

INSTANTIATE_TEST_SUITE_P(
    Grammars, SmallStack,
    ::testing::Values(
        Descent{"gbnf groups",
                [](size_t n) { GBNF("root ::= " + nested(n, "(\"b\" | \"c\" ", "root", ")")); }},
        Descent{"gbnf regular groups",
                [](size_t n) { GBNF("root ::= " + nested(n, "(\"b\" | \"c\" ", "\"a\"", ")+")); }},
        Descent{"gbnf repetitions", [](size_t n) { GBNF("root ::= \"a\" | \"b\" root" + times(n, "?")); }},
        Descent{"gbnf rules",
                [](size_t n) {
                  std::string source = "root ::= r0\n";
                  for (size_t i = 0; i < n; ++i)
                    source += "r" + std::to_string(i) + " ::= \"a\" r" + std::to_string(i + 1) + "*\n";
                  GBNF(source + "r" + std::to_string(n) + " ::= \"b\"");
                },
                300},
        Descent{"lark groups",
                [](size_t n) { LARK("start: " + nested(n, "(\"b\" | \"c\" ", "start", ")")); }},
        Descent{"lark optional groups",
                [](size_t n) { LARK("start: " + nested(n, "[\"b\" ", "start", "]")); }},
        Descent{"lark patterns in groups",
                [](size_t n) {
                  LARK("start: " + nested(n, "(\"b\" | ", "/" + nested(50, "(b|", "a", ")") + "/", ")"));
                }},
        Descent{"lark schemas in groups",
                [](size_t n) {
                  LARK("start: " + nested(n, "(\"b\" | ",
                                          "%json " + nested(40, R"({"allOf": [)", kLastPattern, "]}"), ")"));
                }},
        Descent{"grammars in a grammar",
                [](size_t n) {
                  const std::string inner = nested(n, "(\"b\" | \"c\" ", "start", ")");
                  LARK("start: " + nested(n, "(\"b\" | ",
                                          "%grammar {\"lark\": " + json_quoted("start: " + inner) + "}",
                                          ")"));
                }},
        Descent{
            "response rules", [](size_t n) {
              const std::string schema = nested(n, R"({"allOf": [)", "{}", "]}");
              const ResponseRules rules = parse_response_rules(
                  R"({"dialect": "hermes", "response_format": {"type": "json_schema", "json_schema": {"schema": )" +
                      schema + R"(}}, "tools": [{"name": "f", "parameters": )" + schema + "}]}",
                  find_dialect("hermes"));
              LARK(response_grammar(rules, {}));
            }}));

INSTANTIATE_TEST_SUITE_P(
    Templates, SmallStack,
    ::testing::Values(
        Descent{"brackets", [](size_t n) { render("{{ " + nested(n, "(", "1", ")") + " }}"); }},
        Descent{"lists", [](size_t n) { render("{{ " + nested(n, "[", "1", "]") + " }}"); }},
        Descent{"dicts", [](size_t n) { render("{{ " + nested(n, "{'a': ", "1", "}") + "|tojson }}"); }},
        Descent{"negations", [](size_t n) { render("{{ " + times(n, "not ") + "a }}"); }},
        Descent{"signs", [](size_t n) { render("{{ " + times(n, "-") + "1 }}"); }},
        Descent{"sums", [](size_t n) { render("{{ 1" + times(n, " + 1") + " }}"); }},
        Descent{"powers", [](size_t n) { render("{{ 1" + times(n, " ** 1") + " }}"); }},
        Descent{"ands", [](size_t n) { render("{{ a" + times(n, " and a") + " }}"); }},
        Descent{"conditions", [](size_t n) { render("{{ 1" + times(n, " if a else 1") + " }}"); }},
        Descent{"filters", [](size_t n) { render("{{ 'a'" + times(n, "|trim") + " }}"); }},
        Descent{"methods", [](size_t n) { render("{{ 'a'" + times(n, ".strip()") + " }}"); }},
        Descent{"tests", [](size_t n) { render("{{ " + nested(n, "(", "a", " is defined)") + " }}"); }},
        Descent{"subscripts", [](size_t n) { render("{{ " + nested(n, "a[", "'b'", "]|string") + " }}"); }},
        Descent{"calls",
                [](size_t n) {
                  render("{% macro m(x) %}{{ x }}{% endmacro %}{{ " + nested(n, "m(", "1", ")") + " }}");
                }},
        Descent{"ifs", [](size_t n) { render(nested(n, "{% if a %}", "x", "{% endif %}")); }},
        Descent{"elifs", [](size_t n) { render("{% if b %}" + times(n, "{% elif b %}x") + "{% endif %}"); }},
        Descent{"loops", [](size_t n) { render(nested(n, "{% for i in [1] %}", "x", "{% endfor %}")); }},
        Descent{"filter blocks",
                [](size_t n) { render(nested(n, "{% filter trim %}", "x", "{% endfilter %}")); }},
        Descent{"set blocks", [](size_t n) { render(nested(n, "{% set x %}", "x", "{% endset %}")); }},
        Descent{"macros in macros",
                [](size_t n) { render(nested(n, "{% macro m() %}", "x", "{% endmacro %}{{ m() }}")); }},
        Descent{"recursion",
                [](size_t n) {
                  render("{% macro m(n) %}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(" +
                         std::to_string(n) + ") }}");
                }},
        Descent{"recursion in expressions",
                [](size_t n) {
                  render("{% macro m(n) %}{{ (n > 0 and [m(n - 1)|trim|upper]) or '' }}{% endmacro %}{{ m(" +
                         std::to_string(n) + ") }}");
                }},
        Descent{"recursion in loops and calls",
                [](size_t n) {
                  render(
                      "{% macro m(n) %}{% for i in [1] %}{% if n > 0 %}{% call w() %}{{ m(n - 1) }}{% "
                      "endcall %}{% endif %}"
                      "{% endfor %}{% endmacro %}{% macro w() %}{{ caller() }}{% endmacro %}{{ m(" +
                      std::to_string(n) + ") }}");
                }},
        Descent{"recursive loops",
                [](size_t n) {
                  render("{% set ns = namespace(n=" + std::to_string(n) +
                         ") %}{% for i in [1] recursive %}{% set ns.n = ns.n - 1 %}{% if ns.n > 0 %}{{ "
                         "loop([1]) }}{% endif %}{% endfor %}");
                }},
        Descent{"values",
                [](size_t n) {
                  render("{% set ns = namespace(v=[1], w=[1]) %}{% for i in range(" + std::to_string(n) +
                         ") %}{% set ns.v = [ns.v] %}{% set ns.w = [ns.w] %}{% endfor %}{{ ns.v == ns.w }}{{ "
                         "ns.v|tojson }}"
                         "{{ ns.v|string }}{{ ns.v in [ns.w] }}{{ [ns.v, ns.w]|sort|length }}");
                }},
        Descent{"inputs",
                [](size_t n) {
                  render("{{ a|tojson }}{{ a }}",
                         R"({"messages": [], "a": )" + nested(n, R"([{"b": )", "1", "}]") + "}");
                },
                400}));

INSTANTIATE_TEST_SUITE_P(
    Answers, SmallStack,
    ::testing::Values(
        Descent{"json",
                [](size_t n) {
                  read_answer(R"(<tool_call>{"name": "f", "arguments": {"a": )" + nested(n, "[", "1", "]") +
                              "}}</tool_call>");
                }},
        Descent{"functions",
                [](size_t n) {
                  read_answer("<function=f><parameter=a>" + nested(n, "[{'a': ", "1", "}]") +
                              "</parameter></function>");
                }},
        Descent{"pythonic", [](size_t n) { read_answer("[f(a=" + nested(n, "[{'a': ", "1", "}]") + ")]"); }},
        Descent{"elements", [](size_t n) {
                  read_answer("<minimax:tool_call><invoke name=\"f\"><a>" + nested(n, "<b>", "1", "</b>") +
                              "</a></invoke></minimax:tool_call>");
                }}));

INSTANTIATE_TEST_SUITE_P(
    Tokenizers, SmallStack,
    ::testing::Values(Descent{"regex groups", [](size_t n) { match(nested(n, "(?:", "a", "|b)")); }},
                      Descent{"regex loops", [](size_t n) { match(nested(n, "(?:a|", "b", ")*")); }},
                      Descent{"regex lookaheads", [](size_t n) { match(nested(n, "(?=", "a", ")")); }},
                      Descent{"regex classes", [](size_t n) { match(times(n, "[^\\s\\p{L}]?")); }}));

// A value from memory may be deeper than any parser accepts.
TEST(SmallStackTest, DestroysAnyJson) {
  if (testing::kIsSanitized) GTEST_SKIP() << "the frames of a sanitizer are several times as large";
  JsonValue value;
  for (int i = 0; i < 300'000; ++i) {
    JsonValue::Array items;
    if (i % 3 == 0) items.emplace_back(int64_t{1});
    items.push_back(std::move(value));
    if (i % 5 == 0) items.emplace_back(std::string("a text that is longer than a short string"));
    if (i % 2 == 0) {
      value = JsonValue(std::move(items));
      continue;
    }
    JsonValue::Object members;
    for (JsonValue& item : items) members.push_back({"key", std::move(item)});
    value = JsonValue(std::move(members));
  }
  run_on_stack(kMinStackBytes, [&] { value = JsonValue(); });
  EXPECT_TRUE(value.is_null());
}

}  // namespace
}  // namespace quire
