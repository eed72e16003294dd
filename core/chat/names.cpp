#include "core/chat/names.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "core/chat/syntax_walk.h"

namespace quire::chat {
namespace {

// Returns whether an expression reads a name.
bool reads(Expr& expr, std::string_view name) {
  if (const auto* variable = std::get_if<NameExpr>(&expr.node)) return variable->name == name;
  bool found = false;
  for_each_child(expr, [&](Expr& child) { found = found || reads(child, name); });
  return found;
}
bool reads(Expr* expr, std::string_view name) {
  return expr != nullptr && reads(*expr, name);
}
bool reads(const std::vector<Expr*>& exprs, std::string_view name) {
  return std::any_of(exprs.begin(), exprs.end(), [&](Expr* expr) { return reads(*expr, name); });
}

bool body_reads(const Body& body, std::string_view name);

bool statement_reads(Statement& statement, std::string_view name) {
  return std::visit(
      Overloaded{
          [&](OutputStatement& s) { return reads(s.items, name); },
          [&](SetStatement& s) {
            const bool attribute = std::holds_alternative<AttributeExpr>(s.target->node);
            return reads(s.value, name) || (attribute && reads(s.target, name));
          },
          [&](SetBlockStatement& s) { return reads(s.filter, name) || body_reads(s.body, name); },
          [&](IfStatement& s) {
            return body_reads(s.otherwise, name) ||
                   std::any_of(s.branches.begin(), s.branches.end(), [&](const auto& branch) {
                     return reads(branch.first, name) || body_reads(branch.second, name);
                   });
          },
          [&](ForStatement& s) {
            return reads(s.items, name) || reads(s.filter.test, name) || body_reads(s.body, name) ||
                   body_reads(s.otherwise, name);
          },
          [&](MacroStatement& s) { return reads(s.macro.defaults, name) || body_reads(s.macro.body, name); },
          [&](CallStatement& s) {
            return reads(s.call, name) || reads(s.macro.defaults, name) || body_reads(s.macro.body, name);
          },
          [&](FilterStatement& s) { return reads(s.filter, name) || body_reads(s.body, name); },
          [&](WithStatement& s) {
            return body_reads(s.body, name) ||
                   std::any_of(s.values.begin(), s.values.end(),
                               [&](const auto& value) { return reads(value.second, name); });
          },
          [](BreakStatement&) { return false; },
          [](ContinueStatement&) { return false; },
      },
      statement.node);
}

bool body_reads(const Body& body, std::string_view name) {
  return std::any_of(body.begin(), body.end(),
                     [&](Statement* statement) { return statement_reads(*statement, name); });
}

// --- Scopes

enum class Branch { none, inside };

// The variables of one scope during name resolution.
class ScopeNames {
 public:
  ScopeNames(const ScopeNames* parent, FunctionFrame& function, uint32_t function_depth, Scope& scope)
      : parent_(parent), function_(&function), function_depth_(function_depth), scope_(&scope) {}

  FunctionFrame& function() const { return *function_; }
  uint32_t function_depth() const { return function_depth_; }

  void load(const std::string& name) {
    if (!find(name)) define(name, Load::Kind::look_up);
  }

  // Records an assignment. The first assignment in a scope determines the value of the name before it: copied
  // from the enclosing scope, looked up, or undefined.
  void store(const std::string& name, Branch branch) {
    if (!stored_.insert(name).second || refs_.count(name) > 0) return;
    if (parent_ != nullptr && parent_->find(name)) {
      define(name, Load::Kind::copy);
    } else {
      define(name, branch == Branch::inside ? Load::Kind::look_up : Load::Kind::undefine);
    }
  }

  // Adds a variable that is set from outside, such as a parameter.
  uint32_t declare(const std::string& name) {
    stored_.insert(name);
    const auto known = refs_.find(name);
    if (known != refs_.end()) return known->second;
    const uint32_t idx = function_->num_slots++;
    refs_.emplace(name, idx);
    return idx;
  }

  Slot slot(const std::string& name) const {
    const auto found = find(name);
    return found ? Slot{function_depth_ - found->function_depth, found->idx} : Slot{};
  }

 private:
  struct Place {
    uint32_t function_depth;
    uint32_t idx;
  };

  std::optional<Place> find(const std::string& name) const {
    for (const ScopeNames* scope = this; scope != nullptr; scope = scope->parent_) {
      const auto found = scope->refs_.find(name);
      if (found != scope->refs_.end()) return Place{scope->function_depth_, found->second};
    }
    return std::nullopt;
  }

  void define(const std::string& name, Load::Kind kind) {
    Load load;
    load.kind = kind;
    load.name = name;
    if (kind == Load::Kind::copy) {
      const Place outside = *parent_->find(name);
      load.from = {function_depth_ - outside.function_depth, outside.idx};
    }
    load.idx = function_->num_slots++;
    refs_.emplace(name, load.idx);
    scope_->push_back(std::move(load));
  }

