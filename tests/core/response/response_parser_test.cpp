// Guarantees of the response parser beyond the golden cases.
#include <random>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/response/response_fixture.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

constexpr const char* kTools =
    R"([{"type": "function", "function": {"name": "go", "parameters": {"type": "object",
  "properties": {"text": {"type": "string"}, "count": {"type": "integer"}, "any": {},
                 "maybe": {"type": ["string", "null"]}, "flag": {"type": "boolean"}, "list": {"type": "array"}}}}}])";

Answer answer(std::string_view dialect, std::string text, const char* tools = "") {
  return {&find_dialect(dialect), tools, ReasoningStart::closed, "", std::move(text)};
}

std::string arguments_of(std::string_view dialect, const std::string& text, const char* tools = kTools) {
  const ReadResponse response = read_events(events_of(answer(dialect, text, tools)));
  return response.calls.size() == 1 ? response.calls[0].arguments
                                    : std::to_string(response.calls.size()) + " calls";
}

TEST(ResponseParser, AMarkWithoutACallIsText) {
  for (const std::string text :
       {"Write <tool_call> around it", "a <tool_call>", "<tool_call>[]</tool", "{\"a\": 1}"}) {
    EXPECT_EQ(read_events(events_of(answer("hermes", text))).content, text);
  }
  EXPECT_EQ(read_events(events_of(answer("llama3_json", "{\"a\": 1} [1]"))).content, "{\"a\": 1} [1]");
  EXPECT_EQ(read_events(events_of(answer("pythonic", "[see](url) f(x)"))).content, "[see](url) f(x)");
  for (const std::string text : {"a [[] 7", "[]", "see [ ] b"})
    EXPECT_EQ(read_events(events_of(answer("pythonic", text))).content, text);
}

TEST(ResponseParser, AnIncompleteClosingMarkAtTheEndIsMarkup) {
  const auto read = [](std::string_view dialect, const std::string& text) {
    return read_events(events_of(answer(dialect, text, kTools)));
  };
  EXPECT_EQ(read("hermes", "<think>hm\n</thi").reasoning, "hm");
  EXPECT_EQ(read("hermes", "<think>a < b").reasoning, "a < b");
  const std::string call = "<tool_call>\n{\"name\": \"go\", \"arguments\": {\"count\": 1}}";
  EXPECT_EQ(read("hermes", call + "\n</tool_ca").content, "");
  EXPECT_EQ(read("hermes", call + "\n</tool_ca").calls.size(), 1U);
  EXPECT_EQ(read("hermes", call + "</tool_call> so <tool_ca").content, "so <tool_ca");
  EXPECT_EQ(arguments_of("glm", "<tool_call>go<arg_key>text</arg_key><arg_value>42</arg_v"),
            R"({"text": "42)");
  EXPECT_EQ(arguments_of("qwen3_coder", "<tool_call>\n<function=go>\n<parameter=text>\n42\n</par"),
            R"({"text": "42)");
}

TEST(ResponseParser, ABareCallOfAnUnknownToolIsText) {
  const std::string text = R"({"name": "other", "parameters": {}})";
  EXPECT_EQ(read_events(events_of(answer("llama3_json", text, kTools))).content, text);
  EXPECT_EQ(read_events(events_of(answer("pythonic", "[other(a=1)]", kTools))).content, "[other(a=1)]");
}

TEST(ResponseParser, TheSchemaDecidesWhichValuesAreStrings) {
  const auto call = [](const std::string& key, const std::string& value) {
    return "<tool_call>go<arg_key>" + key + "</arg_key><arg_value>" + value + "</arg_value></tool_call>";
  };
  EXPECT_EQ(arguments_of("glm", call("text", "42")), R"({"text": "42"})");
  EXPECT_EQ(arguments_of("glm", call("count", "42")), R"({"count": 42})");
  EXPECT_EQ(arguments_of("glm", call("count", "many")), R"({"count": "many"})");
  EXPECT_EQ(arguments_of("glm", call("any", "42")), R"({"any": 42})");
  EXPECT_EQ(arguments_of("glm", call("any", "a \"b\"\n")), R"({"any": "a \"b\"\n"})");
  EXPECT_EQ(arguments_of("glm", call("maybe", "null")), R"({"maybe": null})");
  EXPECT_EQ(arguments_of("glm", call("maybe", "7")), R"({"maybe": "7"})");
  EXPECT_EQ(arguments_of("glm", call("flag", "True")), R"({"flag": true})");
  EXPECT_EQ(arguments_of("glm", call("list", "['a', None]")), R"({"list": ["a", null]})");
}

