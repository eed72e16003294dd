#include "core/chat/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "core/base/ascii.h"
#include "core/base/utf8.h"
#include "core/chat/unicode.h"

namespace quire::chat {
namespace {

// Converts line ends to "
// " and drops one at the very end.
std::string with_unix_lines(std::string_view source) {
  std::string lines;
  lines.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      lines += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      lines += '\n';
    }
  }
  if (!lines.empty() && lines.back() == '\n') lines.pop_back();
  return lines;
}

constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool is_name_char(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || c == '_' || is_ascii_letter_or_digit(c);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : owned_(with_unix_lines(source)), source_(owned_) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) read_root();
    add(TokenType::end, {});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(size_t at, std::string text) {
    advance_to(at);
    throw TemplateError(TemplateFault::syntax, place_, std::move(text));
  }

  // Advances the line and column of error messages to byte `at`.
  void advance_to(size_t at) {
    for (; placed_ < at; ++placed_) {
      if (source_[placed_] == '\n') {
        ++place_.line;
        place_.column = 1;
      } else {
        ++place_.column;
      }
    }
  }

  void add(TokenType type, std::string text) { tokens_.push_back({type, std::move(text), 0, 0.0, place_}); }

  bool starts_with(std::string_view text) const { return source_.substr(pos_, text.size()) == text; }
  std::string_view rest() const { return source_.substr(pos_); }
  void skip_space() { pos_ += leading_space(rest()); }

  // Reads the text up to the next tag, and that tag.
  void read_root() {
    const size_t begin = pos_;
    const size_t tag = find_tag(begin);
    if (tag == std::string_view::npos) {
      add_data(source_.substr(begin));
      pos_ = source_.size();
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    add_data(stripped(source_.substr(begin, tag - begin), sign, kind == '{'));
    advance_to(tag);
    pos_ = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
    line_starting_ = false;
    if (kind == '#') {
      skip_comment();
    } else if (kind == '{') {
      read_tag(TokenType::variable_begin);
    } else if (!read_raw()) {
      read_tag(TokenType::block_begin);
    }
  }

  size_t find_tag(size_t from) const {
    for (size_t at = source_.find('{', from); at != std::string_view::npos; at = source_.find('{', at + 1)) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return std::string_view::npos;
  }

  void add_data(std::string_view text) {
    if (!text.empty()) add(TokenType::data, std::string(text));
  }

  // Strips whitespace from the text before a tag, as the tag's sign (-, + or none) requires.
  std::string_view stripped(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return text.substr(0, text.size() - trailing_space(text));
    if (sign == '+' || is_variable) return text;
    const size_t newline = text.rfind('\n');
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if (line == 0 && !line_starting_) return text;
    const std::string_view last = text.substr(line);
    return !last.empty() && leading_space(last) == last.size() ? text.substr(0, line) : text;
  }

  // Skips the end of a tag; returns false if the tag does not end here. Variable tags keep the newline that
  // follows.
  bool skip_tag_end(std::string_view end, bool is_variable) {
    const std::string minus = "-" + std::string(end);
    const std::string plus = "+" + std::string(end);
    if (starts_with(minus)) {
      pos_ += minus.size();
      skip_space();
    } else if (!is_variable && starts_with(plus)) {
      pos_ += plus.size();
    } else if (starts_with(end)) {
      pos_ += end.size();
      if (!is_variable && starts_with("\n")) ++pos_;
    } else {
      return false;
    }
    line_starting_ = source_[pos_ - 1] == '\n';
    return true;
  }

  void skip_comment() {
    const size_t begin = pos_;
    size_t end = source_.find("#}", pos_);
    if (end == std::string_view::npos) fail(begin, "missing end of comment tag");
    if (end > begin && (source_[end - 1] == '-' || source_[end - 1] == '+')) --end;
    pos_ = end;
    skip_tag_end("#}", false);
  }

  // Reads a raw block, starting after its "{%". Returns false if the block is not raw.
  bool read_raw() {
    const size_t begin = pos_;
    skip_space();
    if (!starts_with("raw")) return pos_ = begin, false;
    pos_ += 3;
    const size_t after_name = pos_;
    skip_space();
    if (starts_with("-%}")) {
      pos_ += 3;
      skip_space();
    } else if (starts_with("%}")) {
      pos_ += 2;
    } else {
      return pos_ = begin, false;
    }
    read_raw_text(after_name);
    return true;
  }

  void read_raw_text(size_t tag) {
    const size_t begin = pos_;
    for (size_t at = source_.find("{%", begin); at != std::string_view::npos;
         at = source_.find("{%", at + 1)) {
      pos_ = at + 2;
      const char sign = pos_ < source_.size() ? source_[pos_] : '\0';
      if (sign == '-' || sign == '+') ++pos_;
      skip_space();
      if (!starts_with("endraw")) continue;
      pos_ += 6;
      skip_space();
      if (!skip_tag_end("%}", false)) continue;
      add_data(stripped(source_.substr(begin, at - begin), sign, false));
      return;
    }
    fail(tag, "missing end of raw directive");
  }

  void read_tag(TokenType begin) {
    const bool is_variable = begin == TokenType::variable_begin;
    const std::string_view end = is_variable ? "}}" : "%}";
    const size_t num_outer = brackets_.size();
    add(begin, {});
    for (;;) {
      skip_space();
      advance_to(pos_);
      if (pos_ >= source_.size()) {
        fail(pos_, is_variable ? "unexpected end of template in a print statement"
                               : "unexpected end of template in a block");
      }
      if (brackets_.size() == num_outer && skip_tag_end(end, is_variable)) break;
      read_token();
    }
    add(is_variable ? TokenType::variable_end : TokenType::block_end, {});
  }

  void read_token() {
    const char c = source_[pos_];
    if (is_ascii_digit(c)) return read_number();
    if (is_name_char(c)) return read_name();
    if (c == '"' || c == '\'') return read_text(c);
    read_operator();
  }

  void read_name() {
    const size_t begin = pos_;
    while (pos_ < source_.size() && is_name_char(source_[pos_])) ++pos_;
    add(TokenType::name, std::string(source_.substr(begin, pos_ - begin)));
  }

  size_t digits_end(size_t at) const {
    while (at < source_.size() && is_ascii_digit(source_[at])) {
      ++at;
      if (at + 1 < source_.size() && source_[at] == '_' && is_ascii_digit(source_[at + 1])) ++at;
    }
    return at;
  }
  bool has_digit(size_t at) const { return at < source_.size() && is_ascii_digit(source_[at]); }

  // Returns the end of a fraction and exponent that follow digits; `at` itself if there are none.
  size_t real_end(size_t at) const {
    size_t end = at;
    if (at < source_.size() && source_[at] == '.' && has_digit(at + 1)) end = digits_end(at + 1);
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (has_digit(exponent)) end = digits_end(exponent);
    }
    return end;
  }

  void read_number() {
    const size_t begin = pos_;
    const bool after_dot = begin > 0 && source_[begin - 1] == '.';
    const size_t whole_end = digits_end(begin);
    const size_t end = after_dot ? whole_end : real_end(whole_end);
    if (end > whole_end) return add_real(begin, end);
    add_integer(begin);
  }

  static std::string without_underscores(std::string_view digits) {
    std::string plain(digits);
    plain.erase(std::remove(plain.begin(), plain.end(), '_'), plain.end());
    return plain;
  }

  void add_real(size_t begin, size_t end) {
    const std::string digits = without_underscores(source_.substr(begin, end - begin));
    pos_ = end;
    add(TokenType::real, {});
    std::from_chars(digits.data(), digits.data() + digits.size(), tokens_.back().real);
  }

  void add_integer(size_t begin) {
    int base = 10;
    size_t end = digits_end(begin);
    if (source_[begin] == '0' && begin + 1 < source_.size()) {
      const char prefix = static_cast<char>(source_[begin + 1] | 0x20);
      base = prefix == 'x' ? 16 : (prefix == 'o' ? 8 : (prefix == 'b' ? 2 : 10));
    }
    if (base != 10) {
      begin += 2;
      end = begin;
      while (end < source_.size() &&
             (std::isxdigit(static_cast<unsigned char>(source_[end])) != 0 || source_[end] == '_')) {
        ++end;
      }
    }
    const std::string digits = without_underscores(source_.substr(begin, end - begin));
    add(TokenType::integer, {});
    const auto result =
        std::from_chars(digits.data(), digits.data() + digits.size(), tokens_.back().integer, base);
    if (result.ec != std::errc() || result.ptr != digits.data() + digits.size())
      fail(pos_, "the number is too large");
    pos_ = end;
  }

  void read_operator() {
    for (const std::string_view op : kOperators) {
      if (!starts_with(op)) continue;
      balance(op);
      add(TokenType::op, std::string(op));
      pos_ += op.size();
      return;
    }
    if (starts_with("!")) fail(pos_, "unexpected character '!'");
    fail(pos_, "unexpected character '" + printable(source_.substr(pos_, 1)) + "'");
  }

  void balance(std::string_view op) {
    if (op == "(") brackets_ += ')';
    if (op == "[") brackets_ += ']';
    if (op == "{") brackets_ += '}';
    if (op != ")" && op != "]" && op != "}") return;
    if (brackets_.empty()) fail(pos_, "unexpected '" + std::string(op) + "'");
    if (brackets_.back() != op[0]) {
      fail(pos_, "unexpected '" + std::string(op) + "', expected '" + brackets_.back() + "'");
    }
    brackets_.pop_back();
  }

  void read_text(char quote) {
    const size_t begin = pos_;
    std::string text;
    for (++pos_; pos_ < source_.size() && source_[pos_] != quote;) {
      if (source_[pos_] == '\\') {
        read_escape(text);
      } else {
        text += source_[pos_++];
      }
    }
    if (pos_ >= source_.size()) fail(begin, std::string("unexpected character '") + quote + "'");
    ++pos_;
    add(TokenType::text, std::move(text));
  }

  void read_escape(std::string& text) {
    static constexpr std::string_view kLetters = "\\'\"abfnrtv";
    static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const size_t begin = pos_++;
    if (pos_ >= source_.size()) return;
    const char c = source_[pos_];
    if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
      text += kMeanings[known];
      ++pos_;
    } else if (c == '\n') {
      ++pos_;
    } else if (c >= '0' && c <= '7') {
      append_code(text, begin, 8, 1, 3);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      ++pos_;
      const size_t num_digits = c == 'x' ? 2 : (c == 'u' ? 4 : 8);
      append_code(text, begin, 16, num_digits, num_digits);
    } else if (c == 'N') {
      fail(begin, "character names (\\N{...}) are not supported in a string");
    } else {
      text += '\\';
    }
  }

  void append_code(std::string& text, size_t begin, int base, size_t min_digits, size_t max_digits) {
    const std::string_view digits = source_.substr(pos_, max_digits);
    uint32_t code_point = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), code_point, base);
    const auto num_digits = static_cast<size_t>(result.ptr - digits.data());
    const bool is_surrogate = code_point >= 0xd800 && code_point < 0xe000;
    if (num_digits < min_digits || code_point > 0x10ffff || is_surrogate) {
      fail(begin, "an escape in a string is not a valid character");
    }
    append_utf8(text, code_point);
    pos_ += num_digits;
  }

  std::string owned_;
  std::string_view source_;
  size_t pos_ = 0;
  size_t placed_ = 0;  // the byte that place_ refers to
  Position place_;
  bool line_starting_ = true;
  std::string brackets_;  // closing brackets that are expected, innermost last
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> read_tokens(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace quire::chat
