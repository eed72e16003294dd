#include "core/constrained/front_end.h"

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/constrained/gbnf.h"
#include "core/constrained/lark.h"
#include "core/constrained/pattern.h"
#include "core/constrained/schema_document.h"

namespace quire {
namespace {

constexpr JsonLimits kSourceLimits{8U << 20, kMaxSchemaDepth};

Grammar json_grammar(JsonValue schema) {
  Grammar grammar;
  grammar.root = grammar.add_schema(grammar.add_document(std::move(schema)), "");
  return grammar;
}

Grammar language_grammar(LanguageId language) {
  Grammar grammar;
  grammar.root = grammar.add_language(language);
  return grammar;
}

Grammar choice_grammar(std::string_view source, LanguageStore& languages) {
  const JsonValue list = parse_json(source, "choice", kSourceLimits);
  const JsonView view(list, "choice");
  std::vector<LanguageId> texts;
  for (const JsonView& item : view.items()) texts.push_back(languages.text(item.as_string()));
  return language_grammar(languages.any_of(std::move(texts)));
}

// Returns the parameter name of the source of a constraint.
std::string_view name_of(ConstraintKind kind) {
  switch (kind) {
    case ConstraintKind::json_schema:
    case ConstraintKind::json_object:
      return "schema";
    case ConstraintKind::regex:
      return "pattern";
    case ConstraintKind::choice:
      return "choice";
    default:
      return "grammar";
  }
}

}  // namespace

Grammar parse_source(ConstraintKind kind, std::string_view source, LanguageStore& languages,
                     const TokenVocabulary& vocabulary) {
  switch (kind) {
    case ConstraintKind::json_schema:
      return json_grammar(parse_json(source, "schema", kSourceLimits));
    case ConstraintKind::json_object:
      return json_grammar(parse_json(R"({"type": "object"})", "schema"));
    case ConstraintKind::regex:
      return language_grammar(parse_pattern(source, {}, languages));
    case ConstraintKind::choice:
      return choice_grammar(source, languages);
    case ConstraintKind::gbnf:
      return parse_gbnf(source, languages, vocabulary);
    case ConstraintKind::lark:
      return parse_lark(source, languages, vocabulary);
  }
  throw Error(ErrorCode::invalid_argument, "unknown kind of constraint");
}

std::shared_ptr<const Constraint> Constraint::compile(ConstraintKind kind, std::string_view source,
                                                      std::shared_ptr<const TokenVocabulary> vocabulary,
                                                      const ConstraintLimits& limits, const JsonForm& form) {
  std::shared_ptr<const Constraint> made(new Constraint(kind, source, std::move(vocabulary), limits, form));
  with_parameter(name_of(kind), [&] { made->pool_.start_with(made->make_states()); });
  return made;
}

std::shared_ptr<SharedStates> Constraint::make_states() const {
  auto maker = std::make_unique<MaskMaker>(vocabulary_, limits_, form_);
  maker->build(parse_source(kind_, source_, maker->machine().languages(), *vocabulary_));
  return pool_.wrap(std::move(maker));
}

}  // namespace quire
