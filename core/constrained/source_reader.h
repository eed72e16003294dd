// A place in the source of a pattern or a grammar, with the steps that their readers share. Errors name the
// line, the column and the character.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace quire {

class SourceReader {
 public:
  // `name` begins every error. Borrows `text`.
  SourceReader(std::string name, std::string_view text) : text_(text), name_(std::move(name)) {}

 protected:
  // Throw ErrorCode::format, ErrorCode::unsupported and ErrorCode::capacity, with the place of the reader.
  [[noreturn]] void malformed(std::string_view what) const;
  [[noreturn]] void unsupported(std::string_view what) const;
  [[noreturn]] void exceeds(std::string_view limit, size_t value) const;
  // Throws ErrorCode::format or ErrorCode::unsupported, with a place that was read before.
  [[noreturn]] void malformed_at(size_t position, std::string_view what) const;
  [[noreturn]] void unsupported_at(size_t position, std::string_view what) const;

  bool at_end() const { return pos_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }
  bool take(std::string_view expected);
  // Reads one character.
  uint32_t take_char();
  // Reads exactly `num_digits` hexadecimal digits.
  uint32_t read_hex(size_t num_digits);
  // Reads hexadecimal digits and the closing brace after them.
  uint32_t read_braced_hex();
  // Reads the digits of a count, if there are any.
  std::optional<uint32_t> read_digits(uint32_t max_repeat);

  std::string_view text_;
  size_t pos_ = 0;

 private:
  std::string name_;
};

}  // namespace quire
