#include "capi/src/prompt.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "capi/src/guard.h"
#include "capi/src/response_dialect.h"
#include "core/base/utf8.h"
#include "core/chat/segments.h"
#include "core/engine/model/compiled_constraint.h"
#include "core/engine/model/healing_constraint.h"
#include "core/engine/model/reasoning_budget.h"
#include "core/response/dialect_table.h"

namespace quire::capi {
namespace {

// The tokens that the tokenizer puts around any text, told by how it encodes one.
struct Surroundings {
  TokenIds before;
  TokenIds after;
};

Surroundings surroundings(const Tokenizer& tokenizer) {
  const TokenIds plain = tokenizer.encode("a", {.parse_special = false, .add_special_tokens = false});
  const TokenIds full = tokenizer.encode("a", {.parse_special = false, .add_special_tokens = true});
  const auto found = std::search(full.begin(), full.end(), plain.begin(), plain.end());
  if (found == full.end()) return {};
  return {{full.begin(), found}, {found + static_cast<ptrdiff_t>(plain.size()), full.end()}};
}

TokenId special_token(const Tokenizer& tokenizer, const std::string& spelling) {
  const auto token = tokenizer.find_token(spelling);
  if (token && tokenizer.is_special(*token)) return *token;
  throw Error(ErrorCode::not_found, "prompt: the tokenizer has no special token \"{}\"", printable(spelling));
}

// What `body` encodes; where its text is no UTF-8, the words begin with the field or the part that it stands
// in.
template <typename Body>
TokenIds encode_named(const std::string& name, const Body& body) {
  try {
    return body();
  } catch (const Error& failure) {
    if (failure.code() != ErrorCode::encoding) throw;
    throw Error(ErrorCode::encoding, "{}: {}", name, failure.what());
  }
}

TokenIds encode_part(const Model& model, const PromptPart& part, bool parse_special) {
  switch (part.kind) {
    case PromptPart::Kind::tokens:
      return part.tokens;
    case PromptPart::Kind::special:
      return {special_token(model.tokenizer(), part.text)};
    default:
      return model.tokenizer().encode(part.text,
                                      {.parse_special = parse_special, .add_special_tokens = false});
  }
}

bool is_messages(const PromptPart& part) {
  return part.kind == PromptPart::Kind::messages;
}

// The parts that are messages, which stand side by side.
gsl::span<const PromptPart> messages_of(const std::vector<PromptPart>& parts) {
  const auto first = std::find_if(parts.begin(), parts.end(), is_messages);
  const auto last = std::find_if_not(first, parts.end(), is_messages);
  if (std::any_of(last, parts.end(), is_messages)) {
    throw Error(ErrorCode::invalid_argument,
                "prompt: its messages have other parts between them; they have to be one conversation");
  }
  return gsl::span<const PromptPart>(parts).subspan(static_cast<size_t>(first - parts.begin()),
                                                    static_cast<size_t>(last - first));
}

// The JSON object that the template is given.
std::string conversation_input(const ConversationSettings& settings, gsl::span<const PromptPart> messages) {
  std::string input = "{\"messages\":[";
  const char* separator = "";
  for (const PromptPart& part : messages) {
    if (part.text.empty()) continue;
    input.append(separator).append(part.text);
    separator = ",";
  }
  input += "]";
  if (!settings.tools.empty()) input.append(",\"tools\":").append(settings.tools);
  if (settings.adds_generation_prompt) input += ",\"add_generation_prompt\":true";
  if (!settings.arguments.empty()) input.append(",").append(settings.arguments);
  return input += "}";
}

// What is for a template. Tools also say how an answer is read, and so does a template where the dialect is
// "auto".
void refuse_without_messages(const RequestSettings& settings) {
  const ConversationSettings& made = settings.conversation;
  const bool is_read = !settings.response.dialect.empty();
  if (!made.tools.empty() && !is_read) {
    throw Error(ErrorCode::invalid_argument,
                "tools: does not count for a prompt without messages, but with a response_dialect");
  }
  const char* const name = !made.arguments.empty() ? "template_arguments"
                           : made.chat.templates != nullptr && settings.response.dialect != kAutoDialect
                               ? "chat_template"
                               : nullptr;
  if (name == nullptr) return;
  throw Error(ErrorCode::invalid_argument, "{}: does not count for a prompt without messages", name);
}

// One text alone is for the tokenizer to surround; of several parts the outer ones decide. Around messages
// stands what their template writes.
TokenIds encode_parts(const std::vector<PromptPart>& parts, const RequestSettings& settings,
                      const Model& model) {
  const bool text_first = settings.add_special && parts.front().kind == PromptPart::Kind::text;
  const bool text_last = settings.add_special && parts.back().kind == PromptPart::Kind::text;
  if (text_first && parts.size() == 1) {
    return model.tokenizer().encode(parts.front().text,
                                    {.parse_special = settings.parse_special, .add_special_tokens = true});
  }
  Surroundings around;
  if (text_first || text_last) around = surroundings(model.tokenizer());
  TokenIds prompt;
  const auto append = [&](const TokenIds& tokens) {
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
  };
  if (text_first) append(around.before);
  for (const PromptPart& part : parts)
    append(encode_named(fmt::format("part {}", &part - parts.data()),
                        [&] { return encode_part(model, part, settings.parse_special); }));
  if (text_last) append(around.after);
  return prompt;
}

constexpr std::array<std::string_view, 4> kKinds = {"a job of kind GENERATE", "a job of kind SCORE",
                                                    "a job of kind WARM", "a job of kind EMBED"};

void require_counting_for_kind(const RequestSettings& settings) {
  const auto kind = static_cast<uint32_t>(settings.job.kind);
  require_counting(settings, uint32_t{1} << kind, kKinds[kind]);
}

// Its reasoning begins where the answer's does, unless its rules say where.
std::shared_ptr<const TokenConstraint> constraint_for(const ModelShare& model, const ConstraintShare& share,
                                                      const ResponseParser* reader) {
  if (share.constraint == nullptr) return nullptr;
  if (!model.constraints->suit(*model.model, *share.constraint)) {
    throw Error(
        ErrorCode::invalid_argument,
        "constraint: it was made for the vocabulary of {}, which is not that of {}; make one of the model",
        printable(share.model_path, 4096), printable(model.model->path(), 4096));
  }
  if (share.rules == nullptr || reader == nullptr || reader->reasoning() == ReasoningStart::closed)
    return std::make_shared<CompiledConstraint>(share.constraint);
  ResponseRules rules = *share.rules;
  rules.reasoning = reader->reasoning();
  return std::make_shared<CompiledConstraint>(compile_rules(model, rules));
}

void heal_prompt(const ModelShare& model, JobRequest& job) {
  if (job.constraint != nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "heal_prompt: not together with a constraint or a reasoning_budget, which begin after the "
                "prompt");
  }
  if (job.prompt.size() < 2) return;
  const std::shared_ptr<const TokenVocabulary> vocabulary = model.constraints->vocabulary(*model.model);
  const TokenId last = job.prompt.back();
  if (!vocabulary->is_text(last)) return;
  job.constraint = std::make_shared<HealingConstraint>(vocabulary, std::string(vocabulary->bytes(last)));
  job.healed_token = last;
  job.prompt.pop_back();
}

std::string words_of_template(const chat::RenderedChat& rendered) {
  std::string words;
  size_t begin = 0;
  for (const chat::OriginRun& run : rendered.runs) {
    words += run.from_template ? rendered.text.substr(begin, run.end - begin) : ".";
    begin = run.end;
  }
  return words;
}

const Dialect& dialect_for(const RequestSettings& settings, const ModelShare& model) {
  const std::string& name = settings.response.dialect;
  if (name != kAutoDialect) return find_dialect(name);
  const ChatShare& given = settings.conversation.chat;
  return given.templates != nullptr ? detect_dialect(&given, &model.model->tokenizer()) : dialect_of(model);
}

// Begins where the prompt ends.
std::shared_ptr<const ResponseParser> reader_for(const RequestSettings& settings, const ModelShare& model,
                                                 std::string_view words) {
  const std::string& tools = settings.conversation.tools;
  auto reader = std::make_shared<ResponseParser>(dialect_for(settings, model),
                                                 tools.empty() ? ToolSet() : ToolSet::parse(tools),
                                                 settings.response.reasoning);
  reader->follow(words);
  return reader;
}

void refuse_unread(const ResponseSettings& response) {
  const char* const made = response.reasoning != ReasoningStart::closed ? "reasoning"
                           : response.reasoning_budget >= 0             ? "reasoning_budget"
                                                                        : nullptr;
  if (made == nullptr) return;
  throw Error(ErrorCode::invalid_argument, "{}: does not count without a response_dialect", made);
}

void limit_reasoning(const ModelShare& model, int32_t max_tokens, JobRequest& job) {
  const std::string end = end_of_reasoning(job.response->dialect());
  if (max_tokens < 0 || end.empty()) return;
  ReasoningBudget::Parts parts;
  parts.tokenizer = model.model->shared_tokenizer();
  parts.reader = job.response;
  parts.other = std::move(job.constraint);
  parts.end = parts.tokenizer->encode(end, {.parse_special = true, .add_special_tokens = false});
  parts.max_tokens = max_tokens;
  job.constraint = std::make_shared<ReasoningBudget>(std::move(parts));
}

}  // namespace

