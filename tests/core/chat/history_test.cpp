// Conversations as clients send them, in the form that a template needs.
#include "core/chat/history.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/core/chat/chat_fixture.h"
#include "tests/support/expect_error.h"

namespace quire::chat {
namespace {

using quire::testing::expect_error;
using quire::testing::parsed;

RenderedChat render_with(const std::string& source, Json input) {
  if (!input.is_object()) input = Json{{"messages", std::move(input)}};
  return render_history(*ChatTemplate::compile(source), parsed(input), TemplateContext{});
}

std::string prompt_of(const std::string& source, const Json& input) {
  return render_with(source, input).text;
}

// Returns the changes as texts such as "messages[0].role: developer_as_system".
std::vector<std::string> changes_of(const std::string& source, const Json& input) {
  std::vector<std::string> out;
  for (const HistoryChange& change : render_with(source, input).changes)
    out.push_back(change.field + ": " + std::string(adaptation_name(change.adaptation)));
  return out;
}

using Lines = std::vector<std::string>;

Json message_of(const std::string& role, const Json& content) {
  return {{"role", role}, {"content", content}};
}

Json call_of(const std::string& id, const std::string& name, const Json& arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
}

// A question, an answer that calls, and the result.
Json turn_with_call(const Json& content, const Json& arguments, const std::string& id = "a1") {
  Json answer = message_of("assistant", content);
  answer["tool_calls"] = Json::array({call_of(id, "clock", arguments)});
  Json result = message_of("tool", "noon");
  result["tool_call_id"] = id;
  return Json::array({message_of("user", "go"), answer, result});
}

const char* const kTextArguments =
    "{% for m in messages %}[{{ m.role }}]{% for c in m.tool_calls or [] %}{{ c.function.name + ' ' + "
    "c.function.arguments }}{% endfor %}{{ m.content or '' }}\n{% endfor %}";
const char* const kObjectArguments =
    "{% for m in messages %}[{{ m.role }}]{% for c in m.tool_calls or [] %}{{ c.function.name }} {{ "
    "c.function.arguments | tojson }}{% endfor %}{{ m.content or '' }}\n{% endfor %}";
// Alternates between user and assistant, after at most one system message.
const char* const kAlternating =
    "{% if messages[0].role == 'system' %}<{{ messages[0].content }}>{% set rest = messages[1:] %}{% else "
    "%}{% set rest = messages %}{% endif %}{% for m in rest %}{% if (m.role == 'user') != (loop.index0 % 2 "
    "== 0) %}{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }}]{{ m.content.strip() }}"
    "{% endfor %}";

TEST(History, ArgumentsAreGivenInTheTypeThatTheTemplateUses) {
  const Json object = {{"zone", "utc"}, {"hours", Json::array({1, true, nullptr})}};
  const std::string text = R"({"zone": "utc", "hours": [1, true, null]})";
  const std::string expected = "[user]go\n[assistant]clock " + text + "\n[tool]noon\n";
  for (const char* const source : {kTextArguments, kObjectArguments}) {
    EXPECT_EQ(prompt_of(source, turn_with_call("", object)), expected) << source;
    EXPECT_EQ(prompt_of(source, turn_with_call("", text)), expected) << source;
  }
  EXPECT_EQ(changes_of(kTextArguments, turn_with_call("", text)), Lines());
  EXPECT_EQ(changes_of(kObjectArguments, turn_with_call("", object)), Lines());
  EXPECT_EQ(changes_of(kTextArguments, turn_with_call("", object)),
            Lines{"messages[1].tool_calls[0].function.arguments: arguments_as_text"});
  EXPECT_EQ(changes_of(kObjectArguments, turn_with_call("", text)),
            Lines{"messages[1].tool_calls[0].function.arguments: arguments_as_object"});
}

TEST(History, ArgumentsThatAreNoObjectStayText) {
  for (const char* const cut : {R"({"zone": "u)", "[1]", "5"}) {
    const std::string quoted = Json(cut).dump();
    EXPECT_EQ(prompt_of(kObjectArguments, turn_with_call("", cut)),
              "[user]go\n[assistant]clock " + quoted + "\n[tool]noon\n");
  }
}

TEST(History, EmptyArgumentsAreAnEmptyObject) {
  for (const Json& empty : {Json(""), Json(nullptr), Json(" \n")}) {
    for (const char* const source : {kTextArguments, kObjectArguments}) {
      EXPECT_EQ(prompt_of(source, turn_with_call("", empty)), "[user]go\n[assistant]clock {}\n[tool]noon\n")
          << empty;
    }
  }
}

TEST(History, EmptyListsOfCallsAreLeftOut) {
  const std::string tests_the_list =
      "{% for m in messages %}[{{ m.role }}]{% if 'tool_calls' in m %}{{ m.tool_calls[0].function.name "
      "}}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  Json answer = message_of("assistant", "b");
  answer["tool_calls"] = Json::array();
  EXPECT_EQ(prompt_of(tests_the_list, {message_of("user", "a"), answer}), "[user]a[assistant]b");
  EXPECT_EQ(changes_of(tests_the_list, {message_of("user", "a"), answer}),
            Lines{"messages[1].tool_calls: empty_calls_left_out"});
}

TEST(History, ResultsWithoutContentAreEmptyTexts) {
  const std::string needs_text = std::string("{% for m in messages %}[{{ m.role }}]{% if m.role == 'tool' ") +
                                 "%}{{ m.content | tojson }}{% endif %}{% endfor %}";
  Json asked = turn_with_call("", "{}");
  asked[2]["content"] = nullptr;
  EXPECT_EQ(prompt_of(needs_text, asked), "[user][assistant][tool]\"\"");
  asked[2].erase("content");
  EXPECT_EQ(prompt_of(needs_text, asked), "[user][assistant][tool]\"\"");
}

TEST(History, NullBesideCallsIsWhatTheTemplateTests) {
  const std::string tests_null =
      "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' and m['content'] is none %}call {{ "
      "m.tool_calls[0].function.name }} {{ m.tool_calls[0].function.arguments }}{% else %}{{ "
      "m['content'].strip() }}{% endif %}{% endfor %}";
  const std::string expected = "[user]go[assistant]call clock {}[tool]noon";
  EXPECT_EQ(prompt_of(tests_null, turn_with_call(nullptr, "{}")), expected);
  EXPECT_EQ(prompt_of(tests_null, turn_with_call("", "{}")), expected);
  EXPECT_EQ(changes_of(tests_null, turn_with_call("", "{}")),
            Lines{"messages[1].content: call_empty_as_null"});

  const std::string needs_text =
      "{% for m in messages %}[{{ m.role }}]{{ m.content + '' }}{% for c in m.tool_calls or [] %}{{ "
      "c.function.name }} {{ c.function.arguments }}{% endfor %}{% endfor %}";
  EXPECT_EQ(prompt_of(needs_text, turn_with_call(nullptr, "{}")), "[user]go[assistant]clock {}[tool]noon");
  EXPECT_EQ(changes_of(needs_text, turn_with_call(nullptr, "{}")),
            Lines{"messages[1].content: call_null_as_empty"});
  EXPECT_EQ(changes_of(needs_text, {message_of("user", "a"), message_of("assistant", nullptr)}),
            Lines{"messages[1].content: null_as_empty"});
}

TEST(History, InstructionsOfTheDeveloperReachTheModel) {
  const Json asked = {message_of("developer", "Be brief."), message_of("user", "hi")};
  const std::string drops =
      "{% for m in messages %}{% if m.role in ['system', 'user'] %}[{{ m.role }}]{{ "
      "m.content }}{% endif %}{% endfor %}";
  EXPECT_EQ(prompt_of(drops, asked), "[system]Be brief.[user]hi");
  const std::string takes_any = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
  EXPECT_EQ(prompt_of(takes_any, asked), "[system]Be brief.[user]hi");
  const std::string has_it =
      "{% for m in messages %}{{ '<!>' if m.role == 'developer' else '[' ~ m.role ~ "
      "']' }}{{ m.content }}{% endfor %}";
  EXPECT_EQ(prompt_of(has_it, asked), "<!>Be brief.[user]hi");
  const std::string has_no_system =
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}[{{ "
      "m.role }}]{{ m.content }}{% endfor %}";
  EXPECT_EQ(prompt_of(has_no_system, asked), "[user]Be brief.\n\nhi");
  EXPECT_EQ(changes_of(has_no_system, asked),
            (Lines{"messages[0].role: developer_as_system", "messages[0].role: system_as_user"}));
}

TEST(History, MessagesOfTheSameRoleAreMergedIfTheTemplateAlternates) {
  EXPECT_EQ(
      prompt_of(kAlternating, {message_of("system", "a"), message_of("developer", "b"),
                               message_of("user", "c"), message_of("user", "d"), message_of("assistant", "e"),
                               message_of("assistant", "f"), message_of("user", "g")}),
      "<a\n\nb>[user]c\n\nd[assistant]e\n\nf[user]g");
  EXPECT_EQ(changes_of(kAlternating, {message_of("user", "a"), message_of("user", "b")}),
            Lines{"messages[1]: merge_user"});
  const std::string takes_any = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
  EXPECT_EQ(prompt_of(takes_any, {message_of("user", "a"), message_of("user", "b")}), "[user]a[user]b");
}

TEST(History, LateSystemMessagesGoToTheUserIfTheTemplateTakesThemOnlyAtTheBeginning) {
  EXPECT_EQ(prompt_of(kAlternating,
                      {message_of("system", "a"), message_of("user", "b"), message_of("assistant", "c"),
                       message_of("system", "d"), message_of("user", "e")}),
            "<a>[user]b[assistant]c[user]d\n\ne");
  EXPECT_EQ(prompt_of(kAlternating,
                      {message_of("user", "b"), message_of("assistant", "c"), message_of("system", "d")}),
            "[user]b[assistant]c[user]d");
}

TEST(History, ToolsReachATemplateWithoutThem) {
  const Json called = turn_with_call("Wait.", R"({"zone": "utc"})");
  EXPECT_EQ(
      prompt_of(kAlternating, called),
      "[user]go[assistant]Wait.\n\n{\"name\": \"clock\", \"arguments\": {\"zone\": \"utc\"}}[user]noon");
}

TEST(History, TheFirstFormOfCallsIsTurnedIntoTheSecond) {
  const Json asked = {message_of("user", "go"),
                      {{"role", "assistant"},
                       {"content", nullptr},
                       {"function_call", {{"name", "clock"}, {"arguments", R"({"zone": "utc"})"}}}},
                      {{"role", "function"}, {"name", "clock"}, {"content", "noon"}}};
  EXPECT_EQ(prompt_of(kObjectArguments, asked),
            "[user]go\n[assistant]clock {\"zone\": \"utc\"}\n[tool]noon\n");
}

TEST(History, PartsAndTextsAreGivenInTheTypeThatTheTemplateUses) {
  const Json parts = {{{"type", "text"}, {"text", "a"}}, {{"type", "input_text"}, {"text", "b"}}};
  const std::string needs_text = "{% for m in messages %}[{{ m.role }}]{{ m.content.strip() }}{% endfor %}";
  EXPECT_EQ(prompt_of(needs_text, Json::array({message_of("user", parts)})), "[user]a\nb");
  const std::string prints_lists = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
  EXPECT_EQ(prompt_of(prints_lists, Json::array({message_of("user", parts)})), "[user]a\nb");
  const std::string needs_parts =
      "{% for m in messages %}[{{ m.role }}]{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% "
      "endif %}{% endfor %}{% endfor %}";
  EXPECT_EQ(prompt_of(needs_parts, Json::array({message_of("user", parts)})), "[user]ab");
  EXPECT_EQ(prompt_of(needs_parts, Json::array({message_of("user", "ab")})), "[user]ab");
  EXPECT_EQ(changes_of(needs_parts, Json::array({message_of("user", "ab")})),
            Lines{"messages[0].content: user_text_as_parts"});
}

TEST(History, ContentsOfOtherRolesHaveTheFormOfSystemMessages) {
  const std::string needs_parts =
      "{% for m in messages %}{{ m.role | capitalize }}: {% for p in m.content %}{% if p.type == 'text' %}{{ "
      "p.text }}{% endif %}{% endfor %} {% endfor %}";
  EXPECT_EQ(prompt_of(needs_parts, {message_of("narrator", "ab"), message_of("user", "c")}),
            "Narrator: ab User: c ");
  EXPECT_EQ(prompt_of(needs_parts, {message_of("developer", "ab"), message_of("user", "c")}),
            "System: ab User: c ");
}

const char* const kShortIds =
    "{% for m in messages %}[{{ m.role }}]{% for c in m.tool_calls or [] %}{% if c.id is undefined or "
    "c.id|length != 9 %}{{ raise_exception('ids of nine') }}{% endif %}{{ c.function.name }} {{ "
    "c.function.arguments }} {{ c.id }}{% endfor %}{{ m.content or '' }} {{ m.tool_call_id }}{% endfor %}";

TEST(History, IdsOfCallsAreShortenedOrFilledInIfTheTemplateNeedsThem) {
  const RenderedChat rendered = render_with(kShortIds, turn_with_call("", "{}", "call_0123456789"));
  const std::string id = rendered.text.substr(rendered.text.size() - 9);
  EXPECT_EQ(rendered.text, "[user]go [assistant]clock {} " + id + " [tool]noon " + id);
  EXPECT_EQ(changes_of(kShortIds, turn_with_call("", "{}", "123456789")), Lines());
  Json bare = turn_with_call("", "{}");
  bare[1]["tool_calls"][0].erase("id");
  bare[2].erase("tool_call_id");
  const std::string filled = prompt_of(kShortIds, bare);
  EXPECT_EQ(filled.substr(filled.size() - 9), filled.substr(filled.find("{} ") + 3, 9));
  EXPECT_EQ(changes_of(kObjectArguments, bare), Lines{"messages[1].tool_calls[0].function.arguments: "
                                                      "arguments_as_object"});
}

TEST(History, ShortIdsAreReplacedIfTheTemplateNeedsNineCharacters) {
  const std::string cuts =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.id|length < 9 %}{{ "
      "raise_exception('short') }}{% endif %}{{ c.function.name }} {{ c.id[-9:] }} {% endfor %}{{ m.content "
      "}} {{ (m.tool_call_id or '')[-9:] }}{% endfor %}";
  const std::string prompt = prompt_of(cuts, turn_with_call("", "{}", "call_0"));
  EXPECT_NE(prompt.find("clock "), std::string::npos) << prompt;
  EXPECT_EQ(prompt.substr(prompt.size() - 9), prompt.substr(prompt.find("clock ") + 6, 9));
}

TEST(History, ResultsGetTheNameOfTheFunctionIfTheTemplateWritesIt) {
  const std::string source =
      "{% for m in messages %}[{{ m.name or m.role }}]{% for c in m.tool_calls or [] %}{{ c.function.name }} "
      "{{ c.function.arguments }}{% endfor %}{{ m.content or '' }}{% endfor %}";
  EXPECT_EQ(prompt_of(source, turn_with_call("", "{}")), "[user]go[assistant]clock {}[clock]noon");
}

TEST(History, ParallelCallsAreSplitIfTheTemplateTakesOne) {
  const std::string source =
      "{% for m in messages %}[{{ m.role }}]{% if m.tool_calls and m.tool_calls|length > 1 %}{{ "
      "raise_exception('single calls') }}{% endif %}{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ "
      "c.function.arguments | tojson }}{% endfor %}{{ m.content }}{% endfor %}";
  Json asked = turn_with_call("", Json::object(), "a");
  asked[1]["tool_calls"].push_back(call_of("b", "date", Json::object()));
  Json result = message_of("tool", "june");
  result["tool_call_id"] = "b";
  asked.insert(asked.begin() + 2, result);
  EXPECT_EQ(prompt_of(source, asked), "[user]go[assistant]clock{}[tool]noon[assistant]date{}[tool]june");
}

TEST(History, ReasoningHasAThirdName) {
  const std::string source = "{% for m in messages %}{{ m.reasoning_content }}{{ m.content }}{% endfor %}";
  Json answer = message_of("assistant", "b");
  answer["reasoning"] = "a";
  EXPECT_EQ(prompt_of(source, Json::array({answer})), "ab");
}

TEST(History, WhatCannotBeAdaptedIsRefusedWithItsMessage) {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'narrator' %}{{ raise_exception('no "
      "narrators') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}";
  const Json asked = {message_of("user", "a"), message_of("assistant", "b"), message_of("narrator", "c"),
                      message_of("user", "d")};
  expect_error(ErrorCode::invalid_argument, {"messages[2]: chat template, line 1, column ", "no narrators"},
               [&] { prompt_of(source, asked); });
  // The template fails without any message: none is named.
  try {
    prompt_of("{{ raise_exception('never') }}", asked);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("chat template, line 1", 0), 0U) << error.what();
  }
}

TEST(History, AddedTextIsContent) {
  const RenderedChat rendered = render_with(kAlternating, {message_of("user", "a"), message_of("user", "b")});
  ASSERT_EQ(rendered.runs.size(), 4U) << "[, the role, ], the content";
  EXPECT_FALSE(rendered.runs[3].from_template);
  EXPECT_EQ(rendered.runs[3].end - rendered.runs[2].end, std::string("a\n\nb").size());
}

TEST(History, InputsThatAreNoConversationStay) {
  EXPECT_EQ(prompt_of("{{ messages }}", Json{{"messages", "text"}}), "text");
  EXPECT_EQ(prompt_of("{{ messages | length }}", Json::array({1, "a", nullptr})), "3");
  EXPECT_EQ(prompt_of("{{ messages | length }}", Json::array({Json::object()})), "1");
  EXPECT_THROW(prompt_of("a", Json{{"other", 1}}), Error);
}

TEST(History, HostileTemplatesAreProbedWithinAFewRenderings) {
  for (const char* const source :
       {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% if 'qz' in messages | string %}{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}{% endif "
        "%}",
        "{% for i in range(90000) %}{% set x = i %}{% endfor %}"}) {
    EXPECT_TRUE(ChatTemplate::compile(source)->adaptations().empty()) << source;
  }
}

}  // namespace
}  // namespace quire::chat
