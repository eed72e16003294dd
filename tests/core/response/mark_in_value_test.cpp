// Arguments with marks of their own: marks inside of a value, and values without a closing mark.
#include <gtest/gtest.h>

#include "tests/core/response/response_fixture.h"
#include "tests/core/response/written_calls.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

constexpr const char* kTools = R"([{"type": "function", "function": {"name": "note", "parameters": {
  "type": "object", "properties": {"body": {"type": "string"}, "day": {"type": "integer"},
  "loud": {"type": "boolean"}, "list": {"type": "array", "items": {"type": "string"}}}}}}])";

std::vector<const Dialect*> dialects_with_parameters() {
  std::vector<const Dialect*> dialects;
  for (const Dialect* dialect : all_dialects()) {
    if (!dialect->forms.empty() && dialect->forms[0].arguments == ArgumentSyntax::parameters)
      dialects.push_back(dialect);
  }
  return dialects;
}

std::string with_key(std::string_view mark, const std::string& key) {
  std::string text(mark);
  if (const size_t pos = text.find(kKeyPlaceholder); pos != std::string::npos) text.replace(pos, 1, key);
  return text;
}

// Returns the marks of a dialect's calls.
std::vector<std::string> marks_of(const Dialect& dialect) {
  const CallForm& form = dialect.forms[0];
  std::vector<std::string> marks = {with_key(form.tagged.parameter.value_end, "body"),
                                    std::string(form.tagged.parameter.begin)};
  if (!form.tagged.begin.empty()) marks.emplace_back(form.tagged.begin);
  for (const Marks& some : {form.opens, form.closes, form.tagged.ends}) {
    for (const std::string_view mark : some) marks.emplace_back(mark);
  }
  return marks;
}

// Returns the value that a JSON reader takes from the arguments of the only call.
nlohmann::json value_of(const Answer& answer) {
  const ReadResponse response = read_events(events_of(answer));
  EXPECT_EQ(response.raw, answer.text);
  if (response.calls.size() != 1 || !response.calls[0].ended) return describe(events_of(answer));
  return nlohmann::json::parse(response.calls[0].arguments, nullptr, false);
}

void expect_value(const Dialect& dialect, const std::string& text, const nlohmann::json& right,
                  const char* tools = kTools) {
  const Answer answer{&dialect, tools, ReasoningStart::closed, "", text};
  EXPECT_EQ(value_of(answer), right) << dialect.name << "\n" << text;
  const std::string whole = describe(events_of(answer));
  for (size_t size = 1; size < text.size(); size += testing::stride_if_sanitized(31))
    ASSERT_EQ(describe(events_in_pieces(answer, {size})), whole) << text << ", split at " << size;
  ASSERT_EQ(describe(events_in_pieces(answer, std::vector<size_t>(text.size(), 1))), whole);
}

TEST(MarkInValue, IsPartOfTheValue) {
  for (const Dialect* dialect : dialects_with_parameters()) {
    const WrittenCall call = write_parameter_call(*dialect, "note");
    for (const std::string& mark : marks_of(*dialect)) {
      for (const std::string& body : {"the mark " + mark + " ends a value", mark + " x", "x" + mark,
                                      "a\n" + mark + "\nb", mark + mark + "!"}) {
        const std::string day = write_parameter(*dialect, "day", "4", false);
        const std::string text = write_parameter(*dialect, "body", body, true);
        expect_value(*dialect, call.before + text + day + call.after, {{"body", body}, {"day", 4}});
        expect_value(*dialect, call.before + day + text + call.after, {{"body", body}, {"day", 4}});
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(MarkInValue, IsPartOfAStringInJson) {
  for (const Dialect* dialect : dialects_with_parameters()) {
    if (dialect->forms[0].tagged.parameter.elements) continue;
    const WrittenCall call = write_parameter_call(*dialect, "note");
    const std::string mark = with_key(dialect->forms[0].tagged.parameter.value_end, "list");
    const nlohmann::json list = {"a " + mark, mark + call.after};
    const std::string text = write_parameter(*dialect, "list", list.dump(), false);
    expect_value(*dialect, call.before + text + call.after, {{"list", list}});
  }
}

TEST(ValueWithoutAClosingMark, EndsAtTheNextArgument) {
  for (const Dialect* dialect : dialects_with_parameters()) {
    const ParameterSyntax& syntax = dialect->forms[0].tagged.parameter;
    if (syntax.elements) continue;
    const WrittenCall call = write_parameter_call(*dialect, "note");
    const std::string loud = write_parameter(*dialect, "loud", "true", false);
    for (const char* const key : {"day", "body"}) {
      const bool is_text = key == std::string("body");
      std::string open = write_parameter(*dialect, key, "4", is_text);
      open.resize(open.rfind(with_key(syntax.value_end, key)));
      const nlohmann::json value = is_text ? nlohmann::json("4") : nlohmann::json(4);
      expect_value(*dialect, call.before + open + loud + call.after, {{key, value}, {"loud", true}});
      expect_value(*dialect, call.before + loud + open + call.after, {{"loud", true}, {key, value}});
      if (!is_text)
        expect_value(*dialect, call.before + open + loud + call.after, {{key, value}, {"loud", true}}, "[]");
    }
  }
}

TEST(ValueWithoutAClosingMark, DoesNotEndAtAnArgumentThatTheToolLacks) {
  for (const Dialect* dialect : dialects_with_parameters()) {
    if (dialect->forms[0].tagged.parameter.elements) continue;
    const WrittenCall call = write_parameter_call(*dialect, "note");
    const std::string other = write_parameter(*dialect, "other", "1", false);
    const std::string body = "a\n" + other + "b";
    expect_value(*dialect, call.before + write_parameter(*dialect, "body", body, true) + call.after,
                 {{"body", body}});
  }
}

TEST(ValueWithoutAClosingMark, ElementsOfTheSameNameAreInsideOfEachOther) {
  const Dialect& dialect = find_dialect("minimax_m3");
  const WrittenCall call = write_parameter_call(dialect, "go");
  const std::string inner = write_parameter(dialect, "a", "1", false);
  const std::string text = call.before + write_parameter(dialect, "a", inner, false) + call.after;
  const char* const tools =
      R"([{"name": "go", "parameters": {"type": "object", "properties": {"a": {"type": "object", "properties":
          {"a": {"type": "integer"}}}}}}])";
  expect_value(dialect, text, {{"a", {{"a", 1}}}}, tools);
}

TEST(MarkInValue, TheEndOfAVerbatimTextIsFollowedByAMark) {
  const Dialect& dialect = find_dialect("minicpm5");
  const WrittenCall call = write_parameter_call(dialect, "note");
  const std::string body = "a[0]]> b </param>";
  const std::string text = write_parameter(dialect, "body", "<![CDATA[" + body + "]]>", true);
  expect_value(dialect, call.before + text + call.after, {{"body", body}});
}

TEST(MarkInValue, TextThatMayBecomeAMarkIsHeldBack) {
  const Dialect& dialect = find_dialect("qwen3_coder");
  ResponseParser parser(dialect, ToolSet::parse(kTools), ReasoningStart::closed);
  parser.feed("<tool_call>\n<function=note>\n<parameter=body>\nthe mark </parameter>");
  EXPECT_EQ(read_events(parser.take()).calls.at(0).arguments, R"({"body": "the mark )");
  parser.feed(" ends");
  std::string arguments;
  for (const ResponseEvent& event : parser.take()) arguments += event.text;
  EXPECT_EQ(arguments, "</parameter> ends");
}

}  // namespace
}  // namespace quire
