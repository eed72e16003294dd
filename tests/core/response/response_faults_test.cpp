// Fault injection: every allocation of a response parser, a set of tools and the rules of an answer fails
// once, and from then on for ever. Nothing leaks, a copy made before goes on as before, and the same calls
// succeed once memory is back.
#include <functional>
#include <new>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/response/response_grammar.h"
#include "tests/core/response/response_fixture.h"
#include "tests/support/case_stride.h"
#include "tests/support/fault_loop.h"

namespace quire {
namespace {

using testing::AllocationFault;
using testing::FaultPoint;
using testing::for_each_fault;

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "weather_of_a_place", "parameters": {"type": "object",
    "properties": {"place": {"type": "string", "description": "a text that needs memory of its own"},
                   "days": {"type": "integer", "minimum": 1}, "units": {"enum": ["celsius", "fahrenheit"]}},
    "required": ["place"]}}},
  {"name": "search", "input_schema": {"type": "object", "properties": {"words": {"type": "array",
    "items": {"type": "string"}}, "deep": {"type": "object"}}}}])";

// Calls `act` with each fault; it returns a text that must be the same without one.
void expect_same_after_faults(const std::function<std::string()>& act, int64_t stride) {
  const std::string expected = act();
  const int64_t num_points = for_each_fault(
      [&](const FaultPoint& point) {
        SCOPED_TRACE(::testing::Message() << point);
        const int64_t live_before = testing::num_live_allocations();
        bool failed = false;
        {
          const AllocationFault fault(point.nth, point.span);
          try {
            (void)act();
          } catch (const std::bad_alloc&) {
            failed = true;
          }
          EXPECT_EQ(failed, fault.num_failed() > 0);
        }
        EXPECT_EQ(testing::num_live_allocations(), live_before);
        EXPECT_EQ(act(), expected);
        return failed && !::testing::Test::HasFailure();
      },
      stride);
  EXPECT_GT(num_points, 4);
}

std::string text_of(const ToolSet& tools) {
  std::string text;
  for (const ToolSet::Tool& tool : tools.tools()) {
    text += tool.name + ":";
    for (const JsonMember& member : *tool.parameters.as_object()) text += " " + member.key;
    text += tools.argument_schema(tool.name, "place").schema == nullptr ? "." : "!";
  }
  return text;
}

TEST(ResponseFaults, ToolsSurviveEveryFailedAllocation) {
  expect_same_after_faults([] { return text_of(ToolSet::parse(kTools)); }, 1);
}

TEST(ResponseFaults, RulesOfAnAnswerSurviveEveryFailedAllocation) {
  for (const char* const choice :
       {R"("required")", R"({"type": "function", "function": {"name": "weather_of_a_place"}})"}) {
    const std::string json =
        std::string(R"({"dialect": "hermes", "tools": )") + kTools + R"(, "tool_choice": )" + choice + "}";
    expect_same_after_faults(
        [&json] { return response_grammar(parse_response_rules(json, find_dialect("hermes")), {}); }, 3);
  }
}

// Answers of several dialects, with reasoning, text and calls.
std::vector<Answer> answers() {
  const auto of = [](const char* dialect, ReasoningStart start, const char* text) {
    Answer answer;
    answer.dialect = &find_dialect(dialect);
    answer.tools = kTools;
    answer.start = start;
    answer.text = text;
    return answer;
  };
  return {of("hermes", ReasoningStart::open,
             "It is a long thought.</think>Let me see. <tool_call>\n{\"name\": \"weather_of_a_place\", "
             "\"arguments\": {\"place\": \"Saint-\u00c9tienne\", \"days\": 3}}\n</tool_call> done"),
          of("qwen3_coder", ReasoningStart::closed,
             "<tool_call>\n<function=weather_of_a_place>\n<parameter=place>\nA town\n</parameter>\n"
             "<parameter=days>\n12\n</parameter>\n</function>\n</tool_call>")};
}

std::string read_rest(ResponseParser parser, std::string_view rest) {
  parser.feed(rest);
  parser.finish();
  return describe(parser.take());
}

TEST(ResponseFaults, AParserAndItsCopySurviveEveryFailedAllocation) {
  for (const Answer& answer : answers()) {
    for (size_t cut = 0; cut < answer.text.size(); cut += 17 * testing::stride_if_sanitized(4)) {
      const std::string_view text = answer.text;
      ResponseParser before = answer.parser();
      before.feed(text.substr(0, cut));
      const std::string_view rest = text.substr(cut);
      const std::string expected = read_rest(before, rest);
      for_each_fault(
          [&](const FaultPoint& point) {
            SCOPED_TRACE(::testing::Message()
                         << answer.dialect->name << " from byte " << cut << ": " << point);
            bool failed = false;
            ResponseParser parser = before;
            {
              const AllocationFault fault(point.nth, point.span);
              try {
                ResponseParser copy = before;
                parser.feed(rest);
                copy = parser;
                (void)parser.take();
              } catch (const std::bad_alloc&) {
                failed = true;
              }
              EXPECT_EQ(failed, fault.num_failed() > 0);
            }
            // A parser that failed in the middle of a change stays unusable.
            try {
              parser.feed(rest);
              parser.finish();
            } catch (const Error& error) {
              EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
            }
            (void)parser.take();
            EXPECT_EQ(read_rest(before, rest), expected);
            return failed && !::testing::Test::HasFailure();
          },
          3);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace quire
