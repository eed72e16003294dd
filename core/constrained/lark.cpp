// Long file: one recursive-descent reader of a grammar, and the terminals that it can import.
#include "core/constrained/lark.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/constrained/gbnf.h"
#include "core/constrained/grammar_shape.h"
#include "core/constrained/pattern.h"
#include "core/constrained/schema_document.h"

namespace quire {
namespace {

constexpr size_t kMaxSourceBytes = 1U << 20;
constexpr size_t kMaxRules = 2000;
constexpr int kMaxNesting = 64;
constexpr uint32_t kMaxRepeat = 1'000'000;

struct CommonTerminal {
  std::string_view name;
  std::string_view pattern;
};
// Terminals of Lark's module "common".
constexpr CommonTerminal kCommon[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"SIGNED_FLOAT", "[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"NUMBER", "[0-9]+|[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"SIGNED_NUMBER", "[+-]?([0-9]+|[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[_A-Za-z][_A-Za-z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"C_COMMENT", "/\\*([^*]|\\*+[^*/])*\\*+/"},
    {"SQL_COMMENT", "--[^\\n]*"},
};

bool is_name_char(char symbol) {
  return (symbol >= 'a' && symbol <= 'z') || (symbol >= 'A' && symbol <= 'Z') ||
         (symbol >= '0' && symbol <= '9') || symbol == '-' || symbol == '_';
}

bool is_terminal_name(std::string_view name) {
  const size_t first = name.find_first_not_of('_');
  return first != std::string_view::npos && name[first] >= 'A' && name[first] <= 'Z';
}

class LarkReader {
 public:
  enum class Place : uint8_t { outer, inner };
  LarkReader(std::string_view text, LanguageStore& languages, const TokenVocabulary& vocabulary, Place place)
      : text_(text), languages_(languages), vocabulary_(vocabulary), place_(place) {}

  Grammar read() {
    if (text_.size() > kMaxSourceBytes) {
      throw Error(ErrorCode::capacity, "a grammar of {} bytes, more than max_source_bytes = {}", text_.size(),
                  kMaxSourceBytes);
    }
    ignored_ = rule_idx("%ignore");
    for (skip_lines(); pos_ < text_.size(); skip_lines()) read_statement();
    grammar_.rules[ignored_].body =
        grammar_.add_repetition(grammar_.add_group(Expression::Kind::choice, ignored_parts_), 0, kNoMaximum);
    defined_["%ignore"] = true;
    if (ignored_parts_.empty()) grammar_.rules[ignored_].body = 0;
    for (const Rule& rule : grammar_.rules) {
      if (!defined_[rule.name])
        throw Error(ErrorCode::format, "grammar: the rule \"{}\" is not defined", printable(rule.name));
    }
    const auto root = rule_idx_.find("start");
    if (root == rule_idx_.end()) throw Error(ErrorCode::format, "grammar: there is no rule \"start\"");
    grammar_.root = reference(root->second);
    normalize_grammar(grammar_, languages_);
    return std::move(grammar_);
  }

 private:
  [[noreturn]] void malformed(std::string_view what) const {
    const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(pos_, text_.size()));
    throw Error(ErrorCode::format, "grammar: {} in line {}", what, 1 + std::count(text_.begin(), end, '\n'));
  }
  [[noreturn]] static void unsupported(std::string_view what) {
    throw Error(ErrorCode::unsupported, "grammar: {} is not supported", printable(what));
  }
  char peek(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }
  bool take(std::string_view expected) {
    if (text_.substr(pos_, expected.size()) != expected) return false;
    pos_ += expected.size();
    return true;
  }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t') ++pos_;
  }
  // Also skips line ends and comments.
  void skip_lines() {
    for (;;) {
      skip_blanks();
      if (peek() == '\n' || peek() == '\r') {
        ++pos_;
      } else if (peek() == '#' || (peek() == '/' && peek(1) == '/')) {
        pos_ = std::min(text_.find('\n', pos_), text_.size());
      } else {
        return;
      }
    }
  }
  // Skips white space within a body. A line that does not begin with | starts a new statement.
  void skip_in_body(int nesting) {
    skip_blanks();
    const size_t begin = pos_;
    skip_lines();
    const size_t line_end = text_.substr(begin, pos_ - begin).find('\n');
    const bool same_statement = nesting > 0 || peek() == '|' || line_end == std::string_view::npos;
    if (!same_statement) pos_ = begin + line_end;
  }

