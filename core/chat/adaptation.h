// Adaptations: named changes that give a conversation the form that a chat template needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::chat {

enum class Adaptation : uint8_t {
  // --- For every template
  reasoning_as_reasoning_content,  // the name of reasoning in vLLM's answers
  typed_part_as_text,              // parts of the types input_text, output_text and refusal
  empty_arguments_as_object,       // arguments that are null, left out or an empty text
  empty_calls_left_out,            // a list of calls without any
  null_result_as_empty,            // a result of a tool without content
  // --- Calls of tools and their results
  function_as_tool,  // OpenAI's first form: function_call and the role function
  arguments_as_object,
  arguments_as_text,
  fill_call_types,
  fill_call_ids,
  short_call_ids,  // ids of nine letters and digits
  fill_result_names,
  split_text_and_calls,  // a message with text and calls becomes two
  split_parallel_calls,  // one call in a message, each before its result
  calls_as_text,
  tool_as_user,
  // --- Roles
  developer_as_system,
  system_as_user,       // before the next user message
  late_system_as_user,  // the same, for system messages that are not at the beginning
  merge_system,         // consecutive messages of this role become one
  merge_user,
  merge_assistant,
  // --- Contents
  null_as_empty,       // in a message without calls
  call_null_as_empty,  // beside calls
  call_null_kept,      // beside calls, given to the template as null and not left out
  call_empty_as_null,
  system_text_as_parts,
  user_text_as_parts,
  assistant_text_as_parts,
  tool_text_as_parts,
  system_parts_as_text,
  user_parts_as_text,
  assistant_parts_as_text,
  tool_parts_as_text,
};

inline constexpr size_t kNumAdaptations = static_cast<size_t>(Adaptation::tool_parts_as_text) + 1;

// Returns the name of the enumerator.
std::string_view adaptation_name(Adaptation adaptation);

// A set of adaptations.
class Adaptations {
 public:
  constexpr Adaptations() = default;
  // Implicit: a single adaptation is a set.
  constexpr Adaptations(Adaptation one) : bits_(uint64_t{1} << static_cast<uint8_t>(one)) {}

  constexpr bool has(Adaptation one) const { return (bits_ & Adaptations(one).bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr Adaptations operator|(Adaptations other) const {
    Adaptations all;
    all.bits_ = bits_ | other.bits_;
    return all;
  }
  constexpr bool operator==(Adaptations other) const { return bits_ == other.bits_; }

 private:
  uint64_t bits_ = 0;
};

constexpr Adaptations operator|(Adaptation one, Adaptation other) {
  return Adaptations(one) | Adaptations(other);
}

// Returns the names of the set in the order of the enumerators.
std::vector<std::string_view> adaptation_names(Adaptations set);

// Returns whether a part of a content with this type is text.
bool is_text_part(std::string_view type);

// A change that was made to a conversation.
struct HistoryChange {
  Adaptation adaptation = Adaptation::reasoning_as_reasoning_content;
  std::string field;  // such as "messages[1].content", of the conversation as the caller gave it
};

}  // namespace quire::chat