  const ScopeNames* parent_;
  FunctionFrame* function_;
  uint32_t function_depth_;
  Scope* scope_;
  std::unordered_map<std::string, uint32_t> refs_;
  std::unordered_set<std::string> stored_;
};

// First pass over a scope: collection of the names that it reads and sets. Does not enter nested scopes.
class NameCollector {
 public:
  explicit NameCollector(ScopeNames& names) : names_(names) {}

  void body(const Body& statements) {
    for (Statement* each : statements) statement(*each);
  }
  void expr(Expr* root) {
    if (root != nullptr) expr(*root);
  }
  void expr(Expr& root) {
    if (const auto* name = std::get_if<NameExpr>(&root.node)) return names_.load(name->name);
    for_each_child(root, [this](Expr& child) { expr(child); });
  }
  void target(Expr& root) {
    if (const auto* name = std::get_if<NameExpr>(&root.node)) return names_.store(name->name, branch_);
    if (std::holds_alternative<AttributeExpr>(root.node)) return expr(root);
    for_each_child(root, [this](Expr& child) { target(child); });
  }
  void parameter(Expr& root) {
    if (const auto* name = std::get_if<NameExpr>(&root.node)) {
      names_.declare(name->name);
    } else {
      for_each_child(root, [this](Expr& child) { parameter(child); });
    }
  }

 private:
  void statement(Statement& root) {
    std::visit(Overloaded{
                   [&](OutputStatement& s) {
                     for (Expr* item : s.items) expr(*item);
                   },
                   [&](SetStatement& s) { expr(*s.value), target(*s.target); },
                   [&](SetBlockStatement& s) { target(*s.target); },
                   [&](IfStatement& s) { choice(s); },
                   [&](ForStatement& s) { expr(*s.items); },
                   [&](MacroStatement& s) { target(*s.target); },
                   [&](CallStatement& s) { expr(s.call); },
                   [&](FilterStatement& s) { expr(*s.filter); },
                   [&](WithStatement& s) {
                     for (auto& [name, value] : s.values) expr(*value);
                   },
                   [](BreakStatement&) {},
                   [](ContinueStatement&) {},
               },
               root.node);
  }

  void choice(IfStatement& choice) {
    const Branch before = branch_;
    bool first = true;
    for (auto& [test, statements] : choice.branches) {
      if (!first) branch_ = Branch::inside;
      first = false;
      expr(*test);
      branch_ = Branch::inside;
      body(statements);
    }
    body(choice.otherwise);
    branch_ = before;
  }

  ScopeNames& names_;
  Branch branch_ = Branch::none;
};

// Second pass: assignment of slots to the variables of a scope, then of its nested scopes.
class NameResolver {
 public:
  void run(Syntax& syntax) {
    ScopeNames names(nullptr, syntax.function, 0, syntax.scope);
    NameCollector(names).body(syntax.body);
    body(syntax.body, names, false);
  }

 private:
  void body(const Body& statements, ScopeNames& names, bool in_branch) {
    for (Statement* each : statements) statement(*each, names, in_branch);
  }

  void expr(Expr* root, const ScopeNames& names, bool in_branch) {
    if (root != nullptr) expr(*root, names, in_branch);
  }

  void expr(Expr& root, const ScopeNames& names, bool in_branch) {
    if (auto* name = std::get_if<NameExpr>(&root.node)) {
      name->slot = names.slot(name->name);
      return;
    }
    if (const auto* filter = std::get_if<FilterExpr>(&root.node)) {
      require(filter->builtin, in_branch, "filter", filter->name, root.position);
    }
    if (const auto* test = std::get_if<TestExpr>(&root.node)) {
      require(test->builtin, in_branch, "test", test->name, root.position);
    }
    const bool inside = in_branch || std::holds_alternative<ConditionalExpr>(root.node);
    for_each_child(root, [&](Expr& child) { expr(child, names, inside); });
  }

  // Throws if the filter or test does not exist. In a branch, which may never run, only its use fails.
  static void require(Builtin builtin, bool in_branch, std::string_view kind, const std::string& name,
                      const Position& position) {
    if (builtin != nullptr || in_branch) return;
    throw TemplateError(TemplateFault::syntax, position,
                        fmt::format("there is no {} named '{}'", kind, printable(name)));
  }

  void target(Expr& root, const ScopeNames& names) {
    if (const auto* name = std::get_if<NameExpr>(&root.node);
        name != nullptr && name->name == "loop" && num_loops_ > 0) {
      throw TemplateError(TemplateFault::syntax, root.position,
                          "a loop cannot assign to its variable 'loop'");
    }
    if (std::holds_alternative<SequenceExpr>(root.node)) {
      for_each_child(root, [&](Expr& child) { target(child, names); });
    } else {
      expr(root, names, false);
    }
  }