  std::string read_name() {
    const size_t begin = pos_;
    while (is_name_char(peek())) ++pos_;
    if (begin == pos_) malformed("missing name");
    return std::string(text_.substr(begin, pos_ - begin));
  }

  uint32_t rule_idx(const std::string& name) {
    const auto [it, is_new] = rule_idx_.emplace(name, static_cast<uint32_t>(grammar_.rules.size()));
    if (is_new) grammar_.rules.push_back({name, 0});
    if (grammar_.rules.size() > kMaxRules)
      throw Error(ErrorCode::capacity, "a grammar of more than max_rules = {} rules", kMaxRules);
    return it->second;
  }

  ExpressionId reference(uint32_t rule) {
    Expression expression;
    expression.kind = Expression::Kind::rule;
    expression.a = rule;
    return grammar_.add(std::move(expression));
  }

  // Returns a terminal followed by ignored text, unless inside a rule that is itself a terminal.
  ExpressionId lexeme(ExpressionId expression) {
    if (in_terminal_) return expression;
    return grammar_.add_group(Expression::Kind::sequence, {expression, reference(ignored_)});
  }

  void read_statement() {
    if (take("%import")) return read_import();
    if (take("%ignore")) {
      in_terminal_ = true;
      ignored_parts_.push_back(read_choice(0));
      return;
    }
    if (peek() == '%')
      unsupported("the statement " +
                  std::string(text_.substr(pos_, text_.find_first_of(" \n", pos_) - pos_)));
    while (peek() == '?' || peek() == '!') ++pos_;
    read_rule();
  }

  void read_import() {
    skip_blanks();
    if (!take("common")) unsupported("an %import from a module other than common");
    skip_blanks();
    if (take("(")) {
      do {
        skip_lines();
        const std::string name = read_name();
        import(name, name);
        skip_lines();
      } while (take(","));
      if (!take(")")) malformed("missing )");
      return;
    }
    if (!take(".")) malformed("missing .");
    const std::string name = read_name();
    skip_blanks();
    if (!take("->")) return import(name, name);
    skip_blanks();
    import(name, read_name());
  }

  void import(const std::string& name, const std::string& alias) {
    const auto* const known =
        std::find_if(std::begin(kCommon), std::end(kCommon),
                     [&name](const CommonTerminal& common) { return common.name == name; });
    if (known == std::end(kCommon)) unsupported("common." + name);
    define(alias, grammar_.add_language(parse_pattern(known->pattern, {}, languages_)));
  }

  void define(const std::string& name, ExpressionId body) {
    const uint32_t rule = rule_idx(name);
    if (!defined_.emplace(name, true).second) malformed("duplicate rule");
    grammar_.rules[rule].body = body;
  }

  void read_rule() {
    const std::string name = read_name();
    if (take(".")) read_count();  // a priority; it does not affect which texts are accepted
    bool lazy = false;
    std::optional<ExpressionId> suffix;
    if (take("[")) {
      do {
        skip_blanks();
        const std::string option = read_name();
        if (option == "lazy") {
          lazy = true;
        } else if ((option == "suffix" || option == "stop") && take("=")) {
          in_terminal_ = true;
          suffix = read_item(1);
        } else {
          unsupported("the option " + option + " of a rule");
        }
        skip_blanks();
      } while (take(","));
      if (!take("]")) malformed("missing ]");
    }
    skip_blanks();
    if (!take(":")) malformed("missing :");
    in_terminal_ = is_terminal_name(name) || lazy || suffix;
    ExpressionId body = read_choice(0);
    if (suffix) body = grammar_.add_group(Expression::Kind::sequence, {body, *suffix});
    define(name, body);
    grammar_.rules[rule_idx(name)].shortest = lazy || suffix;
    if (lazy || suffix) lazy_[name] = true;
  }

