#include "core/chat/expression_parser.h"

#include <optional>

#include "core/chat/builtins.h"

namespace quire::chat {
namespace {

std::optional<CompareOp> compare_op(std::string_view op) {
  if (op == "==") return CompareOp::equal;
  if (op == "!=") return CompareOp::not_equal;
  if (op == "<") return CompareOp::less;
  if (op == "<=") return CompareOp::less_equal;
  if (op == ">") return CompareOp::greater;
  if (op == ">=") return CompareOp::greater_equal;
  return std::nullopt;
}

}  // namespace

bool ExpressionParser::is_tuple_end(Words ends) const {
  return current().type == TokenType::variable_end || current().type == TokenType::block_end || is_op(")") ||
         is_word_of(ends);
}

Expr* ExpressionParser::parse_tuple(Words ends, bool with_condition, bool in_parentheses) {
  const Position position = current().position;
  std::vector<Expr*> items;
  bool is_tuple = false;
  while (!is_tuple_end(ends)) {
    items.push_back(with_condition ? parse_expression() : parse_or());
    if (!skip_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return items.front();
  if (!is_tuple && !in_parentheses) fail("expected an expression, got " + describe(current()));
  return expr(position, SequenceExpr{std::move(items), true});
}

Expr* ExpressionParser::parse_expression() {
  const Level level(*this);
  const Position position = current().position;
  Expr* value = parse_or();
  while (skip_word("if")) {
    Expr* test = parse_or();
    Expr* otherwise = skip_word("else") ? parse_expression() : nullptr;
    value = expr(position, ConditionalExpr{test, value, otherwise});
  }
  return value;
}

Expr* ExpressionParser::parse_or() {
  const Position position = current().position;
  Expr* left = parse_and();
  while (skip_word("or")) left = expr(position, LogicExpr{false, left, parse_and()});
  return left;
}

Expr* ExpressionParser::parse_and() {
  const Position position = current().position;
  Expr* left = parse_not();
  while (skip_word("and")) left = expr(position, LogicExpr{true, left, parse_not()});
  return left;
}

Expr* ExpressionParser::parse_not() {
  const Level level(*this);
  const Position position = current().position;
  if (skip_word("not")) return expr(position, UnaryExpr{UnaryOp::negate, parse_not()});
  return parse_compare();
}

Expr* ExpressionParser::parse_compare() {
  const Position position = current().position;
  CompareExpr compare;
  compare.first = parse_sum();
  for (;;) {
    const auto op = current().type == TokenType::op ? compare_op(current().text) : std::nullopt;
    if (op) {
      next();
      compare.rest.emplace_back(*op, parse_sum());
    } else if (skip_word("in")) {
      compare.rest.emplace_back(CompareOp::in, parse_sum());
    } else if (is_word("not") && is(ahead(), TokenType::name, "in")) {
      next();
      next();
      compare.rest.emplace_back(CompareOp::not_in, parse_sum());
    } else {
      break;
    }
  }
  if (compare.rest.empty()) return compare.first;
  return expr(position, std::move(compare));
}

Expr* ExpressionParser::parse_sum() {
  const Position position = current().position;
  Expr* left = parse_concat();
  while (is_op("+") || is_op("-")) {
    const BinaryOp op = next().text == "+" ? BinaryOp::add : BinaryOp::subtract;
    left = expr(position, BinaryExpr{op, left, parse_concat()});
  }
  return left;
}

Expr* ExpressionParser::parse_concat() {
  const Position position = current().position;
  ConcatExpr concat;
  concat.items.push_back(parse_product());
  while (skip_op("~")) concat.items.push_back(parse_product());
  if (concat.items.size() == 1) return concat.items.front();
  return expr(position, std::move(concat));
}

Expr* ExpressionParser::parse_product() {
  const Position position = current().position;
  Expr* left = parse_power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const BinaryOp op = product_op();
    next();
    left = expr(position, BinaryExpr{op, left, parse_power()});
  }
  return left;
}

BinaryOp ExpressionParser::product_op() const {
  if (is_op("*")) return BinaryOp::multiply;
  if (is_op("/")) return BinaryOp::divide;
  return is_op("//") ? BinaryOp::floor_divide : BinaryOp::modulo;
}

Expr* ExpressionParser::parse_power() {
  const Position position = current().position;
  Expr* left = parse_unary(true);
  while (skip_op("**")) left = expr(position, BinaryExpr{BinaryOp::power, left, parse_unary(true)});
  return left;
}

Expr* ExpressionParser::parse_unary(bool with_filter) {
  const Level level(*this);
  const Position position = current().position;
  Expr* value = nullptr;
  if (skip_op("-")) {
    value = expr(position, UnaryExpr{UnaryOp::minus, parse_unary(false)});
  } else if (skip_op("+")) {
    value = expr(position, UnaryExpr{UnaryOp::plus, parse_unary(false)});
  } else {
    value = parse_primary();
  }
  value = parse_postfix(value);
  return with_filter ? parse_filters(value) : value;
}

Expr* ExpressionParser::parse_primary() {
  const Token token = current();
  switch (token.type) {
    case TokenType::name:
      return parse_name();
    case TokenType::text:
      return parse_text();
    case TokenType::integer:
      next();
      return expr(token.position, LiteralExpr{Value(token.integer)});
    case TokenType::real:
      next();
      return expr(token.position, LiteralExpr{Value(token.real)});
    default:
      break;
  }
  if (is_op("[")) return parse_list();
  if (is_op("{")) return parse_dict();
  if (!skip_op("(")) fail("unexpected " + describe(token));
  Expr* value = parse_tuple({}, true, true);
  expect_op(")");
  return value;
}

Expr* ExpressionParser::parse_name() {
  const Token token = next();
  if (token.text == "true" || token.text == "True") return expr(token.position, LiteralExpr{Value(true)});
  if (token.text == "false" || token.text == "False") return expr(token.position, LiteralExpr{Value(false)});
  if (token.text == "none" || token.text == "None") return expr(token.position, LiteralExpr{Value::none()});
  return name_expr(token.position, token.text);
}

Expr* ExpressionParser::parse_text() {
  const Token token = next();
  std::string text = token.text;
  while (current().type == TokenType::text) text += next().text;
  return expr(token.position, LiteralExpr{Value(make_text(text, true))});
}

Expr* ExpressionParser::parse_list() {
  const Position position = next().position;
  SequenceExpr list;
  while (!is_op("]")) {
    list.items.push_back(parse_expression());
    if (!is_op("]")) expect_op(",");
  }
  next();
  return expr(position, std::move(list));
}

Expr* ExpressionParser::parse_dict() {
  const Position position = next().position;
  DictExpr dict;
  while (!is_op("}")) {
    Expr* key = parse_expression();
    expect_op(":");
    dict.entries.emplace_back(key, parse_expression());
    if (!is_op("}")) expect_op(",");
  }
  next();
  return expr(position, std::move(dict));
}

Expr* ExpressionParser::parse_postfix(Expr* value) {
  for (;;) {
    if (is_op(".")) {
      value = parse_attribute(value);
    } else if (is_op("[")) {
      value = parse_subscript(value);
    } else if (is_op("(")) {
      value = parse_call(value);
    } else {
      return value;
    }
  }
}

Expr* ExpressionParser::parse_filters(Expr* value) {
  for (;;) {
    if (skip_op("|")) {
      value = parse_filter(value);
    } else if (is_word("is")) {
      value = parse_test(value);
    } else if (is_op("(")) {
      value = parse_call(value);
    } else {
      return value;
    }
  }
}

Expr* ExpressionParser::parse_attribute(Expr* object) {
  next();
  const Token token = next();
  if (token.type == TokenType::name)
    return expr(token.position, AttributeExpr{object, name_text(token.text)});
  if (token.type != TokenType::integer) fail("expected a name or a number");
  return expr(token.position, SubscriptExpr{object, expr(token.position, LiteralExpr{Value(token.integer)})});
}

Expr* ExpressionParser::parse_subscript(Expr* object) {
  const Position position = next().position;
  if (is_op("]")) fail("expected an expression, got ']'");
  Expr* start = is_op(":") ? nullptr : parse_expression();
  if (is_op(":")) return parse_slice(object, start, position);
  Expr* key = start;
  if (is_op(",")) {
    SequenceExpr tuple{{start}, true};
    while (skip_op(",") && !is_op("]")) tuple.items.push_back(parse_expression());
    key = expr(position, std::move(tuple));
  }
  expect_op("]");
  return expr(position, SubscriptExpr{object, key});
}

Expr* ExpressionParser::parse_slice(Expr* object, Expr* start, const Position& position) {
  SliceExpr slice;
  slice.object = object;
  slice.start = start;
  expect_op(":");
  if (!is_op(":") && !is_op("]")) slice.stop = parse_expression();
  if (skip_op(":") && !is_op("]")) slice.step = parse_expression();
  expect_op("]");
  return expr(position, slice);
}

CallArguments ExpressionParser::parse_arguments() {
  CallArguments arguments;
  expect_op("(");
  while (!is_op(")")) {
    parse_argument(arguments);
    if (!is_op(")")) expect_op(",");
  }
  next();
  return arguments;
}

void ExpressionParser::parse_argument(CallArguments& arguments) {
  if (skip_op("*")) {
    if (arguments.more_positional != nullptr || arguments.more_named != nullptr) fail_arguments();
    arguments.more_positional = parse_expression();
  } else if (skip_op("**")) {
    if (arguments.more_named != nullptr) fail_arguments();
    arguments.more_named = parse_expression();
  } else if (current().type == TokenType::name && is(ahead(), TokenType::op, "=")) {
    if (arguments.more_named != nullptr) fail_arguments();
    std::string name = next().text;
    next();
    arguments.named.emplace_back(std::move(name), parse_expression());
  } else {
    if (arguments.more_positional != nullptr || arguments.more_named != nullptr || !arguments.named.empty()) {
      fail_arguments();
    }
    arguments.positional.push_back(parse_expression());
  }
}

void ExpressionParser::fail_arguments() const {
  fail("invalid order of the arguments of a call");
}

Expr* ExpressionParser::parse_call(Expr* callee) {
  const Position position = current().position;
  return expr(position, CallExpr{callee, parse_arguments()});
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = expect_name();
  while (skip_op(".")) name += "." + expect_name();
  return name;
}

Expr* ExpressionParser::parse_filter(Expr* subject) {
  const Position position = current().position;
  FilterExpr filter;
  filter.subject = subject;
  filter.name = parse_dotted_name();
  filter.builtin = find_filter(filter.name);
  if (is_op("(")) filter.arguments = parse_arguments();
  return expr(position, std::move(filter));
}

bool ExpressionParser::begins_test_argument() const {
  const TokenType type = current().type;
  if (type == TokenType::name) return !is_word_of({"else", "or", "and"});
  return type == TokenType::text || type == TokenType::integer || type == TokenType::real || is_op("[") ||
         is_op("{");
}

Expr* ExpressionParser::parse_test(Expr* subject) {
  const Position position = next().position;
  const bool negated = skip_word("not");
  TestExpr test;
  test.subject = subject;
  test.name = parse_dotted_name();
  test.builtin = find_test(test.name);
  if (is_op("(")) {
    test.arguments = parse_arguments();
  } else if (begins_test_argument()) {
    if (is_word("is")) fail("you cannot chain multiple tests with is");
    test.arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  Expr* value = expr(position, std::move(test));
  return negated ? expr(position, UnaryExpr{UnaryOp::negate, value}) : value;
}

}  // namespace quire::chat
