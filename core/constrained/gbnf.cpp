#include "core/constrained/gbnf.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/error.h"
#include "core/base/hex.h"
#include "core/base/utf8.h"
#include "core/constrained/grammar_shape.h"

namespace quire {
namespace {

constexpr size_t kMaxSourceBytes = 1U << 20;
constexpr size_t kMaxRules = 2000;
constexpr int kMaxNesting = 64;
constexpr uint32_t kMaxRepeat = 1'000'000;

bool is_name_char(char symbol) {
  return (symbol >= 'a' && symbol <= 'z') || (symbol >= 'A' && symbol <= 'Z') ||
         (symbol >= '0' && symbol <= '9') || symbol == '-' || symbol == '_' || symbol == '.';
}

class GbnfReader {
 public:
  GbnfReader(std::string_view text, LanguageStore& languages, const TokenVocabulary& vocabulary)
      : text_(text), languages_(languages), vocabulary_(vocabulary) {}

  Grammar read() {
    if (text_.size() > kMaxSourceBytes) {
      throw Error(ErrorCode::capacity, "a grammar of {} bytes, more than max_source_bytes = {}", text_.size(),
                  kMaxSourceBytes);
    }
    skip_space();
    while (pos_ < text_.size()) read_rule();
    for (const Rule& rule : grammar_.rules) {
      if (rule.body == 0 && !defined_[rule.name]) {
        throw Error(ErrorCode::format, "grammar: the rule \"{}\" is not defined", printable(rule.name));
      }
    }
    const auto root = rule_idx_.find("root");
    if (root == rule_idx_.end()) throw Error(ErrorCode::format, "grammar: there is no rule \"root\"");
    grammar_.root = add_rule_reference(root->second);
    normalize_grammar(grammar_, languages_);
    return std::move(grammar_);
  }

 private:
  [[noreturn]] void malformed(std::string_view what) const {
    const auto line =
        1 + std::count(text_.begin(),
                       text_.begin() + static_cast<std::ptrdiff_t>(std::min(pos_, text_.size())), '\n');
    throw Error(ErrorCode::format, "grammar: {} in line {}", what, line);
  }
  [[noreturn]] void unsupported(std::string_view what) const {
    throw Error(ErrorCode::unsupported, "grammar: {} is not supported", what);
  }
  char peek(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }
  bool take(std::string_view expected) {
    if (text_.substr(pos_, expected.size()) != expected) return false;
    pos_ += expected.size();
    return true;
  }
  void skip_space() {
    while (pos_ < text_.size()) {
      const char symbol = peek();
      if (symbol == '#') {
        pos_ = std::min(text_.find('\n', pos_), text_.size());
      } else if (symbol == ' ' || symbol == '\t' || symbol == '\n' || symbol == '\r') {
        ++pos_;
      } else {
        return;
      }
    }
  }

  std::string read_name() {
    const size_t begin = pos_;
    while (pos_ < text_.size() && is_name_char(text_[pos_])) ++pos_;
    if (begin == pos_) malformed("missing name");
    return std::string(text_.substr(begin, pos_ - begin));
  }

  uint32_t rule_idx(const std::string& name) {
    const auto [it, is_new] = rule_idx_.emplace(name, static_cast<uint32_t>(grammar_.rules.size()));
    if (is_new) grammar_.rules.push_back({name, 0});
    if (grammar_.rules.size() > kMaxRules) {
      throw Error(ErrorCode::capacity, "a grammar of more than max_rules = {} rules", kMaxRules);
    }
    return it->second;
  }

  ExpressionId add_rule_reference(uint32_t rule) {
    Expression expression;
    expression.kind = Expression::Kind::rule;
    expression.a = rule;
    return grammar_.add(std::move(expression));
  }

  void read_rule() {
    const std::string name = read_name();
    skip_space();
    if (!take("::=")) malformed("::= is missing");
    const uint32_t rule = rule_idx(name);
    if (!defined_.emplace(name, true).second) malformed("duplicate rule");
    const ExpressionId body = read_choice(0);
    grammar_.rules[rule].body = body;
    skip_space();
  }

  ExpressionId read_choice(int nesting) {
    if (nesting > kMaxNesting)
      throw Error(ErrorCode::capacity, "a grammar nested deeper than {} levels", kMaxNesting);
    std::vector<ExpressionId> branches;
    do {
      branches.push_back(read_sequence(nesting));
      skip_space();
    } while (take("|"));
    return grammar_.add_group(Expression::Kind::choice, std::move(branches));
  }

  bool at_rule() {
    const size_t begin = pos_;
    while (pos_ < text_.size() && is_name_char(text_[pos_])) ++pos_;
    const bool named = pos_ > begin;
    skip_space();
    const bool rule = named && text_.substr(pos_, 3) == "::=";
    pos_ = begin;
    return rule;
  }

  ExpressionId read_sequence(int nesting) {
    std::vector<ExpressionId> parts;
    for (;;) {
      skip_space();
      const char symbol = peek();
      if (symbol == '\0' || symbol == '|' || symbol == ')' || at_rule()) break;
      parts.push_back(read_repeats(read_item(nesting)));
    }
    if (parts.empty()) return 0;
    return grammar_.add_group(Expression::Kind::sequence, std::move(parts));
  }