TEST(ResponseParser, PythonValuesBecomeJson) {
  const auto go = [](const std::string& inside) {
    return arguments_of("lfm2", "<|tool_call_start|>[go(" + inside + ")]<|tool_call_end|>");
  };
  EXPECT_EQ(go("a='x', b=[1, -2.5e3, (True, None)]"), R"({"a": "x", "b": [1, -2.5e3, [true, null]]})");
  EXPECT_EQ(go("a={}, b={1: 'x'}, c={'k', 2}"), R"({"a": {}, "b": {"1": "x"}, "c": ["k", 2]})");
  EXPECT_EQ(go(R"(a='it\'s \x41\u00e9 \q', b="'")"), "{\"a\": \"it's A\\u00e9 \\\\q\", \"b\": \"'\"}");
  EXPECT_EQ(go("a='''x'y''', b=''"), R"({"a": "x'y", "b": ""})");
  EXPECT_EQ(go("a=word, b="), R"({"a": "word", "b": null})");
}

TEST(ResponseParser, ArgumentsGivenAsAStringWithAnObjectBecomeTheObject) {
  EXPECT_EQ(arguments_of("hermes", R"(<tool_call>{"name": "go", "arguments": "{\"a\": 1}"}</tool_call>)"),
            R"({"a": 1})");
  EXPECT_EQ(
      arguments_of("hermes", "<tool_call>{\"name\": \"go\", \"arguments\": {\"a\": \"b\nc\"}}</tool_call>"),
      R"({"a": "b\nc"})");
  EXPECT_EQ(arguments_of("hermes", R"(<tool_call>{"name": "go"}</tool_call>)"), "{}");
}

TEST(ResponseParser, StreamsStringArguments) {
  ResponseParser parser = answer("qwen3_coder", "", kTools).parser();
  parser.feed("<tool_call>\n<function=go>\n<parameter=text>\nhel");
  EXPECT_EQ(read_events(parser.take()).calls.at(0).arguments, "{\"text\": \"hel");
}

TEST(ResponseParser, ContinuesReasoningThatThePromptHasBegun) {
  Answer open = answer("hermes", " it</think>yes");
  open.prompt = "<|im_start|>assistant\n<think>\nconsider";
  EXPECT_EQ(read_events(events_of(open)).reasoning, " it");
  open.prompt = "<think>a</think> <|im_start|>assistant\n";
  EXPECT_EQ(read_events(events_of(open)).content, "ityes");
  open.start = ReasoningStart::off;
  EXPECT_EQ(read_events(events_of(open)).content, "it</think>yes");
}

TEST(ResponseParser, TextEventsEndAtCharacterBoundaries) {
  ResponseParser parser = answer("plain", "").parser();
  parser.feed("a\xC3");
  EXPECT_EQ(read_events(parser.take()).content, "a");
  parser.feed("\xA9");
  EXPECT_EQ(read_events(parser.take()).content, "\xC3\xA9");
  parser.feed("\xE6\x9D");
  EXPECT_TRUE(parser.take().empty());
  parser.finish();
  EXPECT_EQ(read_events(parser.take()).raw, "\xE6\x9D");
}

TEST(ResponseParser, DialectNamesAreUniqueAndFound) {
  for (const Dialect* dialect : all_dialects())
    EXPECT_EQ(&find_dialect(dialect->name), dialect) << dialect->name;
  EXPECT_THROW((void)find_dialect("Hermes"), Error);
}

TEST(ToolSet, MalformedToolListsAreRefused) {
  for (const char* text :
       {"{}", "[1]", R"([{"function": {}}])", R"([{"name": ""}])", R"([{"name": "a"}, {"name": "a"}])"}) {
    EXPECT_THROW((void)ToolSet::parse(text), Error) << text;
  }
  EXPECT_EQ(ToolSet::parse(R"([{"name": "a", "input_schema": {}}])").tools().size(), 1U);
}

// Text pieces made of the dialect's own marks and of the texts that come between them.
std::vector<std::string> pieces_of(const Dialect& dialect) {
  std::vector<std::string> pieces = {" ",
                                     "\n",
                                     "x",
                                     "go",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     "(",
                                     ")",
                                     "\"",
                                     "'",
                                     ":",
                                     ",",
                                     "=",
                                     "\\",
                                     "{\"name\": \"go\", \"arguments\": ",
                                     "{\"a\": 1}",
                                     "\xC3",
                                     "\xA9",
                                     "1"};
  const auto add = [&](const auto& marks) {
    for (const std::string_view mark : marks) pieces.emplace_back(mark);
  };
  add(dialect.reasoning.opens);
  add(dialect.reasoning.closes);
  add(dialect.noise);
  add(dialect.messages.header_begins);
  add(dialect.messages.header_starts);
  add(dialect.messages.body_ends);
  pieces.emplace_back(dialect.messages.header_end);
  for (const CallForm& form : dialect.forms) {
    for (const Marks& marks :
         {form.opens, form.closes, form.separators, form.tagged.body_begins, form.tagged.ends})
      add(marks);
    const ParameterSyntax& parameter = form.tagged.parameter;
    for (const std::string_view mark :
         {form.tagged.begin, form.tagged.id_begin, form.tagged.id_end, parameter.begin, parameter.key_end,
          parameter.value_begin, parameter.value_end}) {
      pieces.emplace_back(mark);
    }
  }
  return pieces;
}

TEST(ResponseParser, RandomInputLosesNoByteAndDoesNotDependOnPieces) {
  std::mt19937 random(7);
  for (const Dialect* dialect : all_dialects()) {
    const std::vector<std::string> pieces = pieces_of(*dialect);
    for (int round = 0; round < 200; ++round) {
      Answer garbled{dialect, round % 2 == 0 ? kTools : "", static_cast<ReasoningStart>(round % 3), "", ""};
      const size_t num_pieces = 1 + random() % 24;
      for (size_t i = 0; i < num_pieces; ++i) garbled.text += pieces[random() % pieces.size()];
      const auto events = events_of(garbled);
      ASSERT_EQ(read_events(events).raw, garbled.text) << dialect->name;
      const std::vector<size_t> sizes = {random() % 7, random() % 7, random() % 7};
      ASSERT_EQ(describe(events_in_pieces(garbled, sizes)), describe(events)) << dialect->name << "\n"
                                                                              << garbled.text;
    }
  }
}

bool writes_json(const CallForm& form) {
  return form.body != CallBody::python && form.arguments == ArgumentSyntax::json;
}

// The arguments of a call that has ended are always a JSON object, whatever comes between its marks, brackets
// and quotes.
TEST(ResponseParser, OtherNotationsBecomeJson) {
  std::mt19937 random(11);
  for (const Dialect* dialect : all_dialects()) {
    if (dialect->forms.empty() || writes_json(dialect->forms[0])) continue;
    const std::vector<std::string> pieces = pieces_of(*dialect);
    for (int round = 0; round < 2000 / testing::stride_if_sanitized(40); ++round) {
      Answer garbled{dialect, kTools, ReasoningStart::closed, "", ""};
      const CallForm& form = dialect->forms[0];
      if (!form.opens.empty()) garbled.text += form.opens[0];
      garbled.text += std::string(form.tagged.begin) + "go";
      garbled.text += form.body == CallBody::python     ? std::string_view("(")
                      : form.tagged.body_begins.empty() ? std::string_view()
                                                        : form.tagged.body_begins[0];
      for (size_t i = 0; i < random() % 16; ++i) {
        const std::string& piece = pieces[random() % pieces.size()];
        if (!piece.empty() && static_cast<unsigned char>(piece[0]) < 0x80) garbled.text += piece;
      }
      for (const ReadCall& call : read_events(events_of(garbled)).calls) {
        if (!call.ended) continue;
        ASSERT_TRUE(nlohmann::json::parse(call.arguments, nullptr, false).is_object())
            << dialect->name << "\n"
            << garbled.text << "\n"
            << call.arguments;
      }
    }
  }
}

}  // namespace
}  // namespace quire
