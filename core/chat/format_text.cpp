#include "core/chat/format_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "core/base/utf8.h"
#include "core/chat/builtins.h"
#include "core/chat/compare.h"
#include "core/chat/machine.h"
#include "core/chat/operators.h"
#include "core/chat/print.h"

namespace quire::chat {
namespace {

constexpr int64_t kMaxPrecision = 400;  // digits after the decimal point; a double has no more that matter

struct FieldSpec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '-';    // '-', '+' or a space
  bool alternate = false;
  bool zero = false;
  char grouping = '\0';  // , or _
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};

// Reads the number at `pos` and advances `pos` past it; returns -1 if there is none.
int64_t read_number(Machine& machine, std::string_view text, size_t& pos) {
  int64_t number = -1;
  const auto result = std::from_chars(text.data() + pos, text.data() + text.size(), number);
  if (pos >= text.size() || text[pos] == '-' || result.ptr == text.data() + pos) return -1;
  if (result.ec != std::errc()) machine.fail("a number in a format string is too large");
  pos = static_cast<size_t>(result.ptr - text.data());
  return number;
}

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

// Reads a format spec of str.format: the part of a field after the colon.
FieldSpec read_spec(Machine& machine, std::string_view text) {
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

bool is_integer_type(char type) {
  return type != '\0' && std::string_view("dxXobnc").find(type) != std::string_view::npos;
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

// --- str.format

class BraceFormat {
 public:
  BraceFormat(Machine& machine, const Text& format, const Arguments& arguments)
      : machine_(machine), format_(format), bytes_(format.bytes()), arguments_(arguments) {}

  Value run(bool is_markup) {
    TextBuilder out;
    size_t pos = 0;
    while (pos < bytes_.size()) {
      machine_.step();
      machine_.check_text_bytes(out.num_bytes());
      const size_t brace = std::min(bytes_.find_first_of("{}", pos), bytes_.size());
      out.append(format_, pos, brace);
      pos = brace;
      if (pos == bytes_.size()) break;
      if (pos + 1 < bytes_.size() && bytes_[pos + 1] == bytes_[pos]) {
        out.append(format_, pos, pos + 1);
        pos += 2;
      } else if (bytes_[pos] == '}') {
        machine_.fail("single '}}' in a format string");
      } else {
        pos = append_replacement(out, pos + 1);
      }
    }
    return machine_.text(out, is_markup);
  }

 private:
  // Appends the field that begins at `pos`; returns the position after its closing brace.
  size_t append_replacement(TextBuilder& out, size_t pos) {
    size_t end = pos;
    for (int depth = 1; end < bytes_.size(); ++end) {
      if (bytes_[end] == '{') ++depth;
      if (bytes_[end] == '}' && --depth == 0) break;
    }
    if (end >= bytes_.size()) machine_.fail("a format string has an unclosed '{{'");
    const std::string_view field = std::string_view(bytes_).substr(pos, end - pos);
    const size_t name_end = std::min(field.find_first_of("!:"), field.size());
    Value value = look_up(field.substr(0, name_end));
    std::string_view rest = field.substr(name_end);
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':'))
        machine_.fail("a field of a format string is invalid");
      value = converted(value, rest[1]);
      rest.remove_prefix(2);
    }
    if (!rest.empty()) rest.remove_prefix(1);
    append_field(machine_, out, read_spec(machine_, filled_in(rest)), value);
    return end + 1;
  }

  // Fills in the fields of a format spec; those fields cannot contain further fields.
  std::string filled_in(std::string_view spec) {
    std::string out;
    for (size_t pos = 0; pos < spec.size();) {
      if (spec[pos] != '{') {
        out += spec[pos++];
        continue;
      }
      const size_t end = spec.find('}', pos);
      if (end == std::string_view::npos) machine_.fail("a format string has an unclosed '{{'");
      out += str_of(machine_, look_up(spec.substr(pos + 1, end - pos - 1))).text().bytes();
      machine_.check_text_bytes(out.size());
      pos = end + 1;
    }
    return out;
  }

