// Context-free grammars: the form between the parsers and the push-down automaton. Expressions over lexemes,
// tokens and JSON values, and rules that may refer to each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/json.h"
#include "core/constrained/byte_automaton.h"

namespace quire {

using ExpressionId = uint32_t;

struct Expression {
  // A conjunction matches what all its parts match, a negation what its part does not. Both become languages
  // when the grammar is normalized.
  enum class Kind : uint8_t {
    empty,
    nothing,
    language,
    tokens,
    sequence,
    choice,
    conjunction,
    repetition,
    negation,
    rule,
    json
  };
  Kind kind = Kind::empty;
  uint32_t a = 0;    // index of a language, token set, part, rule or schema
  uint32_t min = 0;  // of a repetition
  uint32_t max = 0;
  std::vector<ExpressionId> parts;
  uint32_t height = 1;  // levels of expressions down to the leaves; rules are leaves
};

// Tokens with these ids, or all others.
struct TokenSet {
  TokenIds ids;
  bool negated = false;
};

// A schema of a document: the whole one, or the part that a reference names, such as "#/properties/a".
struct SchemaPart {
  uint32_t document = 0;  // index
  std::string reference;  // empty: the whole document
};

struct Rule {
  std::string name;
  ExpressionId body = 0;
  bool shortest = false;  // lazy: only texts of which no proper prefix matches too; the rule must be regular
};

// A grammar as plain data. Expression 0 is the empty text.
struct Grammar {
  std::vector<Expression> expressions = {Expression{}};
  std::vector<Rule> rules;
  std::vector<TokenSet> token_sets;
  std::vector<JsonValue> documents;  // of schemas
  std::vector<SchemaPart> schemas;
  ExpressionId root = 0;

  // Maximum height of an expression: recursions over it fit into the smallest stack of a caller.
  static constexpr uint32_t kMaxHeight = 150;

  // Adds an expression, whose parts are in the grammar. Throws ErrorCode::capacity if it is too high.
  ExpressionId add(Expression expression);
  ExpressionId add_language(LanguageId language) {
    Expression expression;
    expression.kind = Expression::Kind::language;
    expression.a = language;
    return add(std::move(expression));
  }
  ExpressionId add_group(Expression::Kind kind, std::vector<ExpressionId> parts) {
    if (parts.size() == 1) return parts[0];
    Expression expression;
    expression.kind = kind;
    expression.parts = std::move(parts);
    return add(std::move(expression));
  }
  ExpressionId add_repetition(ExpressionId part, uint32_t min, uint32_t max) {
    Expression expression;
    expression.kind = Expression::Kind::repetition;
    expression.a = part;
    expression.min = min;
    expression.max = max;
    return add(std::move(expression));
  }
  ExpressionId add_schema(uint32_t document, std::string reference) {
    schemas.push_back({document, std::move(reference)});
    Expression expression;
    expression.kind = Expression::Kind::json;
    expression.a = static_cast<uint32_t>(schemas.size() - 1);
    return add(std::move(expression));
  }
  uint32_t add_document(JsonValue document) {
    documents.push_back(std::move(document));
    return static_cast<uint32_t>(documents.size() - 1);
  }
  // Adds `other` to this grammar and returns its root. Both must use the same LanguageStore.
  ExpressionId take_in(Grammar other);
};

}  // namespace quire
