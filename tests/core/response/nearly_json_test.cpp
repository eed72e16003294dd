// Arguments that are nearly JSON: they become JSON that every reader accepts, in every dialect and however
// the answer arrives.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "core/response/json_number.h"
#include "core/response/loose_reader.h"
#include "tests/core/response/response_fixture.h"
#include "tests/core/response/written_calls.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

constexpr const char* kTools = R"([{"type": "function", "function": {"name": "note", "parameters": {
  "type": "object", "properties": {"body": {"type": "string"}, "day": {"type": "integer"},
  "loud": {"type": "boolean"}, "any": {"type": "array"}, "map": {"type": "object"}}}}}])";

struct Repair {
  std::string written;
  std::string right;
};

const std::vector<Repair>& repairs() {
  static const auto* const kRepairs = new std::vector<Repair>{
      {R"({"body": "a", "day": 4,})", R"({"body": "a", "day": 4})"},
      {R"({"body": "C:\Users\d"})", R"({"body": "C:\\Users\\d"})"},
      {R"({"body": "it\'s \x41"})", R"({"body": "it's \\x41"})"},
      {R"({"body": "\u12"})", R"({"body": "\\u12"})"},
      {R"({"day": 04})", R"({"day": 4})"},
      {R"({"day": -007, "any": [00, 00.5, +3, .5, 5., 1_000]})",
       R"({"day": -7, "any": [0, 0.5, 3, 0.5, 5.0, 1000]})"},
      {R"({'body': 'it is "so"', 'day': 4})", R"({"body": "it is \"so\"", "day": 4})"},
      {R"({'body': 'it's'})", R"({"body": "it's"})"},
      {R"({"loud": True, "any": [None, False]})", R"({"loud": true, "any": [null, false]})"},
      {"{\"body\": \"a\nb\tc\"}", R"({"body": "a\nb\tc"})"},
      {R"({"body": "he said "hi" twice", "day": 4})", R"({"body": "he said \"hi\" twice", "day": 4})"},
      {R"({"body": "a" "day": 4 "loud": true})", R"({"body": "a", "day": 4, "loud": true})"},
      {R"({body: "a", day: 4})", R"({"body": "a", "day": 4})"},
      {R"({"any": [1, 2,], "map": {"b": {},},})", R"({"any": [1, 2], "map": {"b": {}}})"},
      {R"({"any": [1, 2})", R"({"any": [1, 2]})"},
      {R"({"any": (1, 2)})", R"({"any": [1, 2]})"},
      {R"({"day": 1e999, "any": [NaN, -Infinity]})", R"({"day": "1e999", "any": ["NaN", "-Infinity"]})"},
      {R"({"body": "\ud83d", "any": ["\udc00", "\ud83d\ude00"]})",
       R"({"body": "\ufffd", "any": ["\ufffd", "\ud83d\ude00"]})"},
      {"{\"body\": \"\xFF\"}", R"({"body": "\ufffd"})"},
      {"{\"body\": \"\xE6\x9D\"}", R"({"body": "\ufffd\ufffd"})"},
      {R"({"day": tomorrow})", R"({"day": "tomorrow"})"},
      {R"({"day":})", R"({"day": null})"}};
  return *kRepairs;
}

const std::vector<std::string>& valid_texts() {
  static const auto* const kTexts = new std::vector<std::string>{
      "{}",
      "{ }",
      R"({"a":1})",
      "{\n  \"a\" : [ 1 , -2.50E+3, 0, -0, 1e-7 ] ,\t\"b\":{ \"c\":null,\"\":true } }",
      R"({"a": "\" \\ \/ \b \f \n \r \t \u00e9 \ud83d\ude00", "b}": "{]"})",
      R"({"a": "x</tool_call>\n[", "b": [[], [{}], ""]})",
      "{\"a\": \"\xC3\xA9\xF0\x9F\x98\x80\x7F\"" + std::string(200, ' ') + ", \"b\":1}"};
  return *kTexts;
}