  Value converted(const Value& value, char conversion) {
    if (conversion == 's') return str_of(machine_, value);
    if (conversion != 'r' && conversion != 'a') machine_.fail("a format string has an unknown conversion");
    TextBuilder builder;
    append_repr(machine_, builder, value);
    return machine_.text(builder);
  }

  Value look_up(std::string_view path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, end));
    size_t pos = end;
    while (pos < path.size()) value = member(value, path, pos);
    return value;
  }

  Value member(const Value& value, std::string_view path, size_t& pos) {
    if (path[pos] == '.') {
      const size_t end = std::min(path.find_first_of(".[", pos + 1), path.size());
      const TextRef name = make_text(path.substr(pos + 1, end - pos - 1), true);
      pos = end;
      return attribute_of(machine_, value, name);
    }
    const size_t end = path.find(']', pos);
    if (path[pos] != '[' || end == std::string_view::npos)
      machine_.fail("a field of a format string is invalid");
    const std::string_view key = path.substr(pos + 1, end - pos - 1);
    pos = end + 1;
    size_t after = 0;
    const int64_t number = read_number(machine_, key, after);
    const bool is_number = number >= 0 && after == key.size();
    return item_of(machine_, value, is_number ? Value(number) : Value(make_text(key, true)));
  }

  Value argument(std::string_view name) {
    size_t end = 0;
    int64_t idx = name.empty() ? num_automatic_++ : read_number(machine_, name, end);
    if (idx >= 0 && end == name.size()) {
      if (static_cast<uint64_t>(idx) < arguments_.positional.size()) {
        return arguments_.positional[static_cast<size_t>(idx)];
      }
      machine_.fail("a format string uses more values than are given");
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    machine_.fail("a format string uses '{}', which is not given", printable(name));
  }

  Machine& machine_;
  const Text& format_;
  const std::string& bytes_;
  const Arguments& arguments_;
  int64_t num_automatic_ = 0;
};

// --- The % operator

class PercentFormat {
 public:
  PercentFormat(Machine& machine, const Text& format, const Value& values)
      : machine_(machine), format_(format), bytes_(format.bytes()), values_(values) {
    const auto* list = values.as<List>();
    if (list != nullptr && list->is_tuple) tuple_ = list;
    dict_ = values.as<Dict>();
  }

  Value run(bool is_markup) {
    TextBuilder out;
    size_t pos = 0;
    while (pos < bytes_.size()) {
      machine_.step();
      machine_.check_text_bytes(out.num_bytes());
      const size_t percent = std::min(bytes_.find('%', pos), bytes_.size());
      out.append(format_, pos, percent);
      pos = percent;
      if (pos < bytes_.size()) pos = append_conversion(out, pos + 1);
    }
    const bool all_used = tuple_ != nullptr ? idx_ == tuple_->items.size()
                                            : (dict_ != nullptr || idx_ > 0 || values_.as<List>() != nullptr);
    if (!all_used) machine_.fail("a format string does not use all given values");
    return machine_.text(out, is_markup);
  }

 private:
  size_t append_conversion(TextBuilder& out, size_t pos) {
    FieldSpec spec;
    bool named = false;
    Value value;
    if (pos < bytes_.size() && bytes_[pos] == '(') {
      value = named_value(pos);
      named = true;
    }
    pos = read_flags(spec, pos);
    if (pos >= bytes_.size()) machine_.fail("a format string ends inside a conversion");
    spec.type = bytes_[pos];
    if (spec.type == '%') {
      out.append(format_, pos, pos + 1);
    } else {
      append_value(out, spec, named ? value : next_value());
    }
    return pos + 1;
  }

