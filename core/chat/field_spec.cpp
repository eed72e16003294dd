#include "core/chat/field_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "core/base/utf8.h"
#include "core/chat/compare.h"
#include "core/chat/operators.h"
#include "core/chat/print.h"

namespace quire::chat {
namespace {

constexpr int64_t kMaxPrecision = 400;  // digits after the decimal point; a double has no more that matter

bool is_align(char c) {
  return c == '<' || c == '>' || c == '^' || c == '=';
}

void read_align(FieldSpec& spec, std::string_view text, size_t& pos) {
  if (text.empty()) return;
  const size_t fill_length = decode_utf8(text, 0).length;
  if (fill_length < text.size() && is_align(text[fill_length])) {
    spec.fill = text.substr(0, fill_length);
    spec.align = text[fill_length];
    pos = fill_length + 1;
  } else if (is_align(text[0])) {
    spec.align = text[0];
    pos = 1;
  }
}

// Appends `body`, padded to the width of the spec. With alignment '=', a sign or prefix of `num_prefix` bytes
// comes before the zeros.
void append_padded(Machine& machine, TextBuilder& out, const FieldSpec& spec, const Text& body,
                   char default_align, size_t num_prefix) {
  const char align = spec.align != '\0' ? spec.align : (spec.zero ? '=' : default_align);
  const std::string& fill = spec.zero && spec.align == '\0' ? "0" : spec.fill;
  const auto num_chars = static_cast<int64_t>(body.num_chars());
  const int64_t padding = std::max<int64_t>(spec.width - num_chars, 0);
  machine.check_text_bytes(static_cast<uint64_t>(padding));
  machine.step(static_cast<uint64_t>(padding) / 16);
  int64_t before = align == '>' ? padding : (align == '^' ? padding / 2 : 0);
  const auto fill_up = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) out.append(fill, true);
  };
  fill_up(before);
  if (align == '=') {
    out.append(body, 0, num_prefix);
    fill_up(padding);
    out.append(body, num_prefix, body.bytes().size());
    return;
  }
  out.append(body);
  fill_up(padding - before);
}

