#include "core/tokenizer/regex_syntax.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/base/hex.h"
#include "core/base/utf8.h"
#include "core/tokenizer/regex_properties.h"
#include "core/tokenizer/regex_set.h"

namespace quire {
namespace {

constexpr size_t kMaxGroupDepth = 32;
constexpr size_t kMaxClassDepth = 8;
constexpr uint32_t kMaxRepeat = 1000;
constexpr size_t kMaxTranslatedBytes = 1U << 20;
constexpr size_t kMaxSetBytes = 65536;

// Returns a spelling of a literal that PCRE2 reads the same way in every context.
std::string literal(uint32_t code_point) {
  const auto c = static_cast<char>(code_point);
  if (code_point < 0x80 && (is_ascii_digit(c) || is_ascii_letter(c))) return std::string(1, c);
  return fmt::format("\\x{{{:x}}}", code_point);
}

// Translator of a pattern, in one pass. Oniguruma's option switch "x(?i)ab|cd" applies to the end of its
// group, like "x(?i:ab|cd)", and is written that way.
class Translator {
 public:
  Translator(std::string_view pattern, std::string_view where, const RegexTranslation& translation)
      : pattern_(pattern), where_(where), translation_(translation) {}

  std::string run() {
    groups_.push_back({});
    while (!at_end()) {
      translate_next();
      if (out_.size() > kMaxTranslatedBytes) refuse("too many classes and word boundaries");
    }
    if (groups_.size() != 1) refuse("an open group");
    close_switches();
    return std::move(out_);
  }

 private:
  struct Group {
    size_t out_start = 0;      // where its text begins in out_
    size_t num_switches = 0;   // "(?i)" groups opened inside; they are closed with the group
    bool ignore_case = false;  // current value inside the group
    bool repeatable = true;    // false for lookarounds
    bool looks_behind = false;
  };
  // A member of a character class: a code point, which may start a range, or a set.
  struct ClassMember {
    std::optional<uint32_t> code_point;
    RegexSet set;

    RegexSet as_set() const { return code_point ? RegexSet(literal(*code_point)) : set; }
  };
  enum class SetOperator { none, intersection, difference, symmetric_difference };

  bool is_rust() const { return translation_.dialect == RegexDialect::rust; }
  bool at_end() const { return pos_ >= pattern_.size(); }
  char peek(size_t ahead = 0) const { return pos_ + ahead < pattern_.size() ? pattern_[pos_ + ahead] : '\0'; }
  bool starts_with(std::string_view text) const { return pattern_.substr(pos_).starts_with(text); }
  bool take(std::string_view text) {
    if (!starts_with(text)) return false;
    pos_ += text.size();
    return true;
  }
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(ErrorCode::unsupported,
                "{}: the regular expression has {} near byte {}, which is not supported", where_, what, pos_);
  }

  void translate_next() {
    const char c = peek();
    switch (c) {
      case '\\':
        return translate_escape();
      case '[':
        return atom(translate_class(0).pattern());
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '|':
        return alternative();
      case '.':
        ++pos_;
        return atom(".");
      case '^':
        ++pos_;
        return assertion(is_rust() ? "\\A" : "(?m:^)");
      case '$':
        ++pos_;
        return assertion(is_rust() ? "\\z" : "(?m:$)");
      case '*':
      case '+':
      case '?':
        ++pos_;
        return quantify(std::string(1, c));
      case '{':
        if (translate_interval()) return;
        break;
      default:
        break;
    }
    literal_atom(take_code_point());
  }

  uint32_t take_code_point() {
    const Utf8Char next = decode_utf8(pattern_, pos_);
    pos_ += next.length;
    return next.code_point;
  }

  void atom(const std::string& text) {
    atom_start_ = out_.size();
    one_character_ = true;
    previous_letter_ = 0;
    out_ += text;
  }
  void assertion(std::string_view text) {
    out_ += text;
    atom_start_.reset();
    previous_letter_ = 0;
  }

  // Appends a literal. Ignoring case, Oniguruma matches some letter pairs with a ligature; PCRE2 never does,
  // so those are refused.
  void literal_atom(uint32_t code_point) {
    const bool ignore_case = groups_.back().ignore_case;
    if (ignore_case && code_point >= 0x80) refuse("a letter outside of ASCII that ignores case");
    const char letter = code_point < 0x80 ? ascii_lower(static_cast<char>(code_point)) : '\0';
    if (ignore_case && previous_letter_ != 0) {
      constexpr std::array<std::string_view, 5> kLigatures = {"ss", "st", "ff", "fi", "fl"};
      const std::string pair = {previous_letter_, letter};
      if (std::find(kLigatures.begin(), kLigatures.end(), pair) != kLigatures.end()) {
        refuse("letters that ignore case and have a ligature");
      }
    }
    atom(literal(code_point));
    previous_letter_ = letter;
  }

