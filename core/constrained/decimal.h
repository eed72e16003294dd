// Numbers in their JSON spelling, compared and divided exactly, digit by digit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// A decimal number (-1)^negative * whole.fraction: `whole` without leading zeros, `fraction` without trailing
// zeros.
struct Decimal {
  bool negative = false;
  std::string whole;
  std::string fraction;
  bool operator==(const Decimal&) const = default;
  bool is_zero() const { return whole.empty() && fraction.empty(); }
  bool is_whole() const { return fraction.empty(); }
  std::string text() const;
};

// Parses a JSON number; throws ErrorCode::capacity if its exponent makes it longer than 400 digits.
Decimal parse_decimal(std::string_view text);
Decimal to_decimal(double value);
int compare(const Decimal& a, const Decimal& b);

enum class Relation : uint8_t { less, at_most, at_least, more, multiple, no_multiple };

// Progress of reading a number that is compared with one operand. A small value: it is part of the key of a
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
  bool nonzero = false;         // a non-zero digit was read
  bool small_exponent = false;  // the exponent is negative
  bool one_digit = false;       // the whole part is one non-zero digit
  int8_t order = 0;  // comparison of the digits so far with the operand's digits at the same places
  uint16_t num_whole =
      0;  // digits of the whole part without a leading zero; stops counting past the operand's
  uint16_t num_fraction = 0;  // stops counting past the operand's
  uint64_t remainder = 0;     // of the digits so far; for multiples
  bool operator==(const NumberProgress&) const = default;
};

// A relation to one operand that a number must satisfy. Numbers with an exponent are accepted only in the
// usual printed form (one digit before the point, a non-zero power) and only if the power alone decides;
// others are rejected, never accepted wrongly.
class NumberTest {
 public:
  // For multiples, the operand must be positive and its digits not too large; otherwise throws
  // ErrorCode::unsupported.
  NumberTest(Relation relation, Decimal operand);

  // Returns false if no number with this beginning satisfies the relation.
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
  uint64_t divisor_ = 0;  // the digits of the operand as a number; for multiples
};

}  // namespace quire
