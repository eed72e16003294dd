#include "core/chat/parser.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/chat/expression_parser.h"

namespace quire::chat {
namespace {

// Statements that need other files, or that transformers does not enable.
constexpr std::array<std::string_view, 7> kUnsupportedTags = {"extends", "include",    "import", "from",
                                                              "block",   "autoescape", "print"};

// Parser of statements and their targets.
class Parser final : ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Syntax run() {
    syntax_.body = parse_body({});
    return std::move(syntax_);
  }

 private:
  template <typename Node>
  Statement* statement(const Position& position, Node node) {
    return &syntax_.statements.emplace_back(Statement{position, std::move(node)});
  }

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
      loop.filter.test = parse_expression();
      loop.filter.target = copy_target(*loop.target);
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

  uint32_t num_loops_ = 0;
};

}  // namespace

Syntax parse_template(std::string_view source, const TemplateLimits& limits) {
  return Parser(source, limits).run();
}

}  // namespace quire::chat
