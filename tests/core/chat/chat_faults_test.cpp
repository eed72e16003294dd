// Fault injection: every allocation of compiling and rendering a template fails once, and from then on for
// ever. Nothing leaks, and the same template renders the same text once memory is back.
#include <new>

#include <gtest/gtest.h>

#include "core/chat/history.h"
#include "core/chat/template_set.h"
#include "tests/core/chat/chat_fixture.h"
#include "tests/support/case_stride.h"
#include "tests/support/fault_loop.h"

namespace quire::chat {
namespace {

using quire::testing::AllocationFault;
using quire::testing::FaultPoint;
using quire::testing::for_each_fault;

constexpr const char* kSource = R"({%- macro line(role, text) -%}
<|{{ role | upper }}|>{{ text | trim }}{{ "\n" }}
{%- endmacro -%}
{%- set ns = namespace(count=0, names=[]) -%}
{%- for message in messages if message.role != "system" -%}
  {%- set ns.count = ns.count + 1 -%}
  {%- if message.tool_calls is defined -%}
    {%- for call in message.tool_calls -%}
      {%- set ns.names = ns.names + [call.function.name] -%}
      {{ line(message.role, call.function | tojson(indent=2)) }}
    {%- endfor -%}
  {%- else -%}
    {{ line(message.role, message.content.split("<think>")[-1] | replace("a long word of the text", "another")) }}
  {%- endif -%}
  {%- generation -%}{{ loop.index ~ ": " ~ dict(a=ns.count, b=[1, 2.5, none]) | string }}{%- endgeneration -%}
{%- endfor -%}
{{ ns.names | join(", ") }} {{ messages | map(attribute="role") | unique | list }} {{ bos_token }})";

constexpr const char* kInput = R"({"messages": [
  {"role": "system", "content": "You are an assistant with a prompt that is long enough."},
  {"role": "user", "content": "A question with <think> a long word of the text that needs memory"},
  {"role": "assistant", "tool_calls": [{"function": {"name": "weather_of_a_place",
      "arguments": {"place": "Saint-Etienne", "days": [1, 2, 3]}}}]},
  {"role": "tool", "content": "The answer of the tool, which is long enough as well"}]})";

TemplateContext context_of_test() {
  TemplateContext context;
  context.special_tokens = {{"bos_token", "<s>"}};
  return context;
}

// Runs `act` with a fault; returns whether it was triggered. Nothing may leak.
template <typename Act>
bool fails(const FaultPoint& point, const Act& act) {
  const int64_t live_before = quire::testing::num_live_allocations();
  bool failed = false;
  {
    const AllocationFault fault(point.nth, point.span);
    try {
      act();
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    EXPECT_EQ(failed, fault.num_failed() > 0);
  }
  EXPECT_EQ(quire::testing::num_live_allocations(), live_before);
  return failed;
}

TEST(ChatFaults, CompilingSurvivesEveryFailedAllocation) {
  const auto compile = [] { (void)ChatTemplate::compile(kSource); };
  compile();
  const int64_t num_points = for_each_fault([&](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << point);
    return fails(point, compile) && !HasFailure();
  });
  EXPECT_GT(num_points, 100 / testing::stride_if_sanitized(5));
}

TEST(ChatFaults, RenderingSurvivesEveryFailedAllocation) {
  const auto chat = ChatTemplate::compile(kSource);
  const JsonValue input = parse_json(kInput, "input");
  const TemplateContext context = context_of_test();
  const RenderedChat expected = chat->render(input, context);
  EXPECT_NE(expected.text.find("weather_of_a_place"), std::string::npos);
  const int64_t num_points = for_each_fault([&](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << point);
    const bool failed = fails(point, [&] { (void)chat->render(input, context); });
    EXPECT_EQ(chat->render(input, context).text, expected.text);
    return failed && !HasFailure();
  });
  EXPECT_GT(num_points, 100);
}

constexpr const char* kNeedsMuch = R"({%- for m in messages -%}
{%- if m.role not in ['user', 'assistant', 'tool'] or
       (m.role != 'tool' and (m.role == 'user') == (loop.index0 % 2 == 1)) -%}
{{ raise_exception('roles must alternate between user and assistant') }}
{%- endif -%}
[{{ m.role }}]{{ m.content.strip() }}
{%- for c in m.tool_calls or [] -%}{{ c.id[8] ~ c.function.name + ' ' + c.function.arguments }}{%- endfor -%}
{%- endfor -%})";

constexpr const char* kHistory = R"({"messages": [
  {"role": "developer", "content": "An instruction that is longer than a small string"},
  {"role": "user", "content": [{"type": "text", "text": "A question that is longer than a small string"}]},
  {"role": "assistant", "content": null, "tool_calls": [{"id": "call_0123456789abcdef", "type": "function",
     "function": {"name": "weather_of_a_place", "arguments": {"place": "Saint-Etienne", "days": [1, 2, 3]}}}]}]})";

TEST(ChatFaults, ProbingSurvivesEveryFailedAllocation) {
  const auto expected = ChatTemplate::compile(kNeedsMuch)->adaptations();
  EXPECT_TRUE(expected.has(Adaptation::arguments_as_text));
  EXPECT_TRUE(expected.has(Adaptation::system_as_user));
  constexpr int64_t kStride =
      61 * testing::stride_if_sanitized(5);  // probing makes tens of thousands of allocations
  const int64_t num_points = for_each_fault(
      [&](const FaultPoint& point) {
        SCOPED_TRACE(::testing::Message() << point);
        const auto chat = ChatTemplate::compile(kNeedsMuch);
        const bool failed = fails(point, [&] { (void)chat->adaptations(); });
        EXPECT_TRUE(chat->adaptations() == expected);
        return failed && !HasFailure();
      },
      kStride);
  EXPECT_GT(num_points, testing::kIsSanitized ? 50 : 100);
}

TEST(ChatFaults, AdaptingSurvivesEveryFailedAllocation) {
  const auto chat = ChatTemplate::compile(kNeedsMuch);
  const auto render = [&] {
    return render_history(*chat, parse_json(kHistory, "input"), context_of_test()).text;
  };
  const std::string expected = render();
  EXPECT_NE(expected.find("weather_of_a_place {"), std::string::npos) << expected;
  const int64_t num_points = for_each_fault([&](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << point);
    const bool failed = fails(point, [&] { (void)render(); });
    EXPECT_EQ(render(), expected);
    return failed && !HasFailure();
  });
  EXPECT_GT(num_points, 100);
}

TEST(ChatFaults, LoadingTheTemplatesOfAModelSurvivesEveryFailedAllocation) {
  ChatFiles files;
  files.tokenizer_config_json = R"({"bos_token": "<a beginning of the text>", "chat_template": [
    {"name": "default", "template": "{{ messages[0].content }}{{ bos_token }}"},
    {"name": "tool_use", "template": "{% for tool in tools %}{{ tool.name }}{% endfor %}"}]})";
  files.special_tokens_map_json = R"({"eos_token": {"content": "<an end of the text>"}})";
  const auto load = [&] { (void)TemplateSet::load(files, "model"); };
  load();
  const int64_t num_points = for_each_fault([&](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << point);
    return fails(point, load) && !HasFailure();
  });
  EXPECT_GT(num_points, 50);
}

}  // namespace
}  // namespace quire::chat
