// Traversal of a syntax tree.
#pragma once

#include <variant>

#include "core/chat/syntax.h"

namespace quire::chat {

// A visitor that combines one lambda for each alternative of a variant.
template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

template <typename Visit>
void for_each_argument(const CallArguments& arguments, Visit&& visit) {
  for (Expr* argument : arguments.positional) visit(*argument);
  for (const auto& [name, argument] : arguments.named) visit(*argument);
  if (arguments.more_positional != nullptr) visit(*arguments.more_positional);
  if (arguments.more_named != nullptr) visit(*arguments.more_named);
}

template <typename Visit>
void for_each_child(Expr& expr, Visit&& visit) {
  const auto maybe = [&](Expr* child) {
    if (child != nullptr) visit(*child);
  };
  std::visit(Overloaded{
                 [](LiteralExpr&) {},
                 [](NameExpr&) {},
                 [&](SequenceExpr& e) {
                   for (Expr* item : e.items) visit(*item);
                 },
                 [&](DictExpr& e) {
                   for (auto& [key, value] : e.entries) visit(*key), visit(*value);
                 },
                 [&](UnaryExpr& e) { visit(*e.operand); },
                 [&](BinaryExpr& e) { visit(*e.left), visit(*e.right); },
                 [&](LogicExpr& e) { visit(*e.left), visit(*e.right); },
                 [&](CompareExpr& e) {
                   visit(*e.first);
                   for (auto& [op, operand] : e.rest) visit(*operand);
                 },
                 [&](ConcatExpr& e) {
                   for (Expr* item : e.items) visit(*item);
                 },
                 [&](ConditionalExpr& e) { visit(*e.test), visit(*e.then), maybe(e.otherwise); },
                 [&](AttributeExpr& e) { visit(*e.object); },
                 [&](SubscriptExpr& e) { visit(*e.object), visit(*e.key); },
                 [&](SliceExpr& e) { visit(*e.object), maybe(e.start), maybe(e.stop), maybe(e.step); },
                 [&](CallExpr& e) { visit(*e.callee), for_each_argument(e.arguments, visit); },
                 [&](FilterExpr& e) { maybe(e.subject), for_each_argument(e.arguments, visit); },
                 [&](TestExpr& e) { visit(*e.subject), for_each_argument(e.arguments, visit); },
             },
             expr.node);
}

}  // namespace quire::chat
