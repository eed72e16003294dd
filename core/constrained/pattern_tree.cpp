#include "core/constrained/pattern_tree.h"

#include <optional>

#include "core/base/error.h"
#include "core/constrained/pattern_chars.h"
#include "core/constrained/source_reader.h"

namespace quire {
namespace {

constexpr size_t kMaxPatternBytes = 64 << 10;
constexpr int kMaxNesting = 64;
constexpr uint32_t kMaxRepeat = 10'000'000;

using NodeKind = PatternNode::Kind;

class PatternReader : private SourceReader {
 public:
  PatternReader(std::string_view text, const PatternOptions& options)
      : SourceReader("pattern \"" + printable(text) + "\"", text), options_(options) {}

  PatternNode read() {
    if (text_.size() > kMaxPatternBytes) {
      throw Error(ErrorCode::capacity, "a pattern of {} bytes, more than {}", text_.size(), kMaxPatternBytes);
    }
    PatternNode node = read_choice(0);
    if (pos_ != text_.size()) malformed("a ) without (; write \\) for the character");
    return node;
  }

 private:
  PatternNode read_choice(int nesting) {
    if (nesting > kMaxNesting)
      throw Error(ErrorCode::capacity, "a pattern is nested deeper than {} levels", kMaxNesting);
    std::vector<PatternNode> branches;
    do {
      branches.push_back(read_sequence(nesting));
    } while (take("|"));
    if (branches.size() == 1) return std::move(branches[0]);
    PatternNode node;
    node.kind = NodeKind::choice;
    node.parts = std::move(branches);
    return node;
  }

  PatternNode read_sequence(int nesting) {
    PatternNode node;
    while (!at_end() && peek() != '|' && peek() != ')') {
      auto item = read_item(nesting);
      if (item) node.parts.push_back(read_repeats(std::move(*item)));
    }
    return node;
  }

  PatternNode set_node(CharSet set) const {
    PatternNode node;
    node.kind = NodeKind::chars;
    node.set = options_.ignore_case ? with_both_cases(set) : std::move(set);
    return node;
  }

  // Reads one item; returns nothing for a group without content, such as (?i).
  std::optional<PatternNode> read_item(int nesting) {
    PatternNode node;
    switch (peek()) {
      case '(':
        return read_group(nesting);
      case '[':
        return set_node(read_class());
      case '\\':
        return read_escape();
      case '^':
        ++pos_;
        node.kind = NodeKind::start;
        return node;
      case '$':
        ++pos_;
        node.kind = NodeKind::end;
        return node;
      case '.':
        ++pos_;
        if (options_.dot_all) return set_node(all_chars());
        return set_node(complement(line_end_chars(options_.dialect)));
      case '*':
      case '+':
      case '?':
        malformed("nothing to repeat; write \\ before it for the character");
      default: {
        const uint32_t code = take_char();
        return set_node({{code, code}});
      }
    }
  }

  std::optional<PatternNode> read_group(int nesting) {
    take("(");
    PatternNode node;
    const PatternOptions outside = options_;
    bool lookahead = false;
    if (take("?")) {
      if (take("=") || take("!")) {
        lookahead = true;
        node.negative = text_[pos_ - 1] == '!';
      } else if (take("<=") || take("<!")) {
        unsupported("lookbehind");
      } else if (take(">")) {
        unsupported("an atomic group");
      } else if (take("P=")) {
        unsupported("a back-reference");
      } else if (take("P<") || take("<")) {
        while (!at_end() && peek() != '>') ++pos_;
        if (!take(">")) malformed("a group name without >");
      } else if (take("(")) {
        unsupported("a conditional group");
      } else if (!take(":") && !read_flags()) {
        return std::nullopt;
      }
    }
    PatternNode body = read_choice(nesting + 1);
    if (!take(")")) malformed("a ) is missing");
    options_.ignore_case = outside.ignore_case;
    options_.dot_all = outside.dot_all;
    if (!lookahead) return body;
    node.kind = NodeKind::lookahead;
    node.parts.push_back(std::move(body));
    return node;
  }

  // Reads the flags of (?i) and (?s), which apply to the rest of the group around them, or of (?i: ...).
  // Returns true if a group begins.
  bool read_flags() {
    while (!at_end() && peek() != ')' && peek() != ':') {
      const char flag = peek();
      if (flag == 'i') {
        options_.ignore_case = true;
      } else if (flag == 's') {
        options_.dot_all = true;
      } else if (flag != 'u') {
        unsupported("a flag of a group other than i, s and u");
      }
      ++pos_;
    }
    if (take(":")) return true;
    if (!take(")")) malformed("a ) is missing");
    return false;
  }

  PatternNode read_repeats(PatternNode item) {
    for (bool first = true;; first = false) {
      uint32_t min = 0;
      uint32_t max = kNoMaximum;
      if (take("+")) {
        if (!first) unsupported("a possessive repetition");
        min = 1;
      } else if (take("?")) {
        max = 1;
        if (!first) continue;  // lazy: the language is the same
      } else if (!take("*") && !read_counts(min, max)) {
        return item;
      } else if (!first) {
        malformed("a repetition of a repetition");
      }
      const bool zero_width = item.kind == NodeKind::start || item.kind == NodeKind::end;
      if (zero_width) malformed("a repeated anchor");
      PatternNode repeated;
      repeated.kind = NodeKind::repeat;
      repeated.min = min;
      repeated.max = max;
      repeated.parts.push_back(std::move(item));
      item = std::move(repeated);
    }
  }

