// Filters of chat templates on texts and numbers.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "core/base/utf8.h"
#include "core/chat/compare.h"
#include "core/chat/filters.h"
#include "core/chat/format_text.h"
#include "core/chat/methods.h"
#include "core/chat/operators.h"
#include "core/chat/parameters.h"
#include "core/chat/print.h"
#include "core/chat/text_operations.h"

namespace quire::chat {
namespace {

// Returns the subject of a filter as a text.
Value subject_text(Machine& machine, const Parameters& p) {
  return str_of(machine, p[0]);
}

// --- Text filters

template <CaseChange Change>
Value change_case_of(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"s"}, 1);
  return in_case(machine, subject_text(machine, p).text(), Change);
}

Value capitalize(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"s"}, 1);
  return capitalized(machine, subject_text(machine, p).text());
}

Value title(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"s"}, 1);
  return titled(machine, subject_text(machine, p).text(), TitleWords::spaces);
}

Value trim(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "chars"}, 1);
  const Text* chars = p.is_none(1) ? nullptr : p.text(1).get();
  return stripped(machine, subject_text(machine, p).text_ref(), {}, chars);
}

Value replace(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"s", "old", "new", "count"}, 3);
  const Value from = str_of(machine, p[1]);
  const Value to = str_of(machine, p[2]);
  return replaced(machine, subject_text(machine, p).text(), from.text(), to.text(),
                  p.is_none(3) ? -1 : p.integer(3));
}

Value string(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"object"}, 1);
  return subject_text(machine, p);
}

Value safe(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value"}, 1);
  TextBuilder builder;
  append_str(machine, builder, p[0]);
  return machine.text(builder, true);
}

Value escape(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value"}, 1);
  return escape_markup(machine, p[0]);
}

Value forceescape(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value"}, 1);
  TextBuilder builder;
  append_str(machine, builder, p[0]);
  return escape_markup(machine, machine.text(builder));
}

Value center(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "width"}, 1);
  Arguments for_method{{subject_text(machine, p), Value(p.integer(1, 80))}, {}};
  return find_text_method("center")(machine, for_method);
}

Value format(Machine& machine, Arguments& arguments) {
  if (arguments.positional.empty()) machine.fail("format takes a string");
  const Value text = str_of(machine, arguments.positional.front());
  arguments.positional.erase(arguments.positional.begin());
  if (arguments.named.empty()) {
    return format_percent(machine, text, Value(machine.make_list(std::move(arguments.positional), true)));
  }
  if (!arguments.positional.empty()) machine.fail("format takes positional or named arguments, not both");
  Dict* dict = machine.make<Dict>();
  for (auto& [name, value] : arguments.named) dict->set(machine, machine.text(name), std::move(value));
  return format_percent(machine, text, Value(dict));
}

Value indent(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"s", "width", "first", "blank"}, 1);
  const bool blank = p.flag(3, false);
  TextRef space = p.has(1) && p[1].is_text() ? p.text(1) : nullptr;
  if (space == nullptr) {
    const int64_t width = std::max<int64_t>(p.integer(1, 4), 0);
    machine.check_text_bytes(static_cast<uint64_t>(width));
    space = machine.text(std::string(static_cast<size_t>(width), ' ')).text_ref();
  }
  const std::vector<Value> lines =
      lines_of(machine, join_texts(machine, Value(p.text(0)), machine.text("\n")).text_ref(), false);
  TextBuilder builder;
  for (size_t i = 0; i < lines.size(); ++i) {
    machine.check_text_bytes(builder.num_bytes() + space->bytes().size());
    if (i > 0) builder.append("\n", true);
    const bool is_first = i == 0;
    const bool wanted = is_first ? p.flag(2, false) : (blank || !lines[i].text().bytes().empty());
    if (wanted) builder.append(*space);
    builder.append(lines[i].text());
  }
  return machine.text(builder, p[0].text().is_markup());
}

Value truncate(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"s", "length", "killwords", "end", "leeway"}, 1);
  const Value self = subject_text(machine, p);
  const Text& text = self.text();
  const TextRef end = p.has(3) ? p.text(3) : make_text("...", true);
  const int64_t length = p.integer(1, 255);
  const int64_t leeway = p.is_none(4) ? 5 : p.integer(4);
  const int64_t kept = length - static_cast<int64_t>(end->num_chars());
  if (kept < 0 || leeway < 0) machine.fail("truncate: length must be at least the length of end");
  if (static_cast<int64_t>(text.num_chars()) <= length ||
      static_cast<int64_t>(text.num_chars()) - length <= leeway) {
    return self;
  }
  size_t cut = text.byte_offset(static_cast<size_t>(kept));
  if (!p.flag(2, false) && cut > 0) {
    const size_t blank = std::string_view(text.bytes()).substr(0, cut).rfind(' ');
    if (blank != std::string::npos) cut = blank;
  }
  TextBuilder builder;
  builder.append(text, 0, cut);
  builder.append(*end);
  return machine.text(builder, text.is_markup());
}

