#include "core/response/json_number.h"

#include <charconv>
#include <system_error>

#include "core/base/ascii.h"

namespace quire {
namespace {

// Jackson's limit.
constexpr size_t kMaxBytes = 1000;

// Removes the digits at the front of the word, with underscores between them, and returns the digits.
std::string take_digits(std::string_view& word) {
  std::string digits;
  size_t pos = 0;
  while (pos < word.size()) {
    const bool joins = word[pos] == '_' && pos > 0 && is_ascii_digit(word[pos - 1]) &&
                       pos + 1 < word.size() && is_ascii_digit(word[pos + 1]);
    if (!joins && !is_ascii_digit(word[pos])) break;
    if (!joins) digits += word[pos];
    ++pos;
  }
  word.remove_prefix(pos);
  return digits;
}

bool begins_with_any(std::string_view word, std::string_view bytes) {
  return !word.empty() && bytes.find(word.front()) != std::string_view::npos;
}

bool is_in_range(const std::string& number) {
  double value = 0.0;
  return std::from_chars(number.data(), number.data() + number.size(), value).ec == std::errc();
}

}  // namespace

std::string json_number(std::string_view word) {
  if (word.empty() || word.size() > kMaxBytes) return "";
  std::string number;
  if (begins_with_any(word, "+-")) {
    if (word.front() == '-') number = "-";
    word.remove_prefix(1);
  }
  std::string whole = take_digits(word);
  const bool has_point = begins_with_any(word, ".");
  if (has_point) word.remove_prefix(1);
  std::string fraction = has_point ? take_digits(word) : std::string();
  if (whole.empty() && fraction.empty()) return "";
  whole.erase(0, whole.find_first_not_of('0'));
  number += whole.empty() ? "0" : whole;
  if (has_point) number += "." + (fraction.empty() ? "0" : fraction);
  if (begins_with_any(word, "eE")) {
    number += word.front();
    word.remove_prefix(1);
    if (begins_with_any(word, "+-")) {
      number += word.front();
      word.remove_prefix(1);
    }
    const std::string power = take_digits(word);
    if (power.empty()) return "";
    number += power;
  }
  return word.empty() && is_in_range(number) ? number : std::string();
}

}  // namespace quire
