#include "core/chat/history.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/chat/adapt.h"
#include "core/chat/template_error.h"

namespace quire::chat {
namespace {

struct ContentForm {
  std::string_view role;
  Adaptation text_as_parts;
  Adaptation parts_as_text;
};

constexpr std::array<ContentForm, 4> kContentForms = {{
    {"system", Adaptation::system_text_as_parts, Adaptation::system_parts_as_text},
    {"user", Adaptation::user_text_as_parts, Adaptation::user_parts_as_text},
    {"assistant", Adaptation::assistant_text_as_parts, Adaptation::assistant_parts_as_text},
    {"tool", Adaptation::tool_text_as_parts, Adaptation::tool_parts_as_text},
}};

struct SimpleStep {
  Adaptation adaptation;
  void (*apply)(History& history);
};

constexpr std::array<SimpleStep, 13> kCallAndRoleSteps = {{
    {Adaptation::arguments_as_object, arguments_as_object},
    {Adaptation::arguments_as_text, arguments_as_text},
    {Adaptation::fill_call_types, fill_call_types},
    {Adaptation::fill_call_ids, fill_call_ids},
    {Adaptation::short_call_ids, short_call_ids},
    {Adaptation::fill_result_names, fill_result_names},
    {Adaptation::split_text_and_calls, split_text_and_calls},
    {Adaptation::split_parallel_calls, split_parallel_calls},
    {Adaptation::calls_as_text, calls_as_text},
    {Adaptation::tool_as_user, tool_as_user},
    {Adaptation::developer_as_system, developer_as_system},
    {Adaptation::system_as_user, system_as_user},
    {Adaptation::late_system_as_user, late_system_as_user},
}};

constexpr std::array<SimpleStep, 4> kNullSteps = {{
    {Adaptation::null_as_empty, null_as_empty},
    {Adaptation::call_null_as_empty, call_null_as_empty},
    {Adaptation::call_null_kept, call_null_kept},
    {Adaptation::call_empty_as_null, call_empty_as_null},
}};

template <typename Steps>
void apply_steps(History& history, Adaptations adaptations, const Steps& steps) {
  for (const SimpleStep& step : steps) {
    if (adaptations.has(step.adaptation)) step.apply(history);
  }
}

void apply_all(History& history, Adaptations adaptations) {
  reasoning_as_reasoning_content(history);
  typed_part_as_text(history);
  empty_calls_left_out(history);
  null_result_as_empty(history);
  // The steps after it read lists of calls.
  if (adaptations.has(Adaptation::function_as_tool)) function_as_tool(history);
  empty_arguments_as_object(history);
  apply_steps(history, adaptations, kCallAndRoleSteps);
  const auto merge = [&](Adaptation adaptation, std::string_view role) {
    if (adaptations.has(adaptation)) merge_role(history, role, adaptation);
  };
  merge(Adaptation::merge_system, "system");
  merge(Adaptation::merge_user, "user");
  merge(Adaptation::merge_assistant, "assistant");
  apply_steps(history, adaptations, kNullSteps);
  for (const ContentForm& form : kContentForms) {
    if (adaptations.has(form.text_as_parts)) text_as_parts(history, form.role, form.text_as_parts);
    if (adaptations.has(form.parts_as_text)) parts_as_text(history, form.role, form.parts_as_text);
  }
}

bool is_adaptable(const JsonValue* messages) {
  const JsonValue::Array* list = messages == nullptr ? nullptr : messages->as_array();
  return list != nullptr && std::all_of(list->begin(), list->end(),
                                        [](const JsonValue& each) { return each.as_object() != nullptr; });
}

// Finds a message with which the rendering begins to fail with this error, by halving. Nothing if the
// template fails so without any message.
std::optional<size_t> failing_message(const ChatTemplate& chat, const AdaptedInput& adapted,
                                      TemplateContext context, const TemplateError& error) {
  const auto fails = [&](size_t num_messages) {
    context.max_messages = num_messages;
    try {
      chat.render(adapted.input, context);
    } catch (const TemplateError& other) {
      return std::string_view(other.what()) == error.what();
    } catch (const Error&) {
    }
    return false;
  };
  size_t end = adapted.origins.size();
  if (end == 0 || !fails(end) || fails(0)) return std::nullopt;
  size_t begin = 0;  // so many messages do not fail, `end` messages do
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    (fails(middle) ? end : begin) = middle;
  }
  return adapted.origins[end - 1];
}

}  // namespace

AdaptedInput adapt_input(JsonValue input, Adaptations adaptations) {
  if (!is_adaptable(input.find("messages"))) return {std::move(input), {}, {}};
  JsonValue::Object members = std::move(input).take_object();
  JsonValue* list = find_member(members, "messages");
  JsonValue::Array messages = std::move(*list).take_array();
  History history;
  history.turns.reserve(messages.size());
  for (size_t i = 0; i < messages.size(); ++i)
    history.turns.push_back({i, std::move(messages[i]).take_object()});
  apply_all(history, adaptations);
  AdaptedInput adapted;
  JsonValue::Array made;
  for (Turn& turn : history.turns) {
    adapted.origins.push_back(turn.idx);
    made.emplace_back(std::move(turn.members));
  }
  *list = JsonValue(std::move(made));
  adapted.input = JsonValue(std::move(members));
  adapted.changes = std::move(history.changes);
  return adapted;
}

void apply_to_context(Adaptations adaptations, TemplateContext& context) {
  context.keeps_null_call_content =
      adaptations.has(Adaptation::call_null_kept) || adaptations.has(Adaptation::call_empty_as_null);
}

RenderedChat render_history(const ChatTemplate& chat, JsonValue input, TemplateContext context) {
  const Adaptations adaptations = chat.adaptations();
  AdaptedInput adapted = adapt_input(std::move(input), adaptations);
  apply_to_context(adaptations, context);
  try {
    RenderedChat rendered = chat.render(adapted.input, context);
    rendered.changes = std::move(adapted.changes);
    return rendered;
  } catch (const TemplateError& error) {
    if (error.fault() == TemplateFault::limit) throw;
    const std::optional<size_t> failing = failing_message(chat, adapted, context, error);
    if (!failing) throw;
    throw Error(error.code(), "messages[{}]: {}", *failing, error.what());
  }
}

}  // namespace quire::chat