  void alternative() {
    ++pos_;
    out_ += '|';
    atom_start_.reset();
    previous_letter_ = 0;
  }

  void open_group() {
    if (groups_.size() >= kMaxGroupDepth) refuse("groups nested too deep");
    Group group{out_.size(), 0, groups_.back().ignore_case, true, groups_.back().looks_behind};
    if (take("(?i)")) return open_switch(true);
    if (take("(?-i)")) return open_switch(false);
    if (take("(?i:")) {
      group.ignore_case = true;
    } else if (take("(?-i:")) {
      group.ignore_case = false;
    } else if (take("(?>")) {
      return push_group(group, "(?>");
    } else if (starts_with("(?=") || starts_with("(?!") || starts_with("(?<=") || starts_with("(?<!")) {
      const size_t length = peek(2) == '<' ? 4 : 3;
      group.repeatable = false;
      group.looks_behind = group.looks_behind || length == 4;
      const std::string opening(pattern_.substr(pos_, length));
      pos_ += length;
      return push_group(group, opening);
    } else if (!take("(?:")) {
      if (peek(1) == '?' || peek(1) == '*') refuse("a special group");
      ++pos_;  // captures are not used
    }
    const bool same = group.ignore_case == groups_.back().ignore_case;
    push_group(group, same ? "(?:" : group.ignore_case ? "(?i:" : "(?-i:");
  }

  void push_group(const Group& group, std::string_view opening) {
    out_ += opening;
    groups_.push_back(group);
    atom_start_.reset();
    previous_letter_ = 0;
  }

  void open_switch(bool ignore_case) {
    out_ += ignore_case ? "(?i:" : "(?-i:";
    ++groups_.back().num_switches;
    if (groups_.back().num_switches > kMaxGroupDepth) refuse("too many option switches");
    groups_.back().ignore_case = ignore_case;
    atom_start_.reset();
    previous_letter_ = 0;
  }

  void close_switches() { out_.append(groups_.back().num_switches, ')'); }

  void close_group() {
    if (groups_.size() == 1) refuse("a ')' without a group");
    close_switches();
    out_ += ')';
    const Group group = groups_.back();
    groups_.pop_back();
    ++pos_;
    previous_letter_ = 0;
    if (group.repeatable) {
      atom_start_ = group.out_start;
      one_character_ = false;
    } else {
      atom_start_.reset();
    }
  }

  // Translates {n}, {n,}, {n,m} and {,m}; anything else is a literal brace.
  bool translate_interval() {
    size_t pos = pos_ + 1;
    const auto number = [&]() -> std::optional<uint32_t> {
      uint32_t value = 0;
      const size_t start = pos;
      while (pos < pattern_.size() && is_ascii_digit(pattern_[pos])) {
        value = value * 10 + static_cast<uint32_t>(pattern_[pos++] - '0');
        if (value > kMaxRepeat) refuse("a repeat count above 1000");
      }
      if (pos == start) return std::nullopt;
      return value;
    };
    const auto least = number();
    auto most = least;
    bool comma = false;
    if (pos < pattern_.size() && pattern_[pos] == ',') {
      comma = true;
      ++pos;
      most = number();
    }
    if (pos >= pattern_.size() || pattern_[pos] != '}' || (!least && !most)) return false;
    if (least && most && *least > *most) refuse("a repeat with reversed counts");
    pos_ = pos + 1;
    if (!atom_start_) refuse("a quantifier with nothing to repeat");
    if (!comma && peek() == '?') refuse("a lazy exact repeat");
    const uint32_t fewest = least.value_or(0);
    if (peek() == '+' && !is_rust()) return repeat_interval(fewest, most);
    std::string text = fmt::format("{{{}", fewest);
    if (comma) text += most ? fmt::format(",{}", *most) : ",";
    quantify(text + "}");
    return true;
  }

  // Translates "x{n,m}+". In this syntax it is not possessive, but means "(?:x{n,m})+". If x is one character
  // and n is at most 1, it is written as "x+" or "x*", because the nested loop can take exponential time.
  bool repeat_interval(uint32_t fewest, std::optional<uint32_t> most) {
    if (one_character_ && fewest <= 1 && most != 0U) {
      ++pos_;
      out_ += fewest == 0 ? '*' : '+';
    } else {
      const std::string upper = most ? std::to_string(*most) : "";
      out_.insert(*atom_start_, "(?:").append(fmt::format("{{{},{}}})", fewest, upper));
      ++pos_;
      out_ += '+';
    }
    end_quantifier();
    return true;
  }

  void quantify(const std::string& quantifier) {
    if (!atom_start_) refuse("a quantifier with nothing to repeat");
    out_ += quantifier;
    if (peek() == '?' || peek() == '+') out_ += pattern_[pos_++];
    end_quantifier();
  }