chat::RenderedChat render_conversation(const RequestSettings& settings, const ModelShare& model) {
  const gsl::span<const PromptPart> messages = messages_of(settings.prompt);
  if (messages.empty()) throw Error(ErrorCode::invalid_argument, "prompt: it has no messages");
  const std::string input = conversation_input(settings.conversation, messages);
  const ChatShare& given = settings.conversation.chat;
  if (given.templates != nullptr) return render_chat(given, input, CallArguments::parsed);
  return render_chat(with_own_settings(model.chat->templates(model.model->path())), input,
                     CallArguments::parsed);
}

TokenIds encode_prompt(const RequestSettings& settings, const ModelShare& model, std::string* words) {
  if (settings.prompt.empty()) throw Error(ErrorCode::invalid_argument, "prompt: not set");
  const gsl::span<const PromptPart> messages = messages_of(settings.prompt);
  if (messages.empty()) {
    refuse_without_messages(settings);
    TokenIds prompt =
        encode_named("prompt", [&] { return encode_parts(settings.prompt, settings, *model.model); });
    if (words != nullptr) *words = model.model->tokenizer().decode(prompt, false);
    return prompt;
  }
  const Tokenizer& tokenizer = model.model->tokenizer();
  TokenIds prompt;
  for (const PromptPart& part : settings.prompt) {
    TokenIds tokens;
    if (!is_messages(part)) {
      tokens = encode_named(fmt::format("prompt: part {}", &part - settings.prompt.data()),
                            [&] { return encode_part(*model.model, part, settings.parse_special); });
      if (words != nullptr) *words += tokenizer.decode(tokens, false);
    } else if (&part == &messages.front()) {
      const chat::RenderedChat rendered = render_conversation(settings, model);
      tokens = chat::encode_rendered(tokenizer, rendered);
      if (words != nullptr) *words += words_of_template(rendered);
    }
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
  }
  return prompt;
}