Value wordcount(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"s"}, 1);
  const Value self = subject_text(machine, p);
  const std::string& bytes = self.text().bytes();
  machine.step(bytes.size() / 8);
  int64_t num_words = 0;
  bool in_word = false;
  for (size_t pos = 0; pos < bytes.size();) {
    const Utf8Char next = decode_utf8(bytes, pos);
    const bool is_word = is_word_char(next.code_point);
    if (is_word && !in_word) ++num_words;
    in_word = is_word;
    pos += next.length;
  }
  return Value(num_words);
}

Value urlencode(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value"}, 1);
  const Value self = subject_text(machine, p);
  if (p[0].object() != nullptr) machine.fail("urlencode of {} is not supported", type_name(p[0]));
  const std::string& bytes = self.text().bytes();
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~/";
  TextBuilder builder;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (kPlain.find(bytes[i]) != std::string_view::npos) {
      builder.append(self.text(), i, i + 1);
    } else {
      builder.append_changed(self.text(), i, fmt::format("%{:02X}", static_cast<unsigned char>(bytes[i])));
    }
  }
  return machine.text(builder);
}

Value filesizeformat(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "binary"}, 1);
  if (!p[0].is_number()) machine.fail("filesizeformat takes a number, not {}", type_name(p[0]));
  const bool binary = p.flag(1, false);
  const double base = binary ? 1024 : 1000;
  double size = p[0].number();
  if (size == 1) return machine.text("1 Byte", !p[0].is_content());
  if (size < base) return machine.text(fmt::format("{:.0f} Bytes", std::trunc(size)), !p[0].is_content());
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  size_t idx = 0;
  for (size /= base; size >= base && idx + 1 < kPrefixes.size(); size /= base) ++idx;
  const char prefix = binary && idx == 0 ? 'K' : kPrefixes[idx];
  return machine.text(fmt::format("{:.1f} {}{}", size, prefix, binary ? "iB" : "B"), !p[0].is_content());
}

// Same as the function with which transformers replaces Jinja's tojson.
Value tojson(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style;
  style.ensure_ascii = p.flag(1, false);
  style.sort_keys = p.flag(4, false);
  if (!p.is_none(2)) {
    constexpr int64_t kMaxIndent = 1024;
    style.has_indent = true;
    style.item_separator = ",";
    style.indent =
        p[2].is_text()
            ? p.text(2)->bytes()
            : std::string(static_cast<size_t>(std::clamp<int64_t>(p.integer(2), 0, kMaxIndent)), ' ');
  }
  if (!p.is_none(3)) {
    const std::vector<Value> separators = list_of(machine, p[3]);
    if (separators.size() != 2 || !separators[0].is_text() || !separators[1].is_text()) {
      machine.fail("tojson: separators must be two strings");
    }
    style.item_separator = separators[0].text().bytes();
    style.key_separator = separators[1].text().bytes();
  }
  TextBuilder builder;
  append_json(machine, builder, p[0], style);
  return machine.text(builder);
}

// --- Number filters

Value absolute(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"x"}, 1);
  if (p[0].is_undefined()) machine.fail_undefined(p[0]);
  if (!p[0].is_number()) machine.fail("abs takes a number, not {}", type_name(p[0]));
  if (p[0].is_real()) return Value(std::fabs(p[0].number())).as_content(p[0].is_content());
  const Value number = Value(p[0].integer()).as_content(p[0].is_content());
  return number.integer() < 0 ? apply_unary(machine, UnaryOp::minus, number) : number;
}

std::string plain_digits(std::string_view text) {
  text.remove_prefix(leading_space(text));
  text.remove_suffix(trailing_space(text));
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between =
        text[i] == '_' && i > 0 && i + 1 < text.size() && text[i - 1] != '_' && text[i + 1] != '_';
    if (!between) digits += text[i];
  }
  return digits;
}