  void end_quantifier() {
    if (peek() == '*' || peek() == '+' || peek() == '?') refuse("a quantifier of a quantifier");
    atom_start_.reset();
    previous_letter_ = 0;
  }

  void translate_escape() {
    if (take("\\A")) return assertion("\\A");
    if (take("\\z")) return assertion("\\z");
    if (!is_rust() && take("\\Z")) return assertion("\\Z");
    if (take("\\b")) return assertion(word_boundary(true));
    if (take("\\B")) return assertion(word_boundary(false));
    if (take("\\G")) return translate_start_of_search();
    if (starts_with("\\P") || starts_with("\\p{^"))
      return atom("[^" + property(take_negated_property()) + "]");
    if (take("\\S")) return atom(fmt::format("[^{}]", space_items()));
    if (take("\\D")) return atom("[^" + property("Nd") + "]");
    if (take("\\W")) return atom("[^" + words(RegexPlace::pattern) + "]");
    const ClassMember member = take_escaped(RegexPlace::pattern);
    if (member.code_point) return literal_atom(*member.code_point);
    atom(member.set.pattern());
  }

  // Returns an assertion that exactly one of the characters beside a place is a word character, or that both
  // or none are.
  std::string word_boundary(bool is_boundary) const {
    const std::string word = fmt::format("[{}]", word_items(translation_.dialect, RegexPlace::pattern));
    const std::string_view after_word = is_boundary ? "!" : "=";
    const std::string_view after_other = is_boundary ? "=" : "!";
    return fmt::format("(?-i:(?<={0})(?{1}{0})|(?<!{0})(?{2}{0}))", word, after_word, after_other);
  }

  // PCRE2 compares \G with the place where an attempt may begin, which is not the start of a search that goes
  // on from another place. In a lookbehind it could be true there nevertheless.
  void translate_start_of_search() {
    if (groups_.back().looks_behind) refuse("\\G in a lookbehind");
    assertion(translation_.begins_at_search_start ? "\\G" : "(?!)");
  }

  // Reads "{Name}" after a "\p" or "\P".
  std::string take_property_name() {
    const size_t end = pattern_.find('}', pos_);
    if (peek() != '{' || end == std::string_view::npos) refuse("an incomplete property");
    std::string name(pattern_.substr(pos_ + 1, end - pos_ - 1));
    pos_ = end + 1;
    return name;
  }

  // Reads the name in "\P{Name}" or "\p{^Name}".
  std::string take_negated_property() {
    const bool caret = take("\\p");
    if (!caret) pos_ += 2;
    const std::string name = take_property_name();
    return caret ? name.substr(1) : name;
  }

  std::string property(const std::string& name) const {
    if (groups_.back().ignore_case && !is_case_closed(name)) refuse("a property that ignores case");
    if (auto items = property_items(name)) return *items;
    refuse("an unknown property");
  }

  // Returns the set of \P{name} in a class.
  RegexSet negated_property(const std::string& name) const {
    if (groups_.back().ignore_case) refuse("a property that ignores case");
    return RegexSet(property(name)).complement();
  }

  std::string words(RegexPlace place) const {
    if (groups_.back().ignore_case) refuse("a word class that ignores case");
    return word_items(translation_.dialect, place);
  }

  // Reads an escape that is valid inside and outside of classes: one code point or a set.
  ClassMember take_escaped(RegexPlace place) {
    const bool in_class = place == RegexPlace::char_class;
    const auto set = [](std::string items) { return ClassMember{std::nullopt, RegexSet(std::move(items))}; };
    if (in_class && (starts_with("\\P") || starts_with("\\p{^"))) {
      return {std::nullopt, negated_property(take_negated_property())};
    }
    if (take("\\p")) return set(property(take_property_name()));
    if (take("\\s")) return set(std::string(space_items()));
    if (take("\\d")) return set(property("Nd"));
    if (take("\\w")) return set(words(place));
    if (in_class && take("\\S")) return set(std::string(non_space_items()));
    if (in_class && take("\\D")) return {std::nullopt, negated_property("Nd")};
    if (in_class && take("\\W")) return {std::nullopt, RegexSet(words(place)).complement()};
    if (in_class && !is_rust() && take("\\b")) return {uint32_t{'\b'}, {}};
    return {take_escaped_code_point(), {}};
  }

  uint32_t take_escaped_code_point() {
    constexpr std::string_view kNames = "nrtfvae";
    constexpr std::string_view kValues = "\n\r\t\f\v\a\x1b";
    const char c = peek(1);
    if (pos_ + 1 >= pattern_.size()) refuse("a '\\' at its end");
    if (const size_t idx = kNames.find(c); c != '\0' && idx != std::string_view::npos) {
      pos_ += 2;
      return static_cast<unsigned char>(kValues[idx]);
    }
    if (c == 'x' || c == 'u') return take_numeric_escape();
    if (is_ascii_letter(c) || is_ascii_digit(c)) refuse("an unknown escape");
    ++pos_;
    return take_code_point();
  }

