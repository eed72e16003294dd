// Long file: one recursive-descent reader of a grammar, and the terminals that it can import.
#include "core/constrained/lark.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/base/text_place.h"
#include "core/base/utf8.h"
#include "core/constrained/gbnf.h"
#include "core/constrained/grammar_shape.h"
#include "core/constrained/pattern.h"
#include "core/constrained/schema_document.h"
#include "core/constrained/source_reader.h"
#include "core/constrained/states_full.h"

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
  return is_ascii_letter_or_digit(symbol) || symbol == '-' || symbol == '_';
}

bool is_terminal_name(std::string_view name) {
  const size_t first = name.find_first_not_of('_');
  return first != std::string_view::npos && name[first] >= 'A' && name[first] <= 'Z';
}

class LarkReader : private SourceReader {
 public:
  enum class Place : uint8_t { outer, inner };
  LarkReader(std::string_view text, LanguageStore& languages, const TokenVocabulary& vocabulary, Place place)
      : SourceReader("grammar", text), languages_(languages), vocabulary_(vocabulary), place_(place) {}

  Grammar read() {
    if (text_.size() > kMaxSourceBytes) {
      throw Error(ErrorCode::capacity, "a grammar of {} bytes, more than max_source_bytes = {}", text_.size(),
                  kMaxSourceBytes);
    }
    ignored_ = rule_idx("%ignore");
    for (skip_lines(); pos_ < text_.size(); skip_lines()) read_statement();
    grammar_.rules[ignored_].body =
        grammar_.add_repetition(grammar_.add_group(Expression::Kind::choice, ignored_parts_), 0, kNoMaximum);
    if (ignored_parts_.empty()) grammar_.rules[ignored_].body = 0;
    for (const auto& [name, place] : first_uses_) {
      if (!defined_.contains(name))
        malformed_at(place,
                     "the rule \"" + printable(name) + "\" is not defined; add it, or put a text in quotes");
    }
    const auto root = rule_idx_.find("start");
    if (root == rule_idx_.end()) malformed("there is no rule \"start\"; name the first rule so");
    grammar_.root = reference(root->second);
    normalize_grammar(grammar_, languages_);
    return std::move(grammar_);
  }

