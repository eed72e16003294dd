// Parser of the expressions of chat templates, by recursive descent; one function for each level of
// precedence.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/chat/syntax.h"
#include "core/chat/syntax_walk.h"
#include "core/chat/token_cursor.h"

namespace quire::chat {

// Base of the parser of statements. Owns the syntax tree while it grows.
class ExpressionParser : protected TokenCursor {
 protected:
  using TokenCursor::TokenCursor;

  template <typename Node>
  Expr* expr(const Position& position, Node node) {
    Expr& made = syntax_.exprs.emplace_back(Expr{position, 1, std::move(node)});
    for_each_child(made, [&](const Expr& child) { made.height = std::max(made.height, child.height + 1); });
    if (made.height > limits().max_syntax_height) fail("an expression is longer than the limit");
    return &made;
  }
  static TextRef name_text(std::string_view name) { return make_text(name, true); }
  Expr* name_expr(const Position& position, const std::string& name) {
    return expr(position, NameExpr{name, name_text(name), {}});
  }

  // Returns whether a tuple ends before the current token: at the end of a tag or of parentheses, or at one
  // of the words.
  bool is_tuple_end(Words ends) const;
  // Parses one expression, or a tuple of several.
  Expr* parse_tuple(Words ends, bool with_condition = true, bool in_parentheses = false);
  Expr* parse_expression();
  // Parses a filter after its `|`; `subject` is null in a filter block.
  Expr* parse_filter(Expr* subject);

  Syntax syntax_;

 private:
  Expr* parse_or();
  Expr* parse_and();
  Expr* parse_not();
  Expr* parse_compare();
  Expr* parse_sum();
  Expr* parse_concat();
  Expr* parse_product();
  BinaryOp product_op() const;
  Expr* parse_power();
  Expr* parse_unary(bool with_filter);
  Expr* parse_primary();
  Expr* parse_name();
  Expr* parse_text();
  Expr* parse_list();
  Expr* parse_dict();
  Expr* parse_postfix(Expr* value);
  Expr* parse_filters(Expr* value);
  Expr* parse_attribute(Expr* object);
  Expr* parse_subscript(Expr* object);
  Expr* parse_slice(Expr* object, Expr* start, const Position& position);
  CallArguments parse_arguments();
  void parse_argument(CallArguments& arguments);
  [[noreturn]] void fail_arguments() const;
  Expr* parse_call(Expr* callee);
  std::string parse_dotted_name();
  bool begins_test_argument() const;
  Expr* parse_test(Expr* subject);
};

}  // namespace quire::chat
