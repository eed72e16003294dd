// A request as the host builds it: the prompt in parts, and settings that depend on the model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/constrained/constraint.h"
#include "core/engine/jobs/job_request.h"
#include "core/engine/requests/conversation_renderer.h"
#include "core/engine/residency/runtime.h"
#include "core/response/response_grammar.h"
#include "core/response/response_parser.h"

namespace quire {

struct PromptPart {
  enum class Kind : uint8_t { text, tokens, special, messages };
  Kind kind = Kind::text;
  std::string text;  // spelling of a special token; messages are JSON objects separated by commas
  TokenIds tokens;

  bool is_messages() const { return kind == Kind::messages; }
};

// Settings for the messages of a prompt; conversation_input.h parses the texts.
struct ConversationSettings {
  std::string tools;                   // a JSON list; empty: none
  std::string arguments;               // members of a JSON object, without its braces
  bool adds_generation_prompt = true;  // false if the arguments decide it
  ChatTemplates chat;                  // without templates: the model's own
};

struct ResponseSettings {
  std::string dialect;                      // a name or kAutoDialect; empty: answers are plain text
  std::optional<ReasoningStart> reasoning;  // not set: prompt and template decide
  int32_t reasoning_budget = -1;            // tokens; -1: no limit
};

// A constraint, and the model for whose vocabulary it was compiled.
struct ConstraintChoice {
  std::shared_ptr<const Constraint> constraint;
  std::string model_path;
  // Rules of an answer that do not fix how reasoning begins. `constraint` was compiled with reasoning closed.
  // If the prompt opens reasoning, the rules are compiled again for the request.
  std::shared_ptr<const ResponseRules> rules;
};

// An event queue, and the runtime that it belongs to.
struct QueueChoice {
  std::shared_ptr<EventQueue> events;
  std::shared_ptr<const Runtime> runtime;
};

struct RequestSpec {
  JobRequest job;  // without prompts, queue, constraint and response, which build_request sets
  std::vector<PromptPart> prompt;
  std::vector<PromptPart> negative_prompt;
  bool add_special = true;     // adds the tokens that the tokenizer puts around a text
  bool parse_special = false;  // finds special tokens in texts by their spelling
  ConversationSettings conversation;
  ResponseSettings response;
  bool heal_prompt = false;
  ConstraintChoice constraint;
  JsonForm json_form = kDrawnForm;  // of JSON that the constraint describes
  QueueChoice queue;
};

}  // namespace quire