  Value named_value(size_t& pos) {
    const size_t end = bytes_.find(')', pos);
    if (dict_ == nullptr || end == std::string::npos)
      machine_.fail("a format string with names takes a mapping");
    const std::string key = bytes_.substr(pos + 1, end - pos - 1);
    const Value* found = dict_->find(machine_, key);
    if (found == nullptr) machine_.fail("a format string uses '{}', which is not given", printable(key));
    pos = end + 1;
    return *found;
  }

  Value next_value() {
    if (tuple_ == nullptr) {
      if (idx_++ > 0) machine_.fail("a format string uses more values than are given");
      return values_;
    }
    if (idx_ >= tuple_->items.size()) machine_.fail("a format string uses more values than are given");
    return tuple_->items[idx_++];
  }

  int64_t star_or_number(size_t& pos) {
    if (pos < bytes_.size() && bytes_[pos] == '*') {
      ++pos;
      const Value value = next_value();
      if (!value.is_integer()) machine_.fail("the width of a format must be a whole number");
      return value.integer();
    }
    return read_number(machine_, bytes_, pos);
  }

  size_t read_flags(FieldSpec& spec, size_t pos) {
    for (; pos < bytes_.size(); ++pos) {
      const char c = bytes_[pos];
      if (c == '-') {
        spec.align = '<';
      } else if (c == '+' || c == ' ') {
        spec.sign = c;
      } else if (c == '#') {
        spec.alternate = true;
      } else if (c == '0') {
        spec.zero = true;
      } else {
        break;
      }
    }
    if (spec.align == '\0' && !spec.zero) spec.align = '>';
    spec.width = std::max<int64_t>(star_or_number(pos), 0);
    if (pos < bytes_.size() && bytes_[pos] == '.') {
      ++pos;
      spec.precision = std::max<int64_t>(star_or_number(pos), 0);
    }
    return pos;
  }

  void append_value(TextBuilder& out, FieldSpec spec, const Value& value) {
    switch (spec.type) {
      case 's':
        return append_padded_text(out, spec, str_of(machine_, value));
      case 'r':
      case 'a': {
        TextBuilder builder;
        append_repr(machine_, builder, value);
        return append_padded_text(out, spec, machine_.text(builder));
      }
      case 'd':
      case 'i':
      case 'u':
        return append_whole(out, spec, value);
      case 'x':
      case 'X':
      case 'o':
        require_number(value.is_integer(), value);
        return append_integer(machine_, out, spec, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        require_number(value.is_number(), value);
        return append_real(machine_, out, spec, value);
      default:
        machine_.fail("a format string has an unknown conversion");
    }
  }

  void append_padded_text(TextBuilder& out, FieldSpec spec, const Value& text) {
    spec.zero = false;
    if (spec.align == '\0') spec.align = '>';
    append_text(machine_, out, spec, text.text());
  }

  void append_whole(TextBuilder& out, const FieldSpec& spec, const Value& value) {
    require_number(value.is_number() && (value.is_integer() || std::fabs(value.number()) < 9e18), value);
    const auto whole = value.is_integer() ? value.integer() : static_cast<int64_t>(value.number());
    append_integer(machine_, out, spec, Value(whole).as_content(value.is_content()));
  }

  void require_number(bool holds, const Value& value) {
    if (!holds) machine_.fail("a format conversion takes a number, not {}", type_name(value));
  }

  Machine& machine_;
  const Text& format_;
  const std::string& bytes_;
  Value values_;
  const List* tuple_ = nullptr;
  const Dict* dict_ = nullptr;
  size_t idx_ = 0;
};

}  // namespace

Value format_percent(Machine& machine, const Value& format, const Value& values) {
  const bool is_markup = format.text().is_markup();
  return PercentFormat(machine, format.text(), values).run(is_markup);
}

Value format_braces(Machine& machine, const Value& format, const Arguments& arguments) {
  const bool is_markup = format.text().is_markup();
  return BraceFormat(machine, format.text(), arguments).run(is_markup);
}

}  // namespace quire::chat