  ExpressionId read_item(int nesting) {
    const char symbol = peek();
    if (symbol == '"') return grammar_.add_language(read_text());
    if (symbol == '[') return grammar_.add_language(languages_.chars(read_class()));
    if (symbol == '.' && !is_name_char(peek(1) == '.' ? ' ' : peek(1))) {
      ++pos_;
      return grammar_.add_language(languages_.chars(all_chars()));
    }
    if (symbol == '<' || (symbol == '!' && peek(1) == '<')) return read_token();
    if (take("(")) {
      if (peek() == '=') unsupported("a lookahead (= ...)");
      const ExpressionId group = read_choice(nesting + 1);
      skip_space();
      if (!take(")")) malformed("missing )");
      return group;
    }
    if (!is_name_char(symbol)) malformed("unexpected character");
    const std::string name = read_name();
    if (peek() == '(') unsupported("the macro " + name);
    return add_rule_reference(rule_idx(name));
  }

  uint32_t read_char() {
    if (pos_ >= text_.size()) malformed("unterminated quotes or brackets");
    if (take("\\")) return read_escape();
    const Utf8Char next = decode_utf8(text_, pos_);
    if (!next.valid) malformed("invalid UTF-8");
    pos_ += next.length;
    return next.code_point;
  }

  uint32_t read_hex(size_t num_digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < num_digits; ++i, ++pos_) {
      const int digit = hex_digit(peek());
      if (digit < 0) malformed("missing hexadecimal digit");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
  }

  uint32_t read_escape() {
    const char symbol = peek();
    if (pos_ < text_.size()) ++pos_;
    switch (symbol) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'b':
        return '\b';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return 7;
      case 'e':
        return 27;
      case '0':
        return 0;
      case 'x':
        return read_hex(2);
      case 'u':
        if (take("{")) {
          size_t num_digits = 0;
          while (peek(num_digits) != '}' && num_digits < 7) ++num_digits;
          const uint32_t code = read_hex(num_digits);
          take("}");
          return code;
        }
        return read_hex(4);
      case 'U':
        return read_hex(8);
      default:
        break;
    }
    if (std::string_view("\"'\\[]-^.?*+|(){}$/<>").find(symbol) == std::string_view::npos)
      malformed("unknown escape");
    return static_cast<uint8_t>(symbol);
  }

  LanguageId read_text() {
    take("\"");
    std::vector<LanguageId> chars;
    while (peek() != '"') {
      const uint32_t code = read_char();
      chars.push_back(languages_.chars(normalized({{code, code}})));
    }
    take("\"");
    return languages_.sequence(chars);
  }

  CharSet read_class() {
    take("[");
    const bool negative = take("^");
    CharSet set;
    while (peek() != ']') {
      const uint32_t first = read_char();
      uint32_t last = first;
      if (peek() == '-' && peek(1) != ']') {
        take("-");
        last = read_char();
        if (last < first) malformed("reversed character range");
      }
      set.push_back({first, last});
    }
    take("]");
    set = normalized(std::move(set));
    return negative ? complement(set) : set;
  }

  ExpressionId read_token() {
    TokenSet set;
    set.negated = take("!");
    const size_t end = text_.find('>', pos_);
    if (end == std::string_view::npos) malformed("missing >");
    const std::string_view name = text_.substr(pos_, end + 1 - pos_);
    pos_ = end + 1;
    TokenId id = -1;
    if (name.size() > 4 && name[1] == '[') {
      id = 0;
      for (const char digit : name.substr(2, name.size() - 4)) {
        if (digit < '0' || digit > '9' || id > 100'000'000) malformed("invalid token id");
        id = id * 10 + (digit - '0');
      }
    } else {
      id = vocabulary_.find_special(name);
    }
    if (id < 0 || static_cast<size_t>(id) >= vocabulary_.size()) {
      throw Error(ErrorCode::unsupported, "grammar: the vocabulary has no special token {}", printable(name));
    }
    set.ids.push_back(id);
    grammar_.token_sets.push_back(std::move(set));
    Expression expression;
    expression.kind = Expression::Kind::tokens;
    expression.a = static_cast<uint32_t>(grammar_.token_sets.size() - 1);
    return grammar_.add(std::move(expression));
  }

  std::optional<uint32_t> read_number() {
    skip_space();
    if (take("-1")) return kNoMaximum;
    std::optional<uint32_t> number;
    while (peek() >= '0' && peek() <= '9') {
      number = number.value_or(0) * 10 + static_cast<uint32_t>(text_[pos_++] - '0');
      if (*number > kMaxRepeat)
        throw Error(ErrorCode::capacity, "a grammar repeats more than max_repeat = {} times", kMaxRepeat);
    }
    skip_space();
    return number;
  }

  ExpressionId read_repeats(ExpressionId item) {
    for (;;) {
      if (take("*")) {
        item = grammar_.add_repetition(item, 0, kNoMaximum);
      } else if (take("+")) {
        item = grammar_.add_repetition(item, 1, kNoMaximum);
      } else if (take("?")) {
        item = grammar_.add_repetition(item, 0, 1);
      } else if (take("{")) {
        const auto min = read_number();
        auto max = min;
        if (take(",")) max = read_number().value_or(kNoMaximum);
        if (!take("}") || (!min && !max)) malformed("invalid repetition counts");
        if (min.value_or(0) > *max) malformed("minimum of a repetition exceeds its maximum");
        item = grammar_.add_repetition(item, min.value_or(0), *max);
      } else {
        return item;
      }
    }
  }

  std::string_view text_;
  LanguageStore& languages_;
  const TokenVocabulary& vocabulary_;
  Grammar grammar_;
  std::map<std::string, uint32_t> rule_idx_;
  std::map<std::string, bool> defined_;
  size_t pos_ = 0;
};

}  // namespace

Grammar parse_gbnf(std::string_view source, LanguageStore& languages, const TokenVocabulary& vocabulary) {
  return GbnfReader(source, languages, vocabulary).read();
}

}  // namespace quire
