// The object of a quire_job_request.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "capi/src/chat_render.h"
#include "capi/src/constraint_object.h"
#include "capi/src/options_objects.h"
#include "capi/src/runtime_object.h"
#include "core/engine/events/event_queue.h"
#include "core/engine/jobs/job_request.h"

namespace quire::capi {

// A queue together with the runtime it belongs to.
struct QueueShare {
  std::shared_ptr<RuntimeShare> runtime;
  std::shared_ptr<EventQueue> events;
};

// For what a setting counts, as bits.
struct Counts {
  static constexpr uint32_t generate = 1, score = 2, warm = 4, embed = 8;  // in the order of QUIRE_JOB_KIND_*
  static constexpr uint32_t any_kind = generate | score | warm | embed;
  static constexpr uint32_t fork = 16;
  static constexpr uint32_t always = any_kind | fork;
  // How a request is read: as its own kind says, or for its prompt alone.
  static constexpr uint32_t for_kind = 0, prompt_alone = UINT32_MAX;
};

// One that was made.
struct Setting {
  const char* name;
  uint32_t counts;
};

struct PromptPart {
  enum class Kind : uint8_t { text, tokens, special, messages };
  Kind kind = Kind::text;
  std::string text;  // of a special token its spelling; of messages JSON objects with commas between them
  TokenIds tokens;
};

// What goes with the messages of a prompt. Texts were parsed when they were set.
struct ConversationSettings {
  std::string tools;                   // a JSON list; empty: none
  std::string arguments;               // members of a JSON object, without its braces
  bool adds_generation_prompt = true;  // unless the arguments say so themselves
  ChatShare chat;                      // without templates: the model's own
};

// How the answer is read.
struct ResponseSettings {
  std::string dialect;  // a name or kAutoDialect; empty: it is not read
  ReasoningStart reasoning = ReasoningStart::closed;
  int32_t reasoning_budget = -1;  // tokens; -1: no limit
};

struct RequestSettings {
  JobRequest job;  // without its prompts, its queue, its constraint and what reads its answer
  std::vector<PromptPart> prompt;
  std::vector<PromptPart> negative_prompt;
  std::vector<Setting> made;
  bool add_special = true;
  bool parse_special = false;
  ConversationSettings conversation;
  ResponseSettings response;
  bool heal_prompt = false;
  bool max_new_tokens_set = false;
  ConstraintShare constraint;
  QueueShare queue;
};

template <>
struct HandleTraits<quire_job_request> {
  using Object = OptionsObject<RequestSettings>;
  static constexpr HandleType type = HandleType::job_request;
};

}  // namespace quire::capi