 private:
  // Runs `body`, which reads a part of the source; an error of the part gets the place where it begins.
  template <typename Body>
  auto within(size_t begin, const Body& body) const {
    try {
      return body();
    } catch (const StatesFull&) {
      throw;
    } catch (const Error& error) {
      throw Error(error.code(), "grammar: {}; it begins in {}", error.what(), place_in(text_, begin));
    }
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
  // Skips white space within a body. A line that does not begin with | or & starts a new statement.
  void skip_in_body(int nesting) {
    skip_blanks();
    const size_t begin = pos_;
    skip_lines();
    const size_t line_end = text_.substr(begin, pos_ - begin).find('\n');
    const bool same_statement =
        nesting > 0 || peek() == '|' || peek() == '&' || line_end == std::string_view::npos;
    if (!same_statement) pos_ = begin + line_end;
  }

  std::string read_name() {
    const size_t begin = pos_;
    while (is_name_char(peek())) ++pos_;
    if (begin == pos_) malformed("a name is missing");
    return std::string(text_.substr(begin, pos_ - begin));
  }

  uint32_t rule_idx(const std::string& name) {
    const auto [it, is_new] = rule_idx_.emplace(name, static_cast<uint32_t>(grammar_.rules.size()));
    if (is_new) grammar_.rules.push_back({name, 0});
    if (grammar_.rules.size() > kMaxRules) exceeds("max_rules", kMaxRules);
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
    if (take("%schema")) {
      skip_blanks();
      const std::string name = read_name();
      documents_[name] = grammar_.add_document(read_json("%schema", kMaxSchemaDepth));
      return;
    }
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
      if (!take(")")) malformed("a ) is missing");
      return;
    }
    if (!take(".")) malformed("a . is missing after common");
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
    if (!defined_.insert(name).second)
      malformed("a second rule \"" + printable(name) + "\"; join the two with |");
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
      if (!take("]")) malformed("a ] is missing after the options of a rule");
    }
    skip_blanks();
    if (!take(":")) malformed("a : is missing after the name of a rule");
    in_terminal_ = is_terminal_name(name) || lazy || suffix;
    ExpressionId body = read_choice(0);
    if (suffix) body = grammar_.add_group(Expression::Kind::sequence, {body, *suffix});
    define(name, body);
    grammar_.rules[rule_idx(name)].shortest = lazy || suffix;
    if (lazy || suffix) lazy_.insert(name);
  }

  ExpressionId read_choice(int nesting) {
    if (nesting > kMaxNesting)
      throw Error(ErrorCode::capacity, "a grammar nested deeper than {} levels", kMaxNesting);
    std::vector<ExpressionId> branches;
    do {
      branches.push_back(read_conjunction(nesting));
      skip_in_body(nesting);
    } while (take("|"));
    return grammar_.add_group(Expression::Kind::choice, std::move(branches));
  }

  // Reads sequences joined by &, which all must match. They are one terminal, so no ignored text comes inside
  // of them: if the first was read as part of a rule, it is read again.
  ExpressionId read_conjunction(int nesting) {
    const size_t begin = pos_;
    ExpressionId first = read_sequence(nesting);
    skip_in_body(nesting);
    if (peek() != '&') return first;
    const bool was_in_terminal = std::exchange(in_terminal_, true);
    if (!was_in_terminal) {
      pos_ = begin;
      first = read_sequence(nesting);
      skip_in_body(nesting);
    }
    std::vector<ExpressionId> parts = {first};
    while (take("&")) {
      parts.push_back(read_sequence(nesting));
      skip_in_body(nesting);
    }
    in_terminal_ = was_in_terminal;
    return lexeme(grammar_.add_group(Expression::Kind::conjunction, std::move(parts)));
  }

  // Reads ~ITEM: any text that the item does not match.
  ExpressionId read_negation(int nesting) {
    take("~");
    skip_blanks();
    const bool was_in_terminal = std::exchange(in_terminal_, true);
    Expression expression;
    expression.kind = Expression::Kind::negation;
    expression.a = read_item(nesting);
    in_terminal_ = was_in_terminal;
    return lexeme(grammar_.add(std::move(expression)));
  }

  ExpressionId read_sequence(int nesting) {
    std::vector<ExpressionId> parts;
    for (;;) {
      skip_in_body(nesting);
      const char symbol = peek();
      if (symbol == '\0' || std::string_view("|&)]\n\r").find(symbol) != std::string_view::npos) break;
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
    if (symbol == '~') return read_negation(nesting);
    if (take("(")) return read_group(nesting, ")");
    if (take("[")) return grammar_.add_repetition(read_group(nesting, "]"), 0, 1);
    if (!is_name_char(symbol))
      malformed("an unexpected character; put a text in quotes and a pattern between slashes");
    const size_t begin = pos_;
    const std::string name = read_name();
    first_uses_.emplace(name, begin);
    const ExpressionId rule = reference(rule_idx(name));
    if (peek() == '{' && is_name_char(peek(1)) && !is_ascii_digit(peek(1))) unsupported("a rule template");
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
    if (!take(end)) malformed("the end of a bracket is missing");
    return group;
  }

  // Skips a character of a quoted text or a pattern, with what a backslash escapes.
  void skip_character() { pos_ = std::min(pos_ + (peek() == '\\' ? 2 : 1), text_.size()); }

  std::string read_quoted() {
    if (!take("\"")) malformed("a quoted text is missing");
    const size_t begin = pos_;
    while (pos_ < text_.size() && peek() != '"') skip_character();
    if (!take("\"")) malformed("a text without the closing quote");
    return std::string(text_.substr(begin, pos_ - 1 - begin));
  }

  LanguageId text_language(size_t begin, const std::string& inside, bool ignore_case) {
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
    return within(begin, [&] { return parse_pattern(pattern, options, languages_); });
  }

  ExpressionId read_text() {
    const size_t begin = pos_;
    const std::string inside = read_quoted();
    if (take("..")) {
      const LanguageId low = text_language(begin, inside, false);
      const LanguageId high = text_language(begin, read_quoted(), false);
      const LanguageEdges from = languages_.edges(low);
      const LanguageEdges to = languages_.edges(high);
      if (from.size() != 1 || to.size() != 1) malformed("a range whose ends are not single characters");
      return lexeme(grammar_.add_language(languages_.chars(normalized({{from[0].first, to[0].first}}))));
    }
    const bool ignore_case = take("i");
    return lexeme(grammar_.add_language(text_language(begin, inside, ignore_case)));
  }

  ExpressionId read_pattern() {
    const size_t begin = ++pos_;
    bool in_class = false;
    while (pos_ < text_.size() && (peek() != '/' || in_class)) {
      if (peek() == '[') in_class = true;
      if (peek() == ']') in_class = false;
      skip_character();
    }
    const std::string_view pattern = text_.substr(begin, pos_ - begin);
    if (!take("/")) malformed("a pattern without the closing slash");
    PatternOptions options;
    for (; peek() >= 'a' && peek() <= 'z'; ++pos_) {
      if (peek() == 'i') options.ignore_case = true;
      if (peek() == 's') options.dot_all = true;
      if (std::string_view("isu").find(peek()) == std::string_view::npos) unsupported("a flag of a pattern");
    }
    const LanguageId language =
        within(begin - 1, [&] { return parse_pattern(pattern, options, languages_); });
    return lexeme(grammar_.add_language(language));
  }

  ExpressionId read_token() {
    const size_t end = text_.find('>', pos_);
    if (end == std::string_view::npos) malformed("a > is missing");
    const std::string_view name = text_.substr(pos_, end + 1 - pos_);
    pos_ = end + 1;
    TokenSet set;
    if (name.size() > 4 && name[1] == '[') {
      TokenId id = 0;
      for (const char digit : name.substr(2, name.size() - 4)) {
        if (!is_ascii_digit(digit) || id > 100'000'000) unsupported("a list of token ids");
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
    if (pos_ >= text_.size()) malformed("the end of a brace is missing");
    ++pos_;
    return text_.substr(begin, pos_ - begin);
  }

  JsonValue read_json(std::string_view name, size_t max_depth) {
    const std::string_view text = read_braces();
    const size_t begin = pos_ - text.size();
    return within(begin, [&] { return parse_json(text, name, {kMaxSourceBytes, max_depth}); });
  }

  // Reads a document, or the name of one and a reference into it.
  ExpressionId read_schema() {
    skip_lines();
    if (!is_name_char(peek()))
      return grammar_.add_schema(grammar_.add_document(read_json("%json", kMaxSchemaDepth)), "");
    const size_t begin = pos_;
    const auto document = documents_.find(read_name());
    if (document == documents_.end()) malformed_at(begin, "no %schema of this name comes before %json");
    skip_blanks();
    const bool has_reference = peek() == '"' && peek(1) == '#';
    return grammar_.add_schema(document->second, has_reference ? read_quoted() : "");
  }

  ExpressionId read_special() {
    if (take("%json")) return lexeme(read_schema());
    if (take("%regex")) return lexeme(grammar_.add_language(read_substring()));
    if (take("%grammar")) return read_grammar();
    unsupported("the item " + std::string(text_.substr(pos_, text_.find_first_of(" \n{", pos_) - pos_)));
  }

  // Reads another whole grammar, in GBNF or Lark notation; its names are separate.
  ExpressionId read_grammar() {
    const JsonValue source = read_json("%grammar", 4);
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
      defined_.insert(rule.name);
    }
    return grammar_.take_in(std::move(other));
  }

  // Matches any run of adjacent pieces of a text.
  LanguageId read_substring() {
    const JsonValue options = read_json("%regex", 64);
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
    const auto number = read_digits(kMaxRepeat);
    skip_blanks();
    return number;
  }

  // Returns whether a count of a repetition follows: ~2 or ~2..3. Any other ~ begins a negated item.
  bool at_count() const {
    size_t ahead = 0;
    while (peek(ahead) == ' ' || peek(ahead) == '\t') ++ahead;
    if (peek(ahead++) != '~') return false;
    while (peek(ahead) == ' ' || peek(ahead) == '\t') ++ahead;
    return is_ascii_digit(peek(ahead));
  }

  ExpressionId repeated(ExpressionId item, std::optional<uint32_t> min, std::optional<uint32_t> max) {
    if (min && max && *min > *max) malformed("a repetition whose minimum exceeds its maximum");
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
      } else if (at_count()) {
        skip_blanks();
        take("~");
        const auto min = read_count();
        item = repeated(item, min, take("..") ? read_count() : min);
      } else if (peek() == '{') {
        take("{");
        const auto min = read_count();
        item = repeated(item, min, take(",") ? read_count() : min);
        if (!take("}")) malformed("not the counts of a repetition; write {2}, {2,} or {2,3}");
      } else {
        return item;
      }
    }
  }

  LanguageStore& languages_;
  const TokenVocabulary& vocabulary_;
  const Place place_;
  Grammar grammar_;
  std::map<std::string, uint32_t> rule_idx_;
  std::set<std::string> defined_;
  std::map<std::string, size_t> first_uses_;  // bytes at which rules are first used
  std::set<std::string> lazy_;
  std::map<std::string, uint32_t> documents_;
  std::vector<ExpressionId> ignored_parts_;
  uint32_t ignored_ = 0;
  bool in_terminal_ = false;
};

}  // namespace

Grammar parse_lark(std::string_view source, LanguageStore& languages, const TokenVocabulary& vocabulary) {
  return LarkReader(source, languages, vocabulary, LarkReader::Place::outer).read();
}

}  // namespace quire
