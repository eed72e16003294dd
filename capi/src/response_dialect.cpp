#include "capi/src/response_dialect.h"

#include <utility>

#include "core/response/dialect_table.h"

namespace quire::capi {
namespace {

// The template that a rendering with tools takes.
const std::string& source_of(const ChatShare& chat) {
  JsonValue::Object input;
  input.push_back({"tools", JsonValue(JsonValue::Array(1))});
  return chat.templates->choose(chat.settings.name, JsonValue(std::move(input))).source();
}

// By their texts.
SpecialTokens special_tokens_of(const Tokenizer& tokenizer) {
  SpecialTokens tokens;
  for (const TokenId id : tokenizer.special_ids()) tokens.emplace(tokenizer.token_text(id), id);
  return tokens;
}

}  // namespace

std::shared_ptr<const Constraint> compile_rules(const ModelShare& model, const ResponseRules& rules) {
  const std::string source = response_grammar(rules, special_tokens_of(model.model->tokenizer()));
  return model.constraints->get(*model.model, ConstraintKind::lark, source);
}

const Dialect& detect_dialect(const ChatShare* chat, const Tokenizer* tokenizer) {
  const Dialect& dialect = quire::detect_dialect(chat == nullptr ? std::string() : source_of(*chat));
  if (tokenizer == nullptr || !dialect.forms.empty()) return dialect;
  std::string tokens;
  for (const auto& [text, id] : special_tokens_of(*tokenizer)) tokens.append(text).append("\n");
  return quire::detect_dialect(tokens);
}

const Dialect& dialect_of(const ModelShare& model) {
  const Tokenizer& tokenizer = model.model->tokenizer();
  const auto templates = model.chat->find_templates(model.model->path());
  if (templates == nullptr) return detect_dialect(nullptr, &tokenizer);
  const ChatShare chat = with_own_settings(templates);
  return detect_dialect(&chat, &tokenizer);
}

}  // namespace quire::capi