  ExpressionId read_choice(int nesting) {
    if (nesting > kMaxNesting)
      throw Error(ErrorCode::capacity, "a grammar nested deeper than {} levels", kMaxNesting);
    std::vector<ExpressionId> branches;
    do {
      branches.push_back(read_sequence(nesting));
      skip_in_body(nesting);
    } while (take("|"));
    return grammar_.add_group(Expression::Kind::choice, std::move(branches));
  }

  ExpressionId read_sequence(int nesting) {
    std::vector<ExpressionId> parts;
    for (;;) {
      skip_in_body(nesting);
      const char symbol = peek();
      if (symbol == '\0' || symbol == '|' || symbol == ')' || symbol == ']' || symbol == '\n' ||
          symbol == '\r')
        break;
      if (take("->")) {
        skip_blanks();
        read_name();  // an alias of a tree node; no tree is built
        continue;
      }
      parts.push_back(read_repeats(read_item(nesting), nesting));
    }
    if (parts.empty()) return 0;
    return grammar_.add_group(Expression::Kind::sequence, std::move(parts));
  }

  ExpressionId read_item(int nesting) {
    const char symbol = peek();
    if (symbol == '"') return read_text();
    if (symbol == '/') return read_pattern();
    if (symbol == '<') return read_token();
    if (symbol == '%') return read_special();
    if (take("(")) return read_group(nesting, ")");
    if (take("[")) return grammar_.add_repetition(read_group(nesting, "]"), 0, 1);
    if (!is_name_char(symbol)) malformed("unexpected character");
    const std::string name = read_name();
    const ExpressionId rule = reference(rule_idx(name));
    if (peek() == '{' && is_name_char(peek(1)) && (peek(1) < '0' || peek(1) > '9'))
      unsupported("a rule template");
    // Lazy rules are terminals. A lazy rule that is used before its definition is found by its text in the
    // source.
    return is_terminal_name(name) || is_lazy(name) ? lexeme(rule) : rule;
  }

  // Returns whether a rule is declared lazy anywhere in the source; rules may be used before they are
  // defined.
  bool is_lazy(const std::string& name) const {
    if (lazy_.contains(name)) return true;
    const size_t at = text_.find("\n" + name + "[");
    const bool first = text_.substr(0, name.size() + 1) == name + "[";
    return first || at != std::string_view::npos;
  }

  ExpressionId read_group(int nesting, std::string_view end) {
    const ExpressionId group = read_choice(nesting + 1);
    skip_lines();
    if (!take(end)) malformed("unclosed bracket");
    return group;
  }

  std::string read_quoted() {
    const size_t begin = pos_++;
    while (pos_ < text_.size() && peek() != '"') pos_ += peek() == '\\' ? 2 : 1;
    if (!take("\"")) malformed("unterminated string");
    std::string inside(text_.substr(begin + 1, pos_ - begin - 2));
    return inside;
  }

  LanguageId text_language(const std::string& inside, bool ignore_case) {
    // The quoted text is read as a pattern in which only escapes are special.
    std::string pattern;
    for (size_t i = 0; i < inside.size(); ++i) {
      if (inside[i] == '\\' && i + 1 < inside.size()) {
        const char next = inside[i + 1];
        if (next == 'b') pattern += "\\x08";
        if (next != 'b') pattern += inside.substr(i, 2);
        ++i;
      } else {
        if (std::string_view("[](){}.*+?|^$/").find(inside[i]) != std::string_view::npos)
          pattern.push_back('\\');
        pattern.push_back(inside[i]);
      }
    }
    PatternOptions options;
    options.ignore_case = ignore_case;
    return parse_pattern(pattern, options, languages_);
  }

  ExpressionId read_text() {
    const std::string inside = read_quoted();
    if (take("..")) {
      const LanguageId low = text_language(inside, false);
      const LanguageId high = text_language(read_quoted(), false);
      const LanguageEdges from = languages_.edges(low);
      const LanguageEdges to = languages_.edges(high);
      if (from.size() != 1 || to.size() != 1) malformed("a range must have single characters as ends");
      return lexeme(grammar_.add_language(languages_.chars(normalized({{from[0].first, to[0].first}}))));
    }
    const bool ignore_case = take("i");
    return lexeme(grammar_.add_language(text_language(inside, ignore_case)));
  }