  // Reads \xH, \xHH (below 0x80; above, Oniguruma means a byte), \x{H..} and \uHHHH.
  uint32_t take_numeric_escape() {
    const bool braces = starts_with("\\x{");
    const size_t max_digits = braces ? 8 : peek(1) == 'u' ? 4 : 2;
    const bool exact = peek(1) == 'u';
    pos_ += braces ? 3 : 2;
    uint32_t value = 0;
    size_t num_digits = 0;
    for (; num_digits < max_digits && hex_digit(peek()) >= 0; ++num_digits, ++pos_) {
      value = value * 16 + static_cast<uint32_t>(hex_digit(peek()));
    }
    const bool closed = !braces || take("}");
    const bool is_byte = !braces && !exact && value >= 0x80;
    const bool is_scalar = value <= 0x10ffff && !(value >= 0xd800 && value <= 0xdfff);
    if (!closed || num_digits == 0 || (exact && num_digits != 4) || is_byte || !is_scalar) {
      refuse("a malformed character number");
    }
    return value;
  }

  // Reads "[...]"; pos_ is at the '['. Intersections and differences bind weaker than unions, and '^' negates
  // the result.
  RegexSet translate_class(size_t depth) {
    if (depth >= kMaxClassDepth) refuse("character classes nested too deep");
    const bool ignore_case = groups_.back().ignore_case;
    ++pos_;
    const bool negated = take("^");
    if (negated && depth > 0 && ignore_case) refuse("a nested negated class that ignores case");
    if (peek() == ']') refuse("a ']' first in a character class");
    RegexSet result = translate_union(depth);
    while (peek() != ']') {
      const SetOperator combined = set_operator();
      pos_ += 2;
      if (ignore_case) refuse("an operation on character classes that ignores case");
      const RegexSet right = translate_union(depth);
      result = combined == SetOperator::intersection ? result.intersection(right)
               : combined == SetOperator::difference ? result.difference(right)
                                                     : result.symmetric_difference(right);
      if (result.num_bytes() > kMaxSetBytes) refuse("a character class that is too large");
    }
    ++pos_;
    return negated ? result.complement() : result;
  }

  SetOperator set_operator() const {
    if (starts_with("&&")) return SetOperator::intersection;
    if (is_rust() && starts_with("--")) return SetOperator::difference;
    if (is_rust() && starts_with("~~")) return SetOperator::symmetric_difference;
    return SetOperator::none;
  }

  // Reads the members up to an operator or the end of their class.
  RegexSet translate_union(size_t depth) {
    RegexSet members;
    if (peek() == ']' || set_operator() != SetOperator::none)
      refuse("an operation without a character class");
    while (at_end() || (peek() != ']' && set_operator() == SetOperator::none)) {
      if (at_end()) refuse("an open character class");
      members.add(translate_member(depth));
    }
    return members;
  }

  RegexSet translate_member(size_t depth) {
    if (starts_with("[:")) refuse("a POSIX bracket");
    if (peek() == '[') return translate_class(depth + 1);
    const ClassMember first = take_member();
    const bool is_range =
        peek() == '-' && peek(1) != ']' && pos_ + 1 < pattern_.size() && set_operator() == SetOperator::none;
    if (!is_range) return first.as_set();
    ++pos_;
    if (peek() == '[' || set_operator() != SetOperator::none) refuse("an unusual range");
    const ClassMember last = take_member();
    if (!first.code_point || !last.code_point || *first.code_point > *last.code_point) {
      refuse("a malformed range");
    }
    return RegexSet(literal(*first.code_point) + "-" + literal(*last.code_point));
  }

  ClassMember take_member() {
    ClassMember member =
        peek() == '\\' ? take_escaped(RegexPlace::char_class) : ClassMember{take_code_point(), {}};
    if (member.code_point >= 0x80U && groups_.back().ignore_case) {
      refuse("a letter outside of ASCII that ignores case");
    }
    return member;
  }

  std::string_view pattern_;
  std::string_view where_;
  const RegexTranslation& translation_;
  size_t pos_ = 0;
  std::string out_;
  std::vector<Group> groups_;         // the first is the whole pattern
  std::optional<size_t> atom_start_;  // in out_: start of what a quantifier would repeat
  bool one_character_ = false;        // whether it always matches one character
  char previous_letter_ = 0;          // the preceding literal in lower case; 0 if there is none
};

}  // namespace

std::string to_pcre2(std::string_view pattern, std::string_view where, const RegexTranslation& translation) {
  require_utf8(pattern, where);
  return Translator(pattern, where, translation).run();
}

}  // namespace quire
