#include "core/engine/requests/answer_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/engine/model/reasoning_budget.h"
#include "core/engine/requests/conversation_input.h"
#include "core/response/dialect_table.h"

namespace quire {
namespace {

// Returns the source of the template that renders tools.
const std::string& source_of(const ChatTemplates& chat) {
  JsonValue::Object input;
  input.push_back({"tools", JsonValue(JsonValue::Array(1))});
  return chat.templates->choose(chat.settings.name, JsonValue(std::move(input))).source();
}

SpecialTokens special_tokens_of(const Tokenizer& tokenizer) {
  SpecialTokens tokens;
  for (const TokenId id : tokenizer.special_ids()) tokens.emplace(tokenizer.token_text(id), id);
  return tokens;
}

// Names and marks of reasoning in the templates of models that reason, in lower case.
// bindings/go/server/local/dialect.go has the same list.
constexpr std::array<std::string_view, 6> kReasoningWords = {"think",    "thought",      "reason",
                                                             "analysis", "inner_prefix", "to=self"};

bool mentions_reasoning(std::string_view text) {
  const auto is_same = [](char in_text, char in_word) {
    return (in_text >= 'A' && in_text <= 'Z' ? in_text - 'A' + 'a' : in_text) == in_word;
  };
  return std::any_of(kReasoningWords.begin(), kReasoningWords.end(), [&](std::string_view word) {
    return std::search(text.begin(), text.end(), word.begin(), word.end(), is_same) != text.end();
  });
}

// Returns the templates of the request, otherwise of the model; nothing if there are none.
std::optional<ChatTemplates> templates_for(const RequestSpec& spec, const LoadedModel& model) {
  if (spec.conversation.chat.templates != nullptr) return spec.conversation.chat;
  auto own = model.chat->find_templates(model.model->path());
  if (own == nullptr) return std::nullopt;
  return with_own_settings(std::move(own));
}

// Returns where reasoning begins if the prompt does not open it. A constrained answer to a conversation has
// none if neither the template nor the rest of the prompt mentions reasoning; the model would otherwise have
// to choose between reasoning and the constrained text.
ReasoningStart reasoning_start(const RequestSpec& spec, const LoadedModel& model, std::string_view words) {
  if (spec.response.reasoning) return *spec.response.reasoning;
  const bool is_open_rule = spec.constraint.rules != nullptr && !messages_of(spec.prompt).empty();
  if (!is_open_rule || mentions_reasoning(words)) return ReasoningStart::closed;
  const std::optional<ChatTemplates> chat = templates_for(spec, model);
  const bool may_reason = !chat || mentions_reasoning(source_of(*chat));
  return may_reason ? ReasoningStart::closed : ReasoningStart::off;
}

const Dialect& dialect_for(const RequestSpec& spec, const LoadedModel& model) {
  const std::string& name = spec.response.dialect;
  if (name != kAutoDialect) return find_dialect(name);
  const ChatTemplates& given = spec.conversation.chat;
  return given.templates != nullptr ? detect_dialect(&given, &model.model->tokenizer()) : dialect_of(model);
}

}  // namespace

const Dialect& detect_dialect(const ChatTemplates* chat, const Tokenizer* tokenizer) {
  const Dialect& dialect = detect_dialect(chat == nullptr ? std::string() : source_of(*chat));
  if (tokenizer == nullptr || !dialect.forms.empty()) return dialect;
  std::string tokens;
  for (const auto& [text, id] : special_tokens_of(*tokenizer)) tokens.append(text).append("\n");
  return detect_dialect(tokens);
}

const Dialect& dialect_of(const LoadedModel& model) {
  const Tokenizer& tokenizer = model.model->tokenizer();
  const auto templates = model.chat->find_templates(model.model->path());
  if (templates == nullptr) return detect_dialect(nullptr, &tokenizer);
  const ChatTemplates chat = with_own_settings(templates);
  return detect_dialect(&chat, &tokenizer);
}

std::shared_ptr<const Constraint> compile_rules(const LoadedModel& model, const ResponseRules& rules,
                                                const JsonForm& form) {
  const std::string source = response_grammar(rules, special_tokens_of(model.model->tokenizer()));
  const bool has_format = !rules.format.empty() || rules.tags;
  return replace_parameter(has_format ? "response_format" : "tools", [&] {
    return model.constraints->get(*model.model, ConstraintKind::lark, source, form);
  });
}

void refuse_unread(const ResponseSettings& response) {
  const char* const made = response.reasoning.value_or(ReasoningStart::closed) != ReasoningStart::closed
                               ? "reasoning"
                           : response.reasoning_budget >= 0 ? "reasoning_budget"
                                                            : nullptr;
  if (made == nullptr) return;
  throw Error(ErrorCode::invalid_argument, "{}: has no effect without a response_dialect; set one", made)
      .at(made);
}

std::shared_ptr<const ResponseParser> make_reader(const RequestSpec& spec, const LoadedModel& model,
                                                  std::string_view words) {
  const std::string& tools = spec.conversation.tools;
  auto reader = std::make_shared<ResponseParser>(dialect_for(spec, model),
                                                 tools.empty() ? ToolSet() : ToolSet::parse(tools),
                                                 reasoning_start(spec, model, words));
  reader->follow(words);
  return reader;
}

void limit_reasoning(const LoadedModel& model, int32_t max_tokens, JobRequest& job) {
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

}  // namespace quire