  ExpressionId read_pattern() {
    const size_t begin = ++pos_;
    bool in_class = false;
    while (pos_ < text_.size() && (peek() != '/' || in_class)) {
      if (peek() == '[') in_class = true;
      if (peek() == ']') in_class = false;
      pos_ += peek() == '\\' ? 2 : 1;
    }
    const std::string_view pattern = text_.substr(begin, pos_ - begin);
    if (!take("/")) malformed("unterminated pattern");
    PatternOptions options;
    for (; peek() >= 'a' && peek() <= 'z'; ++pos_) {
      if (peek() == 'i') options.ignore_case = true;
      if (peek() == 's') options.dot_all = true;
      if (std::string_view("isu").find(peek()) == std::string_view::npos) unsupported("a flag of a pattern");
    }
    return lexeme(grammar_.add_language(parse_pattern(pattern, options, languages_)));
  }

  ExpressionId read_token() {
    const size_t end = text_.find('>', pos_);
    if (end == std::string_view::npos) malformed("missing >");
    const std::string_view name = text_.substr(pos_, end + 1 - pos_);
    pos_ = end + 1;
    TokenSet set;
    if (name.size() > 4 && name[1] == '[') {
      TokenId id = 0;
      for (const char digit : name.substr(2, name.size() - 4)) {
        if (digit < '0' || digit > '9' || id > 100'000'000) unsupported("a list of token ids");
        id = id * 10 + (digit - '0');
      }
      set.ids.push_back(id);
    } else {
      set.ids.push_back(vocabulary_.find_special(name));
    }
    if (set.ids[0] < 0 || static_cast<size_t>(set.ids[0]) >= vocabulary_.size()) {
      throw Error(ErrorCode::unsupported, "grammar: the vocabulary has no special token {}", printable(name));
    }
    grammar_.token_sets.push_back(std::move(set));
    Expression expression;
    expression.kind = Expression::Kind::tokens;
    expression.a = static_cast<uint32_t>(grammar_.token_sets.size() - 1);
    return grammar_.add(std::move(expression));
  }

  // Returns the braces of %json {...} with their contents.
  std::string_view read_braces() {
    skip_lines();
    const size_t begin = pos_;
    int level = 0;
    bool quoted = false;
    for (; pos_ < text_.size(); ++pos_) {
      const char symbol = peek();
      if (quoted && symbol == '\\') {
        ++pos_;
      } else if (symbol == '"') {
        quoted = !quoted;
      } else if (!quoted && (symbol == '{' || symbol == '[')) {
        ++level;
      } else if (!quoted && (symbol == '}' || symbol == ']')) {
        --level;
      }
      if (level == 0) break;
    }
    if (pos_ >= text_.size()) malformed("unclosed brace");
    ++pos_;
    return text_.substr(begin, pos_ - begin);
  }

  ExpressionId read_special() {
    if (take("%json")) {
      grammar_.schemas.push_back(parse_json(read_braces(), "%json", {kMaxSourceBytes, kMaxSchemaDepth}));
      Expression expression;
      expression.kind = Expression::Kind::json;
      expression.a = static_cast<uint32_t>(grammar_.schemas.size() - 1);
      return lexeme(grammar_.add(std::move(expression)));
    }
    if (take("%regex")) return lexeme(grammar_.add_language(read_substring()));
    if (take("%grammar")) return read_grammar();
    unsupported("the item " + std::string(text_.substr(pos_, text_.find_first_of(" \n{", pos_) - pos_)));
  }

  // Reads another whole grammar, in GBNF or Lark notation; its names are separate.
  ExpressionId read_grammar() {
    const JsonValue source = parse_json(read_braces(), "%grammar", {kMaxSourceBytes, 4});
    const JsonValue* const gbnf = source.find("gbnf");
    if (gbnf != nullptr && gbnf->as_string() != nullptr)
      return take_in(parse_gbnf(*gbnf->as_string(), languages_, vocabulary_));
    const JsonValue* const lark = source.find("lark");
    if (lark == nullptr || lark->as_string() == nullptr) malformed("%grammar with neither gbnf nor lark");
    if (place_ == Place::inner) unsupported("a nested %grammar");
    return take_in(LarkReader(*lark->as_string(), languages_, vocabulary_, Place::inner).read());
  }

