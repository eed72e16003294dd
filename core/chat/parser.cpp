// Long file: one recursive-descent parser, statement by statement and expression by expression.
#include "core/chat/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

#include <fmt/format.h>

#include "core/chat/builtins.h"
#include "core/chat/lexer.h"
#include "core/chat/syntax_walk.h"

namespace quire::chat {
namespace {

using Words = std::initializer_list<std::string_view>;

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::data:
      return "template data";
    case TokenType::variable_begin:
      return "begin of print statement";
    case TokenType::variable_end:
      return "end of print statement";
    case TokenType::block_begin:
      return "begin of statement block";
    case TokenType::block_end:
      return "end of statement block";
    case TokenType::integer:
    case TokenType::real:
      return "a number";
    case TokenType::text:
      return "a string";
    case TokenType::end:
      return "end of template";
    case TokenType::name:
    case TokenType::op:
      break;
  }
  return "'" + token.text + "'";
}

std::optional<CompareOp> compare_op(std::string_view op) {
  if (op == "==") return CompareOp::equal;
  if (op == "!=") return CompareOp::not_equal;
  if (op == "<") return CompareOp::less;
  if (op == "<=") return CompareOp::less_equal;
  if (op == ">") return CompareOp::greater;
  if (op == ">=") return CompareOp::greater_equal;
  return std::nullopt;
}

// Statements that need other files, or that transformers does not enable.
constexpr std::array<std::string_view, 7> kUnsupportedTags = {"extends", "include",    "import", "from",
                                                              "block",   "autoescape", "print"};

class Parser {
 public:
  Parser(std::string_view source, const TemplateLimits& limits)
      : limits_(limits), tokens_(read_tokens(source)) {}

  Syntax run() {
    syntax_.body = parse_body({});
    return std::move(syntax_);
  }

