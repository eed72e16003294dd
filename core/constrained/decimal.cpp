#include "core/constrained/decimal.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "core/base/error.h"

namespace quire {
namespace {

constexpr int64_t kMaxDigits = 400;
constexpr uint64_t kMaxDivisor = 20'000;

using Phase = NumberProgress::Phase;

int64_t read_exponent(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  int64_t exponent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error != std::errc() || std::abs(exponent) > kMaxDigits) {
    throw Error(ErrorCode::capacity, "a number with the exponent {} has more than {} digits",
                printable(text, 20), kMaxDigits);
  }
  return exponent;
}

void trim(Decimal& number) {
  number.whole.erase(0, std::min(number.whole.find_first_not_of('0'), number.whole.size()));
  const size_t last = number.fraction.find_last_not_of('0');
  number.fraction.resize(last == std::string::npos ? 0 : last + 1);
  if (number.is_zero()) number.negative = false;
}

}  // namespace

std::string Decimal::text() const {
  return (negative ? "-" : "") + (whole.empty() ? "0" : whole) + (fraction.empty() ? "" : "." + fraction);
}

Decimal parse_decimal(std::string_view text) {
  Decimal number;
  if (!text.empty() && text[0] == '-') {
    number.negative = true;
    text.remove_prefix(1);
  }
  const size_t mark = text.find_first_of("eE");
  const int64_t exponent = mark == std::string_view::npos ? 0 : read_exponent(text.substr(mark + 1));
  const std::string_view mantissa = text.substr(0, mark);
  const size_t point = mantissa.find('.');
  number.whole = mantissa.substr(0, point);
  if (point != std::string_view::npos) number.fraction = mantissa.substr(point + 1);
  for (int64_t i = 0; i < exponent; ++i) {
    number.whole.push_back(number.fraction.empty() ? '0' : number.fraction[0]);
    if (!number.fraction.empty()) number.fraction.erase(0, 1);
  }
  for (int64_t i = 0; i > exponent; --i) {
    number.fraction.insert(number.fraction.begin(), number.whole.empty() ? '0' : number.whole.back());
    if (!number.whole.empty()) number.whole.pop_back();
  }
  trim(number);
  return number;
}

Decimal to_decimal(double value) {
  return parse_decimal(fmt::format("{}", value));
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int sign = a.negative ? -1 : 1;
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -sign : sign;
  if (const int order = a.whole.compare(b.whole); order != 0) return order < 0 ? -sign : sign;
  const int order = a.fraction.compare(b.fraction);
  return order == 0 ? 0 : (order < 0 ? -sign : sign);
}

NumberTest::NumberTest(Relation relation, Decimal operand)
    : relation_(relation), operand_(std::move(operand)) {
  if (!is_division()) return;
  const std::string digits = operand_.whole + operand_.fraction;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), divisor_);
  if (error != std::errc() || divisor_ == 0 || divisor_ > kMaxDivisor || operand_.negative) {
    throw Error(
        ErrorCode::unsupported,
        "the schema keyword \"multipleOf\": {} is not supported; without the point, it must be from 1 to {}",
        operand_.text(), kMaxDivisor);
  }
}

bool NumberTest::advance(NumberProgress& at, char symbol) const {
  if (symbol == '-' && at.phase == Phase::start) {
    at.phase = Phase::sign;
    at.negative = true;
    return true;
  }
  if (symbol == '.' && at.phase == Phase::whole) {
    at.phase = Phase::point;
    at.one_digit = at.one_digit && at.nonzero;
    return true;
  }
  if (symbol == 'e' || symbol == 'E') return begin_exponent(at);
  if ((symbol == '-' || symbol == '+') && at.phase == Phase::exponent) {
    at.phase = Phase::exponent_sign;
    at.small_exponent = symbol == '-';
    return true;
  }
  return symbol >= '0' && symbol <= '9' && advance_digit(at, static_cast<uint32_t>(symbol - '0'));
}

bool NumberTest::begin_exponent(NumberProgress& at) const {
  const bool after_digits = at.phase == Phase::whole || at.phase == Phase::fraction;
  if (!after_digits || !at.one_digit || is_division()) return false;
  // The digits no longer matter: drop them, so that states that differ only in them become one.
  NumberProgress next;
  next.phase = Phase::exponent;
  next.negative = at.negative;
  at = next;
  return true;
}

