#include "core/constrained/gbnf.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/constrained/grammar_shape.h"
#include "core/constrained/source_reader.h"

namespace quire {
namespace {

constexpr size_t kMaxSourceBytes = 1U << 20;
constexpr size_t kMaxRules = 2000;
constexpr int kMaxNesting = 64;
constexpr uint32_t kMaxRepeat = 1'000'000;

bool is_name_char(char symbol) {
  return is_ascii_letter_or_digit(symbol) || symbol == '-' || symbol == '_' || symbol == '.';
}

class GbnfReader : private SourceReader {
 public:
  GbnfReader(std::string_view text, LanguageStore& languages, const TokenVocabulary& vocabulary)
      : SourceReader("grammar", text), languages_(languages), vocabulary_(vocabulary) {}

  Grammar read() {
    if (text_.size() > kMaxSourceBytes) {
      throw Error(ErrorCode::capacity, "a grammar of {} bytes, more than max_source_bytes = {}", text_.size(),
                  kMaxSourceBytes);
    }
    skip_space();
    while (pos_ < text_.size()) read_rule();
    for (const auto& [name, place] : first_uses_) {
      if (!defined_.contains(name))
        malformed_at(place,
                     "the rule \"" + printable(name) + "\" is not defined; add it, or put a text in quotes");
    }
    const auto root = rule_idx_.find("root");
    if (root == rule_idx_.end()) malformed("there is no rule \"root\"; name the first rule so");
    grammar_.root = add_rule_reference(root->second);
    normalize_grammar(grammar_, languages_);
    return std::move(grammar_);
  }

 private:
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
    if (begin == pos_) malformed("the name of a rule is missing");
    return std::string(text_.substr(begin, pos_ - begin));
  }

  uint32_t rule_idx(const std::string& name) {
    const auto [it, is_new] = rule_idx_.emplace(name, static_cast<uint32_t>(grammar_.rules.size()));
    if (is_new) grammar_.rules.push_back({name, 0});
    if (grammar_.rules.size() > kMaxRules) exceeds("max_rules", kMaxRules);
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
    if (!take("::=")) malformed("::= is missing after the name of a rule");
    const uint32_t rule = rule_idx(name);
    if (!defined_.insert(name).second)
      malformed("a second rule \"" + printable(name) + "\"; join the two with |");
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
      if (!take(")")) malformed("a ) is missing");
      return group;
    }
    if (!is_name_char(symbol)) malformed("an unexpected character; put a text in quotes");
    const size_t begin = pos_;
    const std::string name = read_name();
    if (peek() == '(') unsupported("the macro " + name);
    first_uses_.emplace(name, begin);
    return add_rule_reference(rule_idx(name));
  }

  uint32_t read_char() {
    if (at_end()) malformed("quotes or brackets without an end");
    return take("\\") ? read_escape() : take_char();
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
        return take("{") ? read_braced_hex() : read_hex(4);
      case 'U':
        return read_hex(8);
      default:
        break;
    }
    if (std::string_view("\"'\\[]-^.?*+|(){}$/<>").find(symbol) == std::string_view::npos)
      malformed("an unknown escape; write \\\\ for a backslash");
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
        if (last < first) malformed("a character range whose end is before its begin");
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
    if (end == std::string_view::npos) malformed("a > is missing");
    const std::string_view name = text_.substr(pos_, end + 1 - pos_);
    pos_ = end + 1;
    TokenId id = -1;
    if (name.size() > 4 && name[1] == '[') {
      id = 0;
      for (const char digit : name.substr(2, name.size() - 4)) {
        if (!is_ascii_digit(digit) || id > 100'000'000) malformed("a token id that is not a number");
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
    const auto number = read_digits(kMaxRepeat);
    skip_space();
    return number;
  }

  ExpressionId read_repeats(ExpressionId item) {
    for (;;) {
      skip_space();
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
        if (!take("}") || (!min && !max))
          malformed("not the counts of a repetition; write {2}, {2,} or {2,3}");
        if (min.value_or(0) > *max) malformed("a repetition whose minimum exceeds its maximum");
        item = grammar_.add_repetition(item, min.value_or(0), *max);
      } else {
        return item;
      }
    }
  }

  LanguageStore& languages_;
  const TokenVocabulary& vocabulary_;
  Grammar grammar_;
  std::map<std::string, uint32_t> rule_idx_;
  std::set<std::string> defined_;
  std::map<std::string, size_t> first_uses_;  // bytes at which rules are first used
};

}  // namespace

Grammar parse_gbnf(std::string_view source, LanguageStore& languages, const TokenVocabulary& vocabulary) {
  return GbnfReader(source, languages, vocabulary).read();
}

}  // namespace quire