// Returns a reason why a reader of JSON would refuse the arguments of a call; empty if there is none.
// nlohmann's parser is strict about UTF-8 and surrogates.
std::string fault_of(const std::string& arguments) {
  const nlohmann::json value = nlohmann::json::parse(arguments, nullptr, false);
  if (value.is_discarded()) return "not JSON";
  if (!value.is_object()) return "no object";
  size_t depth = 0, most = 0;
  bool in_string = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (in_string && arguments[i] == '\\') {
      ++i;
    } else if (arguments[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && (arguments[i] == '{' || arguments[i] == '[')) {
      most = std::max(most, ++depth);
    } else if (!in_string && (arguments[i] == '}' || arguments[i] == ']')) {
      --depth;
    }
  }
  return most > 64 ? "too deep" : "";
}

Answer answer_of(const Dialect& dialect, std::string text) {
  return {&dialect, kTools, ReasoningStart::closed, "", std::move(text)};
}

std::string arguments_of(const Answer& answer) {
  const ReadResponse response = read_events(events_of(answer));
  if (response.calls.size() != 1 || !response.calls[0].ended) return describe(events_of(answer));
  EXPECT_EQ(response.raw, answer.text);
  return response.calls[0].arguments;
}

void expect_same_in_pieces(const Answer& answer) {
  const std::string whole = describe(events_of(answer));
  for (size_t size = 1; size < answer.text.size(); size += testing::stride_if_sanitized(31)) {
    ASSERT_EQ(describe(events_in_pieces(answer, {size})), whole) << answer.text << ", split at " << size;
  }
}

void expect_arguments(const Answer& answer, const std::string& right) {
  const std::string found = arguments_of(answer);
  EXPECT_EQ(fault_of(found), "") << found;
  EXPECT_EQ(nlohmann::json::parse(found, nullptr, false), nlohmann::json::parse(right))
      << answer.dialect->name << "\n"
      << answer.text << "\n"
      << found;
  expect_same_in_pieces(answer);
}

std::vector<const Dialect*> json_dialects() {
  std::vector<const Dialect*> dialects;
  for (const Dialect* dialect : all_dialects()) {
    if (writes_json(*dialect)) dialects.push_back(dialect);
  }
  return dialects;
}

