// The questions that find out which adaptations a template needs.
#pragma once

#include <array>
#include <string_view>

#include <gsl/gsl>

#include "core/chat/adaptation.h"

namespace quire::chat {

// How the rendering of the conversation as given must compare with the rendering of `reference`.
enum class Relation : uint8_t {
  any,
  same,    // otherwise the template uses what the conversation lacks
  unlike,  // otherwise the template ignores the calls, or treats the role like one that does not exist
           // (kNoRole)
};

inline constexpr std::string_view kNoRole = "qzrole";

struct Question {
  std::string_view messages;           // a JSON list
  std::string_view marks;              // words that the rendering must contain, separated by spaces
  std::array<Adaptations, 8> choices;  // in order of preference; the first empty one ends them
  Relation relation = Relation::any;
  std::string_view reference = {};  // a JSON list
  std::string_view role = {};       // the name that Relation::unlike compares with kNoRole
  // Words that the rendering of a choice must contain; empty: `marks`.
  std::string_view choice_marks = {};
};

// Parts of a rendering that prove that a value was printed in the form of another type: as Python prints a
// list or dict, or as JSON within JSON.
inline constexpr std::array<std::string_view, 5> kWrongForms = {"'text': 'qz", "\"text\": \"qz",
                                                                "\"text\":\"qz", "{'qzzone': 'qz", R"(\"qz)"};

// A list of tools, none of which the conversations call.
inline constexpr std::string_view kProbeTools = R"([{"type": "function", "function": {"name": "qztool",
  "description": "A tool", "parameters": {"type": "object", "properties": {"qzsize": {"type": "string",
  "description": "A size"}}, "required": ["qzsize"]}}}])";

// Questions about roles and contents, rendered without tools.
gsl::span<const Question> role_questions();
// Questions about calls and their results, rendered with kProbeTools.
gsl::span<const Question> call_questions();

}  // namespace quire::chat
