// Numbers as they are written in JSON, compared and divided exactly, digit by digit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// (-1)^negative * 0.digits... : `whole` without leading zeros and `fraction` without trailing ones.
struct Decimal {
  bool negative = false;
  std::string whole;
  std::string fraction;
  bool operator==(const Decimal&) const = default;
  bool is_zero() const { return whole.empty() && fraction.empty(); }
  bool is_whole() const { return fraction.empty(); }
  std::string text() const;
};

// Of the text of a JSON number; ErrorCode::capacity where its exponent makes it longer than 400 digits.
Decimal parse_decimal(std::string_view text);
Decimal to_decimal(double value);
int compare(const Decimal& a, const Decimal& b);

enum class Relation : uint8_t { less, at_most, at_least, more, multiple, no_multiple };

// How far the text of a number has come against one operand. A small value: it is part of the name of a
// state.
struct NumberProgress {
  enum class Phase : uint8_t {
    start,
    sign,
    whole,
    point,
    fraction,
    exponent,
    exponent_sign,
    exponent_zero,
    exponent_digits
  };
  Phase phase = Phase::start;
  bool negative = false;
  bool nonzero = false;         // a digit that is not zero was read
  bool small_exponent = false;  // the exponent is negative
  bool one_digit = false;       // the whole part is one digit that is not zero
  int8_t order = 0;             // of the digits so far against those of the operand, at the same places
  uint16_t num_whole = 0;       // digits of the whole part, leading zero left out; stops past the operand's
  uint16_t num_fraction = 0;    // stops past the operand's
  uint64_t remainder = 0;       // of the digits so far, for multiples
  bool operator==(const NumberProgress&) const = default;
};

// One operand and what a number has to be to it. Texts with an exponent are followed where they are written
// as every printer writes them (one digit before the point, a power other than 0) and only where the power
// alone decides; others are refused, never accepted wrongly.
class NumberTest {
 public:
  // For multiples the operand must be positive and its digits not too large (else ErrorCode::unsupported).
  NumberTest(Relation relation, Decimal operand);

  // False where no number that begins so passes.
  bool advance(NumberProgress& progress, char symbol) const;
  bool passes(const NumberProgress& progress) const;
  bool operator==(const NumberTest&) const = default;

 private:
  bool advance_digit(NumberProgress& progress, uint32_t digit) const;
  bool begin_exponent(NumberProgress& progress) const;
  bool passes_by_power(const NumberProgress& progress) const;
  int order_of_sizes(const NumberProgress& progress) const;
  int order_of_values(const NumberProgress& progress) const;
  bool holds(int order) const;
  bool is_division() const { return relation_ >= Relation::multiple; }

  Relation relation_;
  Decimal operand_;
  uint64_t divisor_ = 0;  // the digits of the operand, for multiples
};

}  // namespace quire