  void statement(Statement& root, ScopeNames& names, bool in_branch) {
    std::visit(Overloaded{
                   [&](OutputStatement& s) {
                     for (Expr* item : s.items) expr(*item, names, in_branch);
                   },
                   [&](SetStatement& s) { expr(*s.value, names, in_branch), target(*s.target, names); },
                   [&](SetBlockStatement& s) { set_block(s, names); },
                   [&](IfStatement& s) { choice(s, names); },
                   [&](ForStatement& s) { loop(s, names, in_branch); },
                   [&](MacroStatement& s) { macro(s.macro, names), target(*s.target, names); },
                   [&](CallStatement& s) { macro(s.macro, names), expr(s.call, names, in_branch); },
                   [&](FilterStatement& s) { filter_block(s, names); },
                   [&](WithStatement& s) { with(s, names, in_branch); },
                   [](BreakStatement&) {},
                   [](ContinueStatement&) {},
               },
               root.node);
  }

  static ScopeNames inner(const ScopeNames& names, Scope& scope) {
    return {&names, names.function(), names.function_depth(), scope};
  }

  void choice(IfStatement& choice, ScopeNames& names) {
    for (auto& [test, statements] : choice.branches) {
      expr(*test, names, true);
      body(statements, names, true);
    }
    body(choice.otherwise, names, true);
  }

  void set_block(SetBlockStatement& block, ScopeNames& names) {
    ScopeNames inside = inner(names, block.scope);
    NameCollector collector(inside);
    collector.body(block.body);
    collector.expr(block.filter);
    body(block.body, inside, false);
    expr(block.filter, inside, false);
    target(*block.target, names);
  }

  void filter_block(FilterStatement& block, ScopeNames& names) {
    ScopeNames inside = inner(names, block.scope);
    NameCollector collector(inside);
    collector.expr(*block.filter);
    collector.body(block.body);
    body(block.body, inside, false);
    expr(*block.filter, inside, false);
  }

  void with(WithStatement& with, ScopeNames& names, bool in_branch) {
    ScopeNames inside = inner(names, with.scope);
    NameCollector collector(inside);
    for (auto& [name, value] : with.values) collector.parameter(*name);
    collector.body(with.body);
    for (auto& [name, value] : with.values) {
      expr(*value, names, in_branch);
      target(*name, inside);
    }
    body(with.body, inside, false);
  }

  void loop(ForStatement& loop, ScopeNames& names, bool in_branch) {
    expr(*loop.items, names, in_branch);
    FunctionFrame& function = loop.is_recursive ? loop.function : names.function();
    const uint32_t depth = names.function_depth() + (loop.is_recursive ? 1 : 0);
    if (loop.is_recursive) names.function().has_closures = true;
    ++num_loops_;
    loop_body(loop, ScopeNames(&names, function, depth, loop.scope));
    if (loop.filter.test != nullptr) {
      loop_filter(loop.filter, ScopeNames(&names, function, depth, loop.filter.scope));
    }
    --num_loops_;
    ScopeNames otherwise(&names, function, depth, loop.otherwise_scope);
    NameCollector(otherwise).body(loop.otherwise);
    body(loop.otherwise, otherwise, false);
  }

  void loop_body(ForStatement& loop, ScopeNames inside) {
    if (loop.is_recursive || body_reads(loop.body, "loop")) loop.loop_idx = inside.declare("loop");
    NameCollector collector(inside);
    collector.parameter(*loop.target);
    collector.body(loop.body);
    target(*loop.target, inside);
    body(loop.body, inside, false);
  }

  void loop_filter(ForStatement::Filter& filter, ScopeNames inside) {
    NameCollector collector(inside);
    collector.parameter(*filter.target);
    collector.expr(*filter.test);
    target(*filter.target, inside);
    expr(*filter.test, inside, false);
  }

  void macro(MacroFunction& macro, ScopeNames& names) {
    names.function().has_closures = true;
    ScopeNames inside(&names, macro.function, names.function_depth() + 1, macro.scope);
    for (const std::string& parameter : macro.parameters) {
      macro.parameter_idx.push_back(inside.declare(parameter));
    }
    special_parameters(macro, inside);
    NameCollector collector(inside);
    for (Expr* value : macro.defaults) collector.expr(*value);
    collector.body(macro.body);
    for (Expr* value : macro.defaults) expr(*value, inside, false);
    const uint32_t num_loops = std::exchange(num_loops_, 0);
    body(macro.body, inside, false);
    num_loops_ = num_loops;
  }

  static void special_parameters(MacroFunction& macro, ScopeNames& inside) {
    const auto slot_of = [&](const std::string& name) -> std::optional<uint32_t> {
      const auto& given = macro.parameters;
      const bool is_parameter = std::find(given.begin(), given.end(), name) != given.end();
      if (is_parameter || !body_reads(macro.body, name)) return std::nullopt;
      return inside.declare(name);
    };
    macro.caller_idx = slot_of("caller");
    macro.kwargs_idx = slot_of("kwargs");
    macro.varargs_idx = slot_of("varargs");
  }

  uint32_t num_loops_ = 0;
};

}  // namespace

void resolve_names(Syntax& syntax) {
  NameResolver().run(syntax);
}

}  // namespace quire::chat