std::string grouped(const std::string& digits, char separator, size_t group) {
  if (separator == '\0') return digits;
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % group == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string digits_of(uint64_t magnitude, char type) {
  switch (type) {
    case 'x':
      return fmt::format("{:x}", magnitude);
    case 'X':
      return fmt::format("{:X}", magnitude);
    case 'o':
      return fmt::format("{:o}", magnitude);
    case 'b':
      return fmt::format("{:b}", magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

std::string sign_text(bool negative, char sign) {
  if (negative) return "-";
  return sign == '-' ? "" : std::string(1, sign);
}

void append_number(Machine& machine, TextBuilder& out, const FieldSpec& spec, const std::string& prefix,
                   const std::string& digits, bool content) {
  TextBuilder builder;
  builder.append(prefix + digits, !content);
  append_padded(machine, out, spec, builder.take(), '>', prefix.size());
}

std::string real_digits(double magnitude, char type, int64_t precision) {
  const auto digits = static_cast<int>(std::min(precision < 0 ? 6 : precision, kMaxPrecision));
  switch (type) {
    case 'e':
      return fmt::format("{:.{}e}", magnitude, digits);
    case 'E':
      return fmt::format("{:.{}E}", magnitude, digits);
    case 'g':
      return fmt::format("{:.{}g}", magnitude, digits);
    case 'G':
      return fmt::format("{:.{}G}", magnitude, digits);
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, digits);
    case '\0':
      if (precision < 0) return float_text(magnitude);
      return fmt::format("{:.{}g}", magnitude, std::max(digits, 1));
    default:
      return fmt::format("{:.{}f}", magnitude, digits);
  }
}

bool is_integer_type(char type) {
  return type != '\0' && std::string_view("dxXobnc").find(type) != std::string_view::npos;
}

}  // namespace

int64_t read_number(Machine& machine, std::string_view text, size_t& pos) {
  int64_t number = -1;
  const auto result = std::from_chars(text.data() + pos, text.data() + text.size(), number);
  if (pos >= text.size() || text[pos] == '-' || result.ptr == text.data() + pos) return -1;
  if (result.ec != std::errc()) machine.fail("a number in a format string is too large");
  pos = static_cast<size_t>(result.ptr - text.data());
  return number;
}

FieldSpec read_field_spec(Machine& machine, std::string_view text) {
  FieldSpec spec;
  size_t pos = 0;
  read_align(spec, text, pos);
  const auto take = [&](std::string_view any) {
    return pos < text.size() && any.find(text[pos]) != any.npos;
  };
  if (take("+- ")) spec.sign = text[pos++];
  if (take("#")) spec.alternate = ++pos > 0;
  if (take("0")) spec.zero = ++pos > 0;
  spec.width = std::max<int64_t>(read_number(machine, text, pos), 0);
  if (take(",_")) spec.grouping = text[pos++];
  if (take(".")) {
    ++pos;
    spec.precision = read_number(machine, text, pos);
    if (spec.precision < 0) machine.fail("a precision in a format string has no digits after its point");
  }
  if (pos < text.size()) spec.type = text[pos++];
  if (pos < text.size()) machine.fail("a format spec is invalid");
  return spec;
}

void append_integer(Machine& machine, TextBuilder& out, const FieldSpec& spec, const Value& value) {
  const int64_t number = value.integer();
  const uint64_t magnitude = number < 0 ? ~static_cast<uint64_t>(number) + 1 : static_cast<uint64_t>(number);
  std::string digits = digits_of(magnitude, spec.type);
  if (spec.precision > 0 && digits.size() < static_cast<size_t>(std::min(spec.precision, kMaxPrecision))) {
    digits.insert(0, static_cast<size_t>(std::min(spec.precision, kMaxPrecision)) - digits.size(), '0');
  }
  std::string prefix = sign_text(number < 0, spec.sign);
  if (spec.alternate && (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b')) {
    prefix += std::string("0") + spec.type;
  }
  append_number(machine, out, spec, prefix, grouped(digits, spec.grouping, spec.type == 'x' ? 4 : 3),
                value.is_content());
}

void append_real(Machine& machine, TextBuilder& out, const FieldSpec& spec, const Value& value) {
  const double number = value.number();
  std::string digits = real_digits(std::fabs(number), spec.type, spec.precision);
  if (spec.grouping != '\0') {
    const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
    digits = grouped(digits.substr(0, whole), spec.grouping, 3) + digits.substr(whole);
  }
  append_number(machine, out, spec, sign_text(std::signbit(number), spec.sign), digits, value.is_content());
}

void append_text(Machine& machine, TextBuilder& out, const FieldSpec& spec, const Text& text) {
  if (spec.precision < 0 || static_cast<uint64_t>(spec.precision) >= text.num_chars()) {
    return append_padded(machine, out, spec, text, '<', 0);
  }
  TextBuilder builder;
  builder.append(text, 0, text.byte_offset(static_cast<size_t>(spec.precision)));
  append_padded(machine, out, spec, builder.take(), '<', 0);
}

void append_field(Machine& machine, TextBuilder& out, const FieldSpec& spec, const Value& value) {
  const bool real_type =
      spec.type != '\0' && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  if (value.is_number() && !(value.is_boolean() && spec.type == '\0')) {
    if (value.is_integer() && !real_type && (spec.type == '\0' || is_integer_type(spec.type))) {
      return append_integer(machine, out, spec, value);
    }
    if (value.is_real() ? (real_type || spec.type == '\0') : real_type) {
      return append_real(machine, out, spec, value);
    }
  } else if (spec.type == '\0' || spec.type == 's') {
    return append_text(machine, out, spec, str_of(machine, value).text());
  }
  machine.fail("format type '{}' does not apply to {}", spec.type, type_name(value));
}

}  // namespace quire::chat