bool NumberTest::advance_digit(NumberProgress& at, uint32_t digit) const {
  if (at.phase >= Phase::exponent) {
    const bool zero_so_far = at.phase != Phase::exponent_digits;
    at.phase = zero_so_far && digit == 0 ? Phase::exponent_zero : Phase::exponent_digits;
    return at.phase == Phase::exponent_zero || passes_by_power(at);
  }
  const bool in_fraction = at.phase == Phase::point || at.phase == Phase::fraction;
  at.one_digit = in_fraction ? at.one_digit : (at.phase <= Phase::sign && digit != 0);
  at.phase = in_fraction ? Phase::fraction : Phase::whole;
  if (is_division()) {
    const bool past_places = in_fraction && at.num_fraction >= operand_.fraction.size();
    if (past_places) {
      at.nonzero = at.nonzero || digit != 0;
      if (digit == 0) return true;
      if (relation_ == Relation::multiple) return false;
      at.num_whole = 1;  // marks a number with more decimal places than any multiple has
      return true;
    }
    at.nonzero = at.nonzero || digit != 0;
    at.remainder = (at.remainder * 10 + digit) % divisor_;
    if (in_fraction) ++at.num_fraction;
    return true;
  }
  at.nonzero = at.nonzero || digit != 0;
  uint16_t& count = in_fraction ? at.num_fraction : at.num_whole;
  const std::string& digits = in_fraction ? operand_.fraction : operand_.whole;
  if (!in_fraction && digit == 0 && at.num_whole == 0) return true;
  const uint32_t other = count < digits.size() ? static_cast<uint32_t>(digits[count] - '0') : 0;
  const bool comparable = in_fraction || count < digits.size();
  if (at.order == 0 && comparable && digit != other) at.order = digit < other ? -1 : 1;
  if (count <= digits.size()) ++count;
  return true;
}

bool NumberTest::passes_by_power(const NumberProgress& at) const {
  const Decimal one{false, "1", ""};
  const Decimal ten{false, "10", ""};
  Decimal size = operand_;
  size.negative = false;
  // The absolute value is in (0, 1) with a negative exponent, and at least 10 with a positive one.
  const bool same_sign = operand_.is_zero() || operand_.negative == at.negative;
  int order = at.negative ? -1 : 1;  // of the value and the operand, if their signs decide
  if (same_sign && !operand_.is_zero()) {
    if (at.small_exponent) {
      if (compare(size, one) < 0) return false;
      order = at.negative ? 1 : -1;
    } else if (compare(size, ten) >= 0) {
      return false;
    }
  }
  return holds(order);
}

int NumberTest::order_of_sizes(const NumberProgress& at) const {
  if (at.num_whole != operand_.whole.size()) return at.num_whole < operand_.whole.size() ? -1 : 1;
  if (at.order != 0) return at.order;
  return at.num_fraction < operand_.fraction.size() ? -1 : 0;
}

int NumberTest::order_of_values(const NumberProgress& at) const {
  const bool negative = at.negative && at.nonzero;
  if (negative != operand_.negative) return negative ? -1 : 1;
  return negative ? -order_of_sizes(at) : order_of_sizes(at);
}

bool NumberTest::holds(int order) const {
  if (relation_ == Relation::less) return order < 0;
  if (relation_ == Relation::at_most) return order <= 0;
  if (relation_ == Relation::at_least) return order >= 0;
  return order > 0;
}

bool NumberTest::passes(const NumberProgress& at) const {
  if (at.phase == Phase::exponent_digits) return true;
  if (at.phase != Phase::whole && at.phase != Phase::fraction) return false;
  if (!is_division()) return holds(order_of_values(at));
  uint64_t remainder = at.remainder;
  for (size_t place = at.num_fraction; place < operand_.fraction.size(); ++place) {
    remainder = remainder * 10 % divisor_;
  }
  const bool is_multiple = remainder == 0 && at.num_whole == 0;
  return is_multiple == (relation_ == Relation::multiple);
}

}  // namespace quire
