#include "core/constrained/grammar.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/error.h"

namespace quire {
namespace {

template <typename T>
void append_moved(std::vector<T>& target, std::vector<T>&& more) {
  target.insert(target.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

ExpressionId Grammar::add(Expression expression) {
  uint32_t height = expression.kind == Expression::Kind::repetition ? expressions[expression.a].height : 0;
  for (const ExpressionId part : expression.parts) height = std::max(height, expressions[part].height);
  expression.height = height + 1;
  if (expression.height > kMaxHeight) {
    throw Error(
        ErrorCode::capacity,
        "a grammar is nested deeper than {} groups and repetitions; give inner parts rules of their own",
        kMaxHeight);
  }
  expressions.push_back(std::move(expression));
  return static_cast<ExpressionId>(expressions.size() - 1);
}

ExpressionId Grammar::take_in(Grammar other) {
  const auto first = static_cast<ExpressionId>(expressions.size());
  for (Expression& expression : other.expressions) {
    switch (expression.kind) {
      case Expression::Kind::tokens:
        expression.a += static_cast<uint32_t>(token_sets.size());
        break;
      case Expression::Kind::repetition:
      case Expression::Kind::negation:
        expression.a += first;
        break;
      case Expression::Kind::rule:
        expression.a += static_cast<uint32_t>(rules.size());
        break;
      case Expression::Kind::json:
        expression.a += static_cast<uint32_t>(schemas.size());
        break;
      default:
        break;
    }
    for (ExpressionId& part : expression.parts) part += first;
  }
  for (Rule& rule : other.rules) rule.body += first;
  for (SchemaPart& schema : other.schemas) schema.document += static_cast<uint32_t>(documents.size());
  append_moved(expressions, std::move(other.expressions));
  append_moved(rules, std::move(other.rules));
  append_moved(token_sets, std::move(other.token_sets));
  append_moved(documents, std::move(other.documents));
  append_moved(schemas, std::move(other.schemas));
  return other.root + first;
}

}  // namespace quire