void require_counting(const RequestSettings& settings, uint32_t counts_for, std::string_view what) {
  for (const Setting& made : settings.made) {
    if ((made.counts & counts_for) == 0) {
      throw Error(ErrorCode::invalid_argument, "{}: does not count for {}", made.name, what);
    }
  }
}

JobRequest read_request(quire_job_request* request, const CacheShare& cache, uint32_t counts_for) {
  RequestSettings settings = Pinned(request, "request")->read();
  if (counts_for == Counts::for_kind) require_counting_for_kind(settings);
  if (counts_for == Counts::score) {
    require_counting(settings, Counts::score, "a score");
    if (settings.queue.events != nullptr) {
      throw Error(ErrorCode::invalid_argument, "queue: does not count for a score, which waits by itself");
    }
  }
  JobRequest job = std::move(settings.job);
  const bool is_read = !settings.response.dialect.empty();
  if (!is_read) refuse_unread(settings.response);
  std::string words;
  job.prompt = encode_prompt(settings, *cache.model, is_read ? &words : nullptr);
  if (!settings.negative_prompt.empty())
    job.negative_prompt = encode_named("negative_prompt", [&] {
      return encode_parts(settings.negative_prompt, settings, *cache.model->model);
    });
  if (is_read) job.response = reader_for(settings, *cache.model, words);
  if (settings.queue.events != nullptr && settings.queue.runtime != cache.model->runtime) {
    throw Error(ErrorCode::invalid_argument, "queue: it belongs to another runtime than the cache");
  }
  job.queue = std::move(settings.queue.events);
  job.constraint = constraint_for(*cache.model, settings.constraint, job.response.get());
  if (is_read) limit_reasoning(*cache.model, settings.response.reasoning_budget, job);
  if (settings.heal_prompt) heal_prompt(*cache.model, job);
  return job;
}

}  // namespace quire::capi