  ExpressionId take_in(Grammar other) {
    for (Rule& rule : other.rules) {
      rule.name = "%" + rule.name;  // no rule can have such a name
      defined_[rule.name] = true;
    }
    return grammar_.take_in(std::move(other));
  }

  // Matches any run of adjacent pieces of a text.
  LanguageId read_substring() {
    const JsonValue options = parse_json(read_braces(), "%regex");
    std::vector<LanguageId> pieces;
    const JsonValue* const chunks = options.find("substring_chunks");
    const JsonValue* const chars = options.find("substring_chars");
    if (chunks != nullptr && chunks->as_array() != nullptr) {
      for (const JsonValue& chunk : *chunks->as_array()) {
        if (chunk.as_string() == nullptr) malformed("substring_chunks must be a list of strings");
        pieces.push_back(languages_.text(*chunk.as_string()));
      }
    } else if (chars != nullptr && chars->as_string() != nullptr) {
      const std::string& all = *chars->as_string();
      for (size_t pos = 0; pos < all.size();) {
        const size_t length = decode_utf8(all, pos).length;
        pieces.push_back(languages_.text(std::string_view(all).substr(pos, length)));
        pos += length;
      }
    } else {
      unsupported("%regex other than substring_chunks and substring_chars");
    }
    LanguageId from_here = LanguageStore::kEmpty;
    std::vector<LanguageId> runs = {from_here};
    for (size_t i = pieces.size(); i-- > 0;) {
      from_here = languages_.any_of({LanguageStore::kEmpty, languages_.concat(pieces[i], from_here)});
      runs.push_back(from_here);
    }
    return languages_.any_of(std::move(runs));
  }

  std::optional<uint32_t> read_count() {
    skip_blanks();
    std::optional<uint32_t> number;
    while (peek() >= '0' && peek() <= '9') {
      number = number.value_or(0) * 10 + static_cast<uint32_t>(text_[pos_++] - '0');
      if (*number > kMaxRepeat)
        throw Error(ErrorCode::capacity, "a grammar repeats more than max_repeat = {} times", kMaxRepeat);
    }
    skip_blanks();
    return number;
  }

  ExpressionId repeated(ExpressionId item, std::optional<uint32_t> min, std::optional<uint32_t> max) {
    if (min && max && *min > *max) malformed("minimum of a repetition exceeds its maximum");
    return grammar_.add_repetition(item, min.value_or(0), max.value_or(kNoMaximum));
  }

  ExpressionId read_repeats(ExpressionId item, int nesting) {
    for (;;) {
      if (nesting > 0) skip_blanks();
      if (take("*")) {
        item = grammar_.add_repetition(item, 0, kNoMaximum);
      } else if (take("+")) {
        item = grammar_.add_repetition(item, 1, kNoMaximum);
      } else if (take("?")) {
        item = grammar_.add_repetition(item, 0, 1);
      } else if (take("~")) {
        const auto min = read_count();
        item = repeated(item, min, take("..") ? read_count() : min);
      } else if (peek() == '{') {
        take("{");
        const auto min = read_count();
        item = repeated(item, min, take(",") ? read_count() : min);
        if (!take("}")) malformed("invalid repetition counts");
      } else {
        return item;
      }
    }
  }

  std::string_view text_;
  LanguageStore& languages_;
  const TokenVocabulary& vocabulary_;
  const Place place_;
  Grammar grammar_;
  std::map<std::string, uint32_t> rule_idx_;
  std::map<std::string, bool> defined_;
  std::map<std::string, bool> lazy_;
  std::vector<ExpressionId> ignored_parts_;
  uint32_t ignored_ = 0;
  bool in_terminal_ = false;
  size_t pos_ = 0;
};

}  // namespace

Grammar parse_lark(std::string_view source, LanguageStore& languages, const TokenVocabulary& vocabulary) {
  return LarkReader(source, languages, vocabulary, LarkReader::Place::outer).read();
}

}  // namespace quire
