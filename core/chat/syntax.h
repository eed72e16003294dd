// The syntax tree of a chat template. Syntax owns all nodes and nodes point at each other, so that a tree of
// any depth is destroyed without recursion.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/chat/objects.h"
#include "core/chat/template_error.h"
#include "core/chat/value.h"

namespace quire::chat {

struct Expr;
struct Statement;
using Body = std::vector<Statement*>;

// Position of a variable: slot `idx` of the activation `num_out` functions outward.
struct Slot {
  uint32_t num_out = 0;
  uint32_t idx = 0;
};

// Initialization of a variable on entry to its scope: looked up among the input variables, copied from an
// outer scope, or undefined.
struct Load {
  enum class Kind : uint8_t { look_up, copy, undefine };
  Kind kind = Kind::undefine;
  uint32_t idx = 0;  // in the activation of the scope
  Slot from;
  std::string name;
};
using Scope = std::vector<Load>;

// A part of the template with its own activation: the whole template, a macro, the body of a call block, or a
// recursive loop.
struct FunctionFrame {
  uint32_t num_slots = 0;
  bool has_closures = false;  // functions defined in it may outlive it
};

struct CallArguments {
  std::vector<Expr*> positional;
  std::vector<std::pair<std::string, Expr*>> named;
  Expr* more_positional = nullptr;  // *args
  Expr* more_named = nullptr;       // **kwargs
};

struct LiteralExpr {
  Value value;
};
struct NameExpr {
  std::string name;
  TextRef text;
  Slot slot;
};
struct SequenceExpr {
  std::vector<Expr*> items;
  bool is_tuple = false;
};
struct DictExpr {
  std::vector<std::pair<Expr*, Expr*>> entries;
};
enum class UnaryOp : uint8_t { minus, plus, negate };
struct UnaryExpr {
  UnaryOp op = UnaryOp::negate;
  Expr* operand = nullptr;
};
enum class BinaryOp : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
struct BinaryExpr {
  BinaryOp op = BinaryOp::add;
  Expr* left = nullptr;
  Expr* right = nullptr;
};
struct LogicExpr {
  bool is_and = false;
  Expr* left = nullptr;
  Expr* right = nullptr;
};
enum class CompareOp : uint8_t { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };
struct CompareExpr {
  Expr* first = nullptr;
  std::vector<std::pair<CompareOp, Expr*>> rest;
};
struct ConcatExpr {
  std::vector<Expr*> items;
};
struct ConditionalExpr {
  Expr* test = nullptr;
  Expr* then = nullptr;
  Expr* otherwise = nullptr;  // may be null
};
struct AttributeExpr {
  Expr* object = nullptr;
  TextRef name;
};
struct SubscriptExpr {
  Expr* object = nullptr;
  Expr* key = nullptr;
};
struct SliceExpr {
  Expr* object = nullptr;
  Expr* start = nullptr;  // start, stop and step may be null
  Expr* stop = nullptr;
  Expr* step = nullptr;
};
struct CallExpr {
  Expr* callee = nullptr;
  CallArguments arguments;
};
struct FilterExpr {
  Expr* subject = nullptr;  // null in a filter block
  std::string name;
  Builtin builtin = nullptr;  // null if there is no such filter
  CallArguments arguments;
};
struct TestExpr {
  Expr* subject = nullptr;
  std::string name;
  Builtin builtin = nullptr;
  CallArguments arguments;
};

struct Expr {
  Position position;
  uint32_t height = 1;  // depth of the expression tree, including this node
  std::variant<LiteralExpr, NameExpr, SequenceExpr, DictExpr, UnaryExpr, BinaryExpr, LogicExpr, CompareExpr,
               ConcatExpr, ConditionalExpr, AttributeExpr, SubscriptExpr, SliceExpr, CallExpr, FilterExpr,
               TestExpr>
      node;
};

struct OutputStatement {
  std::vector<Expr*> items;
};
// The target is a name, a tuple of targets, or an attribute of a namespace (AttributeExpr of a NameExpr).
struct SetStatement {
  Expr* target = nullptr;
  Expr* value = nullptr;
};
struct SetBlockStatement {
  Expr* target = nullptr;
  Expr* filter = nullptr;  // may be null
  Body body;
  Scope scope;
};
struct IfStatement {
  std::vector<std::pair<Expr*, Body>> branches;
  Body otherwise;
};
struct ForStatement {
  // The condition of a loop over part of the items, and the scope of the condition.
  struct Filter {
    Expr* test = nullptr;    // null if the loop has no condition
    Expr* target = nullptr;  // the target of the loop with the slots of this scope
    Scope scope;
  };
  Expr* target = nullptr;
  Expr* items = nullptr;
  Filter filter;
  Body body;
  Body otherwise;
  Scope scope;
  Scope otherwise_scope;
  std::optional<uint32_t> loop_idx;  // slot of the variable `loop`, if it is used
  bool is_recursive = false;
  FunctionFrame function;  // of a recursive loop
};
// The function of a macro or of a call block.
struct MacroFunction {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<uint32_t> parameter_idx;
  std::vector<Expr*> defaults;  // of the last parameters
  Body body;
  Scope scope;
  FunctionFrame function;
  // Slots of the special variables that the body uses.
  std::optional<uint32_t> caller_idx;
  std::optional<uint32_t> varargs_idx;
  std::optional<uint32_t> kwargs_idx;
};
struct MacroStatement {
  Expr* target = nullptr;
  MacroFunction macro;
};
struct CallStatement {
  Expr* call = nullptr;  // null for a generation block
  MacroFunction macro;
};
struct FilterStatement {
  Expr* filter = nullptr;
  Body body;
  Scope scope;
};
struct WithStatement {
  std::vector<std::pair<Expr*, Expr*>> values;
  Body body;
  Scope scope;
};
struct BreakStatement {};
struct ContinueStatement {};

struct Statement {
  Position position;
  std::variant<OutputStatement, SetStatement, SetBlockStatement, IfStatement, ForStatement, MacroStatement,
               CallStatement, FilterStatement, WithStatement, BreakStatement, ContinueStatement>
      node;
};

struct Syntax {
  Body body;
  Scope scope;
  FunctionFrame function;
  bool has_generation = false;
  std::deque<Expr> exprs;
  std::deque<Statement> statements;
};

}  // namespace quire::chat