bool parse_whole(std::string_view text, int64_t base, int64_t& out) {
  std::string digits = plain_digits(text);
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.erase(0, 1);
  const std::string prefix = digits.substr(0, 2);
  const auto is_prefix = [&](const char* small, const char* large) {
    return prefix == small || prefix == large;
  };
  if ((base == 16 && is_prefix("0x", "0X")) || (base == 8 && is_prefix("0o", "0O")) ||
      (base == 2 && is_prefix("0b", "0B"))) {
    digits.erase(0, 2);
  }
  if (digits.empty() || digits[0] == '-' || base < 2 || base > 36) return false;
  if (negative) digits.insert(0, "-");
  const auto result =
      std::from_chars(digits.data(), digits.data() + digits.size(), out, static_cast<int>(base));
  return result.ec == std::errc() && result.ptr == digits.data() + digits.size();
}

bool parse_real(std::string_view text, double& out) {
  std::string digits = plain_digits(text);
  if (!digits.empty() && digits[0] == '+') digits.erase(0, 1);
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return !digits.empty() && result.ec == std::errc() && result.ptr == digits.data() + digits.size();
}

bool to_real(const Value& value, double& out) {
  if (value.is_number()) return out = value.number(), true;
  return value.is_text() && parse_real(value.text().bytes(), out);
}

Value to_int(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "default", "base"}, 1);
  if (p[0].is_undefined()) machine.fail_undefined(p[0]);
  const bool content = p[0].is_content() || p[0].is_text();
  if (p[0].is_integer()) return Value(p[0].integer()).as_content(content);
  int64_t whole = 0;
  if (p[0].is_text() && parse_whole(p[0].text().bytes(), p.integer(2, 10), whole)) {
    return Value(whole).as_content(content);
  }
  double real = 0;
  if (to_real(p[0], real) && std::fabs(real) < 9.2e18) {
    return Value(static_cast<int64_t>(real)).as_content(content);
  }
  return p.has(1) ? p[1] : Value(int64_t{0});
}

Value to_float(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "default"}, 1);
  if (p[0].is_undefined()) machine.fail_undefined(p[0]);
  double real = 0;
  if (to_real(p[0], real)) return Value(real).as_content(p[0].is_content() || p[0].is_text());
  return p.has(1) ? p[1] : Value(0.0);
}

Value round(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "precision", "method"}, 1);
  if (!p[0].is_number()) machine.fail("round takes a number, not {}", type_name(p[0]));
  const std::string method = p.has(2) ? p.text(2)->bytes() : "common";
  const int64_t precision = std::clamp<int64_t>(p.integer(1, 0), -300, 300);
  const bool content = p[0].is_content();
  if (method == "common") {
    if (p[0].is_integer() && precision >= 0) return Value(p[0].integer()).as_content(content);
    double rounded = 0;
    if (precision >= 0) {
      const std::string digits = fmt::format("{:.{}f}", p[0].number(), static_cast<int>(precision));
      std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
    } else {
      const double unit = std::pow(10.0, static_cast<double>(-precision));
      rounded = std::nearbyint(p[0].number() / unit) * unit;
    }
    if (p[0].is_integer()) return Value(static_cast<int64_t>(rounded)).as_content(content);
    return Value(rounded).as_content(content);
  }
  if (method != "ceil" && method != "floor") machine.fail("round: method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = p[0].number() * unit;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit).as_content(content);
}

constexpr std::array kTextFilters = {
    NamedBuiltin{"capitalize", capitalize},
    NamedBuiltin{"center", center},
    NamedBuiltin{"e", escape},
    NamedBuiltin{"escape", escape},
    NamedBuiltin{"forceescape", forceescape},
    NamedBuiltin{"format", format},
    NamedBuiltin{"indent", indent},
    NamedBuiltin{"lower", change_case_of<CaseChange::lower>},
    NamedBuiltin{"replace", replace},
    NamedBuiltin{"safe", safe},
    NamedBuiltin{"string", string},
    NamedBuiltin{"title", title},
    NamedBuiltin{"tojson", tojson},
    NamedBuiltin{"trim", trim},
    NamedBuiltin{"truncate", truncate},
    NamedBuiltin{"upper", change_case_of<CaseChange::upper>},
    NamedBuiltin{"urlencode", urlencode},
    NamedBuiltin{"wordcount", wordcount},
};

constexpr std::array kNumberFilters = {
    NamedBuiltin{"abs", absolute},   NamedBuiltin{"filesizeformat", filesizeformat},
    NamedBuiltin{"float", to_float}, NamedBuiltin{"int", to_int},
    NamedBuiltin{"round", round},
};

}  // namespace

Builtin find_text_filter(std::string_view name) {
  return find_named(kTextFilters, name);
}

Builtin find_number_filter(std::string_view name) {
  return find_named(kNumberFilters, name);
}

}  // namespace quire::chat