 private:
  // Guard that counts one level of nesting of blocks and expressions.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > parser_.limits_.max_syntax_depth) {
        parser_.fail("blocks and expressions are nested deeper than the limit");
      }
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  // --- Tokens

  const Token& current() const { return tokens_[idx_]; }
  const Token& ahead() const { return tokens_[std::min(idx_ + 1, tokens_.size() - 1)]; }
  Token next() {
    Token token = current();
    if (idx_ + 1 < tokens_.size()) ++idx_;
    return token;
  }
  static bool is(const Token& token, TokenType type, std::string_view text) {
    return token.type == type && token.text == text;
  }
  bool is_op(std::string_view op) const { return is(current(), TokenType::op, op); }
  bool is_word(std::string_view word) const { return is(current(), TokenType::name, word); }
  bool is_word_of(Words words) const {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return is_word(word); });
  }
  bool skip_op(std::string_view op) {
    if (!is_op(op)) return false;
    next();
    return true;
  }
  bool skip_word(std::string_view word) {
    if (!is_word(word)) return false;
    next();
    return true;
  }
  [[noreturn]] void fail(std::string text) const {
    throw TemplateError(TemplateFault::syntax, current().position, std::move(text));
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) fail(fmt::format("expected '{}', got {}", op, describe(current())));
  }
  void expect_word(std::string_view word) {
    if (!skip_word(word)) fail(fmt::format("expected '{}', got {}", word, describe(current())));
  }
  std::string expect_name() {
    if (current().type != TokenType::name) fail("expected a name, got " + describe(current()));
    return next().text;
  }
  void expect(TokenType type, std::string_view what) {
    if (current().type != type) fail(fmt::format("expected {}, got {}", what, describe(current())));
    next();
  }
  void expect_block_end() { expect(TokenType::block_end, "end of statement block"); }

  template <typename Node>
  Expr* expr(const Position& position, Node node) {
    Expr& made = syntax_.exprs.emplace_back(Expr{position, 1, std::move(node)});
    for_each_child(made, [&](const Expr& child) { made.height = std::max(made.height, child.height + 1); });
    if (made.height > limits_.max_syntax_height) fail("an expression is longer than the limit");
    return &made;
  }
  template <typename Node>
  Statement* statement(const Position& position, Node node) {
    return &syntax_.statements.emplace_back(Statement{position, std::move(node)});
  }
  static TextRef name_text(std::string_view name) { return make_text(name, true); }

  // --- Statements

  // Parses up to a tag that begins with one of `ends`, which stays the current token; parses to the end of
  // the template if `ends` is empty.
  Body parse_body(Words ends) {
    const Level level(*this);
    Body body;
    std::vector<Expr*> output;
    const auto flush = [&] {
      if (output.empty()) return;
      const Position position = output.front()->position;
      body.push_back(statement(position, OutputStatement{std::move(output)}));
      output.clear();
    };
    for (;;) {
      const Token token = next_root(ends);
      if (token.type == TokenType::end) break;
      if (token.type == TokenType::data) {
        output.push_back(expr(token.position, LiteralExpr{Value(make_text(token.text, true))}));
      } else if (token.type == TokenType::variable_begin) {
        output.push_back(parse_tuple({}));
        expect(TokenType::variable_end, "end of print statement");
      } else {
        flush();
        if (is_word_of(ends)) return body;
        body.push_back(parse_statement());
        expect_block_end();
      }
    }
    flush();
    return body;
  }

  Token next_root(Words ends) {
    if (current().type == TokenType::end && ends.size() > 0) {
      fail(fmt::format("unexpected end of template: a block is not closed by '{}'", *ends.begin()));
    }
    return next();
  }

  // Parses the rest of a tag and the body after it.
  Body parse_block(Words ends) {
    skip_op(":");
    expect_block_end();
    return parse_body(ends);
  }
  Body parse_whole_block(std::string_view end) {
    Body body = parse_block({end});
    next();
    return body;
  }
  // Parses a body in which break and continue may not refer to a loop outside of it.
  Body parse_function_block(std::string_view end) {
    const uint32_t num_loops = std::exchange(num_loops_, 0);
    Body body = parse_whole_block(end);
    num_loops_ = num_loops;
    return body;
  }

  Statement* parse_statement() {
    if (current().type != TokenType::name) fail("tag name expected");
    const Position position = current().position;
    const std::string tag = current().text;
    if (tag == "for") return parse_for(position);
    if (tag == "if") return parse_if(position);
    if (tag == "set") return parse_set(position);
    if (tag == "macro") return parse_macro(position);
    if (tag == "call") return parse_call_block(position);
    if (tag == "filter") return parse_filter_block(position);
    if (tag == "with") return parse_with(position);
    if (tag == "generation") return parse_generation(position);
    if (tag == "break" || tag == "continue") return parse_jump(position, tag);
    const bool known =
        std::find(kUnsupportedTags.begin(), kUnsupportedTags.end(), tag) != kUnsupportedTags.end();
    fail((known ? "unsupported tag '" : "unknown tag '") + printable(tag) + "'");
  }

  Statement* parse_jump(const Position& position, const std::string& tag) {
    if (num_loops_ == 0) fail(fmt::format("'{}' outside of a loop", tag));
    next();
    if (tag == "break") return statement(position, BreakStatement{});
    return statement(position, ContinueStatement{});
  }

  Statement* parse_for(const Position& position) {
    next();
    ForStatement loop;
    loop.target = parse_target({"in"});
    expect_word("in");
    loop.items = parse_tuple({"recursive"}, false);
    if (skip_word("if")) {
      loop.test = parse_expression();
      loop.test_target = copy_target(*loop.target);
    }
    loop.is_recursive = skip_word("recursive");
    ++num_loops_;
    loop.body = parse_block({"endfor", "else"});
    --num_loops_;
    if (next().text == "else") loop.otherwise = parse_whole_block("endfor");
    return statement(position, std::move(loop));
  }

  Expr* copy_target(const Expr& target) {
    Expr copy = target;
    if (auto* tuple = std::get_if<SequenceExpr>(&copy.node)) {
      for (Expr*& item : tuple->items) item = copy_target(*item);
    }
    return &syntax_.exprs.emplace_back(std::move(copy));
  }

  Statement* parse_if(const Position& position) {
    IfStatement choice;
    do {
      next();
      Expr* test = parse_tuple({}, false);
      choice.branches.emplace_back(test, parse_block({"elif", "else", "endif"}));
    } while (is_word("elif"));
    if (next().text == "else") choice.otherwise = parse_whole_block("endif");
    return statement(position, std::move(choice));
  }

  Statement* parse_set(const Position& position) {
    next();
    Expr* target = parse_target({}, true);
    if (skip_op("=")) return statement(position, SetStatement{target, parse_tuple({})});
    SetBlockStatement block;
    block.target = target;
    while (skip_op("|")) block.filter = parse_filter(block.filter);
    block.body = parse_whole_block("endset");
    return statement(position, std::move(block));
  }

  void parse_signature(MacroFunction& macro) {
    expect_op("(");
    while (!is_op(")")) {
      if (!macro.parameters.empty()) expect_op(",");
      macro.parameters.push_back(expect_name());
      if (skip_op("=")) {
        macro.defaults.push_back(parse_expression());
      } else if (!macro.defaults.empty()) {
        fail("non-default argument follows default argument");
      }
    }
    expect_op(")");
  }

  Statement* parse_macro(const Position& position) {
    next();
    MacroStatement macro;
    const Position place = current().position;
    macro.macro.name = expect_name();
    macro.target = name_expr(place, macro.macro.name);
    parse_signature(macro.macro);
    macro.macro.body = parse_function_block("endmacro");
    return statement(position, std::move(macro));
  }

  Statement* parse_call_block(const Position& position) {
    next();
    CallStatement block;
    block.macro.name = "caller";
    if (is_op("(")) parse_signature(block.macro);
    block.call = parse_expression();
    if (!std::holds_alternative<CallExpr>(block.call->node)) fail("expected a call");
    block.macro.body = parse_function_block("endcall");
    return statement(position, std::move(block));
  }

  Statement* parse_generation(const Position& position) {
    next();
    CallStatement block;
    block.macro.name = "caller";
    block.macro.body = parse_function_block("endgeneration");
    syntax_.has_generation = true;
    return statement(position, std::move(block));
  }

  Statement* parse_filter_block(const Position& position) {
    next();
    FilterStatement block;
    block.filter = parse_filter(nullptr);
    while (skip_op("|")) block.filter = parse_filter(block.filter);
    block.body = parse_whole_block("endfilter");
    return statement(position, std::move(block));
  }

  Statement* parse_with(const Position& position) {
    next();
    WithStatement with;
    while (current().type != TokenType::block_end) {
      if (!with.values.empty()) expect_op(",");
      Expr* target = parse_target({});
      expect_op("=");
      with.values.emplace_back(target, parse_expression());
    }
    with.body = parse_whole_block("endwith");
    return statement(position, std::move(with));
  }

  // --- Targets

  Expr* name_expr(const Position& position, const std::string& name) {
    return expr(position, NameExpr{name, name_text(name), {}});
  }

  Expr* parse_target(Words ends, bool with_namespace = false) {
    const Level level(*this);
    const Position position = current().position;
    std::vector<Expr*> items;
    bool is_tuple = false;
    while (!is_tuple_end(ends) && !is_op("=") && !is_op("|")) {
      items.push_back(parse_single_target(with_namespace));
      if (!skip_op(",")) break;
      is_tuple = true;
    }
    if (items.empty()) fail("expected an expression, got " + describe(current()));
    if (!is_tuple) return items.front();
    return expr(position, SequenceExpr{std::move(items), true});
  }

  Expr* parse_single_target(bool with_namespace) {
    const Position position = current().position;
    if (skip_op("(")) {
      Expr* target = parse_target({}, with_namespace);
      expect_op(")");
      return target;
    }
    static constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none",
                                                                   "True", "False", "None"};
    const std::string name = expect_name();
    if (std::find(kConstants.begin(), kConstants.end(), name) != kConstants.end()) {
      fail(fmt::format("can't assign to '{}'", name));
    }
    Expr* target = name_expr(position, name);
    if (with_namespace && skip_op(".")) {
      return expr(position, AttributeExpr{target, name_text(expect_name())});
    }
    return target;
  }

  // --- Expressions

  bool is_tuple_end(Words ends) const {
    return current().type == TokenType::variable_end || current().type == TokenType::block_end ||
           is_op(")") || is_word_of(ends);
  }

  // Parses one expression, or a tuple of several.
  Expr* parse_tuple(Words ends, bool with_condition = true, bool in_parentheses = false) {
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

  Expr* parse_expression() {
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

  Expr* parse_or() {
    const Position position = current().position;
    Expr* left = parse_and();
    while (skip_word("or")) left = expr(position, LogicExpr{false, left, parse_and()});
    return left;
  }

  Expr* parse_and() {
    const Position position = current().position;
    Expr* left = parse_not();
    while (skip_word("and")) left = expr(position, LogicExpr{true, left, parse_not()});
    return left;
  }

  Expr* parse_not() {
    const Level level(*this);
    const Position position = current().position;
    if (skip_word("not")) return expr(position, UnaryExpr{UnaryOp::negate, parse_not()});
    return parse_compare();
  }

  Expr* parse_compare() {
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

  Expr* parse_sum() {
    const Position position = current().position;
    Expr* left = parse_concat();
    while (is_op("+") || is_op("-")) {
      const BinaryOp op = next().text == "+" ? BinaryOp::add : BinaryOp::subtract;
      left = expr(position, BinaryExpr{op, left, parse_concat()});
    }
    return left;
  }

  Expr* parse_concat() {
    const Position position = current().position;
    ConcatExpr concat;
    concat.items.push_back(parse_product());
    while (skip_op("~")) concat.items.push_back(parse_product());
    if (concat.items.size() == 1) return concat.items.front();
    return expr(position, std::move(concat));
  }

  Expr* parse_product() {
    const Position position = current().position;
    Expr* left = parse_power();
    while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
      const BinaryOp op = product_op();
      next();
      left = expr(position, BinaryExpr{op, left, parse_power()});
    }
    return left;
  }

  BinaryOp product_op() const {
    if (is_op("*")) return BinaryOp::multiply;
    if (is_op("/")) return BinaryOp::divide;
    return is_op("//") ? BinaryOp::floor_divide : BinaryOp::modulo;
  }

  Expr* parse_power() {
    const Position position = current().position;
    Expr* left = parse_unary(true);
    while (skip_op("**")) left = expr(position, BinaryExpr{BinaryOp::power, left, parse_unary(true)});
    return left;
  }

  Expr* parse_unary(bool with_filter) {
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

  Expr* parse_primary() {
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

  Expr* parse_name() {
    const Token token = next();
    if (token.text == "true" || token.text == "True") return expr(token.position, LiteralExpr{Value(true)});
    if (token.text == "false" || token.text == "False")
      return expr(token.position, LiteralExpr{Value(false)});
    if (token.text == "none" || token.text == "None") return expr(token.position, LiteralExpr{Value::none()});
    return name_expr(token.position, token.text);
  }

  Expr* parse_text() {
    const Token token = next();
    std::string text = token.text;
    while (current().type == TokenType::text) text += next().text;
    return expr(token.position, LiteralExpr{Value(make_text(text, true))});
  }

  Expr* parse_list() {
    const Position position = next().position;
    SequenceExpr list;
    while (!is_op("]")) {
      list.items.push_back(parse_expression());
      if (!is_op("]")) expect_op(",");
    }
    next();
    return expr(position, std::move(list));
  }

  Expr* parse_dict() {
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

  Expr* parse_postfix(Expr* value) {
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

  Expr* parse_filters(Expr* value) {
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

  Expr* parse_attribute(Expr* object) {
    next();
    const Token token = next();
    if (token.type == TokenType::name)
      return expr(token.position, AttributeExpr{object, name_text(token.text)});
    if (token.type != TokenType::integer) fail("expected a name or a number");
    return expr(token.position,
                SubscriptExpr{object, expr(token.position, LiteralExpr{Value(token.integer)})});
  }

  Expr* parse_subscript(Expr* object) {
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

  Expr* parse_slice(Expr* object, Expr* start, const Position& position) {
    SliceExpr slice;
    slice.object = object;
    slice.start = start;
    expect_op(":");
    if (!is_op(":") && !is_op("]")) slice.stop = parse_expression();
    if (skip_op(":") && !is_op("]")) slice.step = parse_expression();
    expect_op("]");
    return expr(position, slice);
  }

  CallArguments parse_arguments() {
    CallArguments arguments;
    expect_op("(");
    while (!is_op(")")) {
      parse_argument(arguments);
      if (!is_op(")")) expect_op(",");
    }
    next();
    return arguments;
  }

  void parse_argument(CallArguments& arguments) {
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
      if (arguments.more_positional != nullptr || arguments.more_named != nullptr ||
          !arguments.named.empty()) {
        fail_arguments();
      }
      arguments.positional.push_back(parse_expression());
    }
  }
  [[noreturn]] void fail_arguments() const { fail("invalid order of the arguments of a call"); }

  Expr* parse_call(Expr* callee) {
    const Position position = current().position;
    return expr(position, CallExpr{callee, parse_arguments()});
  }

  std::string parse_dotted_name() {
    std::string name = expect_name();
    while (skip_op(".")) name += "." + expect_name();
    return name;
  }

  Expr* parse_filter(Expr* subject) {
    const Position position = current().position;
    FilterExpr filter;
    filter.subject = subject;
    filter.name = parse_dotted_name();
    filter.builtin = find_filter(filter.name);
    if (is_op("(")) filter.arguments = parse_arguments();
    return expr(position, std::move(filter));
  }

  bool begins_test_argument() const {
    const TokenType type = current().type;
    if (type == TokenType::name) return !is_word_of({"else", "or", "and"});
    return type == TokenType::text || type == TokenType::integer || type == TokenType::real || is_op("[") ||
           is_op("{");
  }

  Expr* parse_test(Expr* subject) {
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

  const TemplateLimits& limits_;
  std::vector<Token> tokens_;
  size_t idx_ = 0;
  uint32_t depth_ = 0;
  uint32_t num_loops_ = 0;
  Syntax syntax_;
};

}  // namespace

Syntax parse_template(std::string_view source, const TemplateLimits& limits) {
  return Parser(source, limits).run();
}

}  // namespace quire::chat