TEST(NearlyJson, BecomesJsonInEveryDialectThatWritesJson) {
  EXPECT_GE(json_dialects().size(), 25U);
  for (const Dialect* dialect : json_dialects()) {
    const WrittenCall call = write_json_call(*dialect, "note");
    for (const Repair& repair : repairs()) {
      expect_arguments(answer_of(*dialect, call.before + repair.written + call.after), repair.right);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(NearlyJson, JsonIsHandedOutByteForByte) {
  for (const Dialect* dialect : json_dialects()) {
    const WrittenCall call = write_json_call(*dialect, "note");
    for (const std::string& text : valid_texts()) {
      EXPECT_EQ(arguments_of(answer_of(*dialect, call.before + text + call.after)), text) << dialect->name;
    }
  }
}

TEST(NearlyJson, ClosingBracketsThatAreMissingAreAdded) {
  for (const Dialect* dialect : json_dialects()) {
    const WrittenCall call = write_json_call(*dialect, "note");
    const std::string right = R"({"body": "a", "map": {"b": [4]}})";
    for (const char* const written :
         {R"({"body": "a", "map": {"b": [4)", R"({"body": "a", "map": {"b": [4])",
          R"({"body": "a", "map": {"b": [4]})", R"({"body": "a", "map": {"b": [4]}})"}) {
      expect_arguments(answer_of(*dialect, call.before + written), right);
      // The brackets around a list of calls and the object of a call may be missing too.
      const size_t mark = call.after.find_first_not_of("]}");
      const std::string closing = mark == std::string::npos ? std::string() : call.after.substr(mark);
      if (closing.size() > 1) expect_arguments(answer_of(*dialect, call.before + written + closing), right);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(NearlyJson, AStringBeforeTheEndOfTheCallIsClosed) {
  for (const Dialect* dialect : json_dialects()) {
    const WrittenCall call = write_json_call(*dialect, "note");
    expect_arguments(answer_of(*dialect, call.before + R"({"body": "a")"), R"({"body": "a"})");
    const size_t mark = call.after.find_first_not_of("]}");
    if (mark == std::string::npos || call.after.size() - mark < 2) continue;
    expect_arguments(answer_of(*dialect, call.before + R"({"body": "a")" + "\n" + call.after.substr(mark)),
                     R"({"body": "a"})");
  }
}

TEST(NearlyJson, AnAnswerThatWasCutOffEndsNoCall) {
  for (const Dialect* dialect : json_dialects()) {
    const WrittenCall call = write_json_call(*dialect, "note");
    for (const char* const written : {R"({)", R"({"bo)", R"({"body")", R"({"body": )", R"({"body": "a)",
                                      R"({"body": "a",)", R"({"body": [)"}) {
      for (const ReadCall& read : read_events(events_of(answer_of(*dialect, call.before + written))).calls)
        EXPECT_FALSE(read.ended) << dialect->name << " " << written;
    }
    ResponseParser parser = answer_of(*dialect, "").parser();
    parser.feed(call.before + R"({"day": 4)");
    parser.finish(AnswerEnd::cut_off);
    const ReadResponse response = read_events(parser.take());
    ASSERT_EQ(response.calls.size(), 1U) << dialect->name;
    EXPECT_FALSE(response.calls[0].ended) << dialect->name;
  }
}

TEST(NearlyJson, ArgumentsThatAreNoObjectAreText) {
  for (const Dialect* dialect : json_dialects()) {
    const WrittenCall call = write_json_call(*dialect, "note");
    for (const char* const written : {"5", "[1]", "true", "tomorrow"}) {
      const ReadResponse response =
          read_events(events_of(answer_of(*dialect, call.before + written + call.after)));
      EXPECT_TRUE(response.calls.empty()) << dialect->name << " " << written;
      EXPECT_NE(response.content.find(written), std::string::npos)
          << dialect->name << " " << response.content;
    }
  }
}

TEST(NearlyJson, TheObjectAroundTheArgumentsIsRepairedToo) {
  const Dialect& hermes = find_dialect("hermes");
  const std::string right = R"({"day": 4})";
  for (const char* const call :
       {R"({'name': 'note', 'arguments': {'day': 04}})", R"({"name": "note", "arguments": {"day": 4},})",
        R"({"name": "note" "arguments": {"day": 4}})", R"({"name": "note", "arguments": {"day": 4}}})",
        R"({"arguments": {"day": 04,}, "name": "note"})", R"({"name": "note", "arguments": "{\"day\": 04}"})",
        R"({"name": "note", "id": None, "arguments": {"day": 4})"}) {
    expect_arguments(answer_of(hermes, "<tool_call>\n" + std::string(call) + "\n</tool_call>"), right);
  }
}

TEST(NearlyJson, CallsAfterARepairedOneAreRead) {
  const ReadResponse response =
      read_events(events_of(answer_of(find_dialect("hermes"),
                                      "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"body\": "
                                      "\"a\"\n</tool_call>\n<tool_call>\n{\"name\": "
                                      "\"note\", \"arguments\": {\"day\": 4}}}\n</tool_call>\n")));
  ASSERT_EQ(response.calls.size(), 2U);
  EXPECT_EQ(response.calls[0].arguments, R"({"body": "a"})");
  EXPECT_EQ(response.calls[1].arguments, R"({"day": 4})");
  EXPECT_EQ(response.content, "");
}

TEST(NearlyJson, BecomesJsonWhereEachArgumentHasMarks) {
  const std::vector<Repair> lists = {{"[1, 2,]", "[1, 2]"},
                                     {"['a', None]", R"(["a", null])"},
                                     {R"(["C:\d"])", R"(["C:\\d"])"},
                                     {"[04]", "[4]"},
                                     {"[\"a\nb\"]", R"(["a\nb"])"},
                                     {"[1, [2", "[1, [2]]"},
                                     {R"(["\ud800"])", R"(["\ufffd"])"},
                                     {"[1e999]", "\"[1e999]\""}};
  for (const Dialect* dialect : all_dialects()) {
    const bool has_marks =
        !dialect->forms.empty() && dialect->forms[0].arguments == ArgumentSyntax::parameters;
    if (!has_marks || dialect->forms[0].tagged.parameter.elements) continue;
    const WrittenCall call = write_parameter_call(*dialect, "note");
    for (const Repair& list : lists) {
      const std::string written = write_parameter(*dialect, "any", list.written, false);
      expect_arguments(answer_of(*dialect, call.before + written + call.after),
                       "{\"any\": " + list.right + "}");
    }
    const std::string day = write_parameter(*dialect, "day", "04", false);
    expect_arguments(answer_of(*dialect, call.before + day + call.after), R"({"day": 4})");
    const std::string body = write_parameter(*dialect, "body", "\xFF\"\\", true);
    expect_arguments(answer_of(*dialect, call.before + body + call.after), R"({"body": "\ufffd\"\\"})");
  }
}

TEST(NearlyJson, NestingThatReadersRefuseBreaksTheCallOff) {
  const auto nested = [](size_t depth) {
    return "{\"any\": " + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  for (const Dialect* dialect : json_dialects()) {
    const WrittenCall call = write_json_call(*dialect, "note");
    EXPECT_EQ(arguments_of(answer_of(*dialect, call.before + nested(64) + call.after)), nested(64));
    for (const ReadCall& read :
         read_events(events_of(answer_of(*dialect, call.before + nested(65) + call.after))).calls) {
      EXPECT_FALSE(read.ended) << dialect->name;
    }
  }
  const Dialect& glm = find_dialect("glm");
  const WrittenCall call = write_parameter_call(glm, "note");
  const std::string deep = write_parameter(glm, "any", std::string(64, '[') + std::string(64, ']'), false);
  EXPECT_EQ(fault_of(arguments_of(answer_of(glm, call.before + deep + call.after))), "");
}

// Any bytes as arguments: a call that ends has arguments that every reader takes.
TEST(NearlyJson, RandomArgumentsBecomeJson) {
  const std::vector<std::string> pieces = {"{",
                                           "}",
                                           "[",
                                           "]",
                                           "(",
                                           ")",
                                           "\"",
                                           "'",
                                           ",",
                                           ":",
                                           "=",
                                           "\\",
                                           "\\u",
                                           "d83d",
                                           "\\ud83d",
                                           "0",
                                           "1",
                                           "-",
                                           ".",
                                           "e9",
                                           "True",
                                           "None",
                                           "null",
                                           "a",
                                           " ",
                                           "\n",
                                           "\xC3",
                                           "\xA9",
                                           "\xF0\x9F\x98\x80",
                                           "\x01",
                                           "\"a\": ",
                                           "```"};
  std::mt19937 random(3);
  for (const Dialect* dialect : json_dialects()) {
    const WrittenCall call = write_json_call(*dialect, "note");
    for (int round = 0; round < 400 / testing::stride_if_sanitized(10); ++round) {
      std::string text = call.before + "{";
      for (size_t i = 0; i < random() % 20; ++i) text += pieces[random() % pieces.size()];
      if (random() % 2 == 0) text += call.after;
      const Answer answer = answer_of(*dialect, text);
      const auto events = events_of(answer);
      for (const ReadCall& read : read_events(events).calls) {
        if (read.ended) {
          ASSERT_EQ(fault_of(read.arguments), "") << dialect->name << "\n" << text << "\n" << read.arguments;
        }
      }
      const std::vector<size_t> sizes = {random() % text.size(), random() % 9, random() % 9};
      ASSERT_EQ(describe(events_in_pieces(answer, sizes)), describe(events)) << dialect->name << "\n" << text;
    }
  }
}

TEST(JsonNumber, ValidNumbersStayAsTheyAre) {
  for (const char* const number :
       {"0", "-0", "10", "1.50", "1e5", "1E-07", "-2.5e+10", "12345678901234567890123"})
    EXPECT_EQ(json_number(number), number);
  for (const char* const word :
       {"", "-", ".", "e5", "1e", "1.2.3", "0x1F", "1__0", "_1", "1_", "1e400", "--1"})
    EXPECT_EQ(json_number(word), "") << word;
  EXPECT_EQ(json_number(std::string(1001, '1')), "");
}

}  // namespace
}  // namespace quire