  // Reads {2}, {2,} or {2,3}, and {,3} in Python's dialect; anything else is literal text.
  bool read_counts(uint32_t& min, uint32_t& max) {
    const size_t begin = pos_;
    if (!take("{")) return false;
    auto low = read_digits(kMaxRepeat);
    auto high = low;
    if (!low && options_.dialect == PatternDialect::python && peek() == ',') low = 0;
    const bool open = low && take(",");
    if (open) high = read_digits(kMaxRepeat);
    if (!low || !take("}")) {
      pos_ = begin;
      return false;
    }
    min = *low;
    max = high ? *high : kNoMaximum;
    if (min > max) malformed("a repetition whose minimum exceeds its maximum");
    return true;
  }

  uint32_t read_unicode() {
    if (take("{")) return read_braced_hex();
    const uint32_t first = read_hex(4);
    const bool high = first >= 0xD800 && first < 0xDC00;
    if (!high || !take("\\u")) return first;
    const uint32_t second = read_hex(4);
    return 0x10000 + ((first - 0xD800) << 10) + ((second - 0xDC00) & 0x3FF);
  }

  CharSet read_property(bool negative) {
    std::string_view name;
    if (take("{")) {
      const size_t end = text_.find('}', pos_);
      if (end == std::string_view::npos) malformed("a property without }");
      name = text_.substr(pos_, end - pos_);
      pos_ = end + 1;
    } else {
      name = text_.substr(pos_, 1);
      take_char();
    }
    for (const std::string_view prefix : {"General_Category=", "gc="}) {
      if (name.substr(0, prefix.size()) == prefix) name.remove_prefix(prefix.size());
    }
    CharSet set = category_chars(name);
    if (set.empty()) unsupported("a property other than a general category");
    return negative ? complement(set) : set;
  }

  std::optional<CharSet> read_class_escape() {
    if (take("d")) return digit_chars(options_.dialect);
    if (take("D")) return complement(digit_chars(options_.dialect));
    if (take("w")) return word_chars(options_.dialect);
    if (take("W")) return complement(word_chars(options_.dialect));
    if (take("s")) return space_chars(options_.dialect);
    if (take("S")) return complement(space_chars(options_.dialect));
    if (take("p")) return read_property(false);
    if (take("P")) return read_property(true);
    return std::nullopt;
  }

  uint32_t read_char_escape() {
    const uint32_t code = take_char();
    switch (code) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
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
        return peek() == '{' ? read_unicode() : read_hex(2);
      case 'u':
        return read_unicode();
      case 'U':
        return read_hex(8);
      case 'c':
        return take_char() & 31;
      default:
        break;
    }
    const bool letter =
        (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '1' && code <= '9');
    if (letter) {
      --pos_;
      malformed("an unknown escape; a letter or digit needs no \\");
    }
    return code;
  }

  std::optional<PatternNode> read_escape() {
    take("\\");
    const char next = peek();
    if (next >= '1' && next <= '9') unsupported("a back-reference");
    if (next == 'k') unsupported("a back-reference");
    if (next == 'b' || next == 'B') unsupported("a word boundary");
    PatternNode node;
    if (take("A")) {
      node.kind = NodeKind::start;
      return node;
    }
    if (take("z") || take("Z")) {
      node.kind = NodeKind::end;
      return node;
    }
    if (auto set = read_class_escape()) return set_node(std::move(*set));
    const uint32_t code = read_char_escape();
    return set_node({{code, code}});
  }

  // Reads a single character of a class, or adds the set of an escape.
  std::optional<uint32_t> read_class_item(CharSet& set) {
    if (take("[:")) return read_named_class(set);
    if (!take("\\")) return take_char();
    if (take("b")) return 8;
    if (auto escaped = read_class_escape()) {
      set.insert(set.end(), escaped->begin(), escaped->end());
      return std::nullopt;
    }
    return read_char_escape();
  }

  std::optional<uint32_t> read_named_class(CharSet& set) {
    struct Named {
      std::string_view name;
      CharSet set;
    };
    const Named known[] = {{"alpha:]", {{'A', 'Z'}, {'a', 'z'}}},
                           {"digit:]", {{'0', '9'}}},
                           {"alnum:]", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
                           {"upper:]", {{'A', 'Z'}}},
                           {"lower:]", {{'a', 'z'}}},
                           {"space:]", {{9, 13}, {' ', ' '}}},
                           {"xdigit:]", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
                           {"punct:]", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}}};
    for (const Named& named : known) {
      if (!take(named.name)) continue;
      set.insert(set.end(), named.set.begin(), named.set.end());
      return std::nullopt;
    }
    pos_ -= 1;  // not a named class: the bracket is literal, and the colon is read again
    return '[';
  }

  CharSet read_class() {
    take("[");
    const bool negative = take("^");
    CharSet set;
    for (bool first = true;; first = false) {
      if (at_end()) malformed("a ] is missing");
      // "[]" is empty in ECMA 262; in other dialects a leading ] is a character.
      if (peek() == ']' && (!first || options_.dialect == PatternDialect::ecma262)) break;
      const auto low = read_class_item(set);
      if (!low) continue;
      const bool range = peek() == '-' && pos_ + 1 < text_.size() && text_[pos_ + 1] != ']';
      if (!range) {
        set.push_back({*low, *low});
        continue;
      }
      take("-");
      const auto high = read_class_item(set);
      if (!high) {
        set.push_back({*low, *low});
        set.push_back({'-', '-'});
        continue;
      }
      if (*high < *low) malformed("a character range whose end is before its begin");
      set.push_back({*low, *high});
    }
    take("]");
    set = normalized(std::move(set));
    if (options_.ignore_case) set = with_both_cases(set);
    return negative ? complement(set) : set;
  }

  PatternOptions options_;
};

}  // namespace

PatternNode read_pattern(std::string_view text, const PatternOptions& options) {
  return PatternReader(text, options).read();
}

}  // namespace quire
