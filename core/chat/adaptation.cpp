#include "core/chat/adaptation.h"

#include <array>

namespace quire::chat {
namespace {

constexpr std::array<std::string_view, kNumAdaptations> kNames = {
    "reasoning_as_reasoning_content",
    "typed_part_as_text",
    "empty_arguments_as_object",
    "empty_calls_left_out",
    "null_result_as_empty",
    "function_as_tool",
    "arguments_as_object",
    "arguments_as_text",
    "fill_call_types",
    "fill_call_ids",
    "short_call_ids",
    "fill_result_names",
    "split_text_and_calls",
    "split_parallel_calls",
    "calls_as_text",
    "tool_as_user",
    "developer_as_system",
    "system_as_user",
    "late_system_as_user",
    "merge_system",
    "merge_user",
    "merge_assistant",
    "null_as_empty",
    "call_null_as_empty",
    "call_null_kept",
    "call_empty_as_null",
    "system_text_as_parts",
    "user_text_as_parts",
    "assistant_text_as_parts",
    "tool_text_as_parts",
    "system_parts_as_text",
    "user_parts_as_text",
    "assistant_parts_as_text",
    "tool_parts_as_text",
};

}  // namespace

std::string_view adaptation_name(Adaptation adaptation) {
  return kNames.at(static_cast<size_t>(adaptation));
}

std::vector<std::string_view> adaptation_names(Adaptations set) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < kNumAdaptations; ++i) {
    const auto one = static_cast<Adaptation>(i);
    if (set.has(one)) names.push_back(adaptation_name(one));
  }
  return names;
}

bool is_text_part(std::string_view type) {
  return type == "text" || type == "input_text" || type == "output_text" || type == "refusal";
}

}  // namespace quire::chat
