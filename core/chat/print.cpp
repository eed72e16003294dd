#include "core/chat/print.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "core/base/utf8.h"
#include "core/chat/compare.h"
#include "core/chat/machine.h"
#include "core/chat/unicode.h"

namespace quire::chat {
namespace {

// The shortest digits "d.ddde+xx" of a number, split into digits and exponent.
struct Digits {
  std::string digits;
  int exponent = 0;  // of the first digit
};

Digits shortest_digits(double value) {
  std::array<char, 64> buffer;
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view all(buffer.data(), static_cast<size_t>(result.ptr - buffer.data()));
  const size_t e = all.find('e');
  Digits parts;
  for (const char c : all.substr(0, e)) {
    if (c != '.') parts.digits += c;
  }
  parts.exponent = std::stoi(std::string(all.substr(e + 1)));
  return parts;
}

std::string positive_float_text(double value) {
  Digits parts = shortest_digits(value);
  std::string& digits = parts.digits;
  const int exponent = parts.exponent;
  if (exponent < -4 || exponent >= 16) {
    if (digits.size() > 1) digits.insert(1, ".");
    return fmt::format("{}e{}{:02}", digits, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto num_whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= num_whole) return digits + std::string(num_whole - digits.size(), '0') + ".0";
  return digits.insert(num_whole, ".");
}

std::string scalar_text(const Value& value) {
  switch (value.kind()) {
    case Kind::boolean:
      return value.boolean() ? "True" : "False";
    case Kind::integer:
      return std::to_string(value.integer());
    case Kind::real:
      return float_text(value.number());
    default:
      return "None";
  }
}

// Appends a code point of a quoted string, escaped if necessary.
void append_escaped(TextBuilder& out, const Text& text, size_t begin, const Utf8Char& next, char quote) {
  const uint32_t c = next.code_point;
  const auto put = [&](std::string_view bytes) { out.append_changed(text, begin, bytes); };
  if (c == '\n') return put("\\n");
  if (c == '\r') return put("\\r");
  if (c == '\t') return put("\\t");
  if (c == '\\') return put("\\\\");
  if (c == static_cast<unsigned char>(quote)) return put(std::string{'\\', quote});
  if (is_printable(c)) return out.append(text, begin, begin + next.length);
  if (c <= 0xff) return put(fmt::format("\\x{:02x}", c));
  if (c <= 0xffff) return put(fmt::format("\\u{:04x}", c));
  put(fmt::format("\\U{:08x}", c));
}

void append_quoted(Machine& machine, TextBuilder& out, const Text& text) {
  const std::string& bytes = text.bytes();
  machine.step(bytes.size() / 8);
  const bool has_single = bytes.find('\'') != std::string::npos;
  const bool has_double = bytes.find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  const bool from_template = !text.runs().empty() && is_from_template(text, 0);
  out.append(std::string(1, quote), from_template);
  for (size_t pos = 0; pos < bytes.size();) {
    const Utf8Char next = decode_utf8(bytes, pos);
    append_escaped(out, text, pos, next, quote);
    pos += next.length;
  }
  out.append(std::string(1, quote), from_template);
}

// Printer of repr(). Brackets and commas of a list or a dict have the origin of that list or dict.
class Printer {
 public:
  Printer(Machine& machine, TextBuilder& out) : machine_(machine), out_(out) {}

  void repr(const Value& value) {
    const Machine::Level level(machine_);
    machine_.step();
    machine_.check_text_bytes(out_.num_bytes());
    if (value.is_undefined()) return put("Undefined", value);
    if (value.is_text()) return text(value);
    if (value.object() == nullptr) return put(scalar_text(value), value);
    object(value);
  }

 private:
  void put(std::string_view bytes, const Value& owner) { out_.append(bytes, !owner.is_content()); }

  void text(const Value& value) {
    if (value.text().is_markup()) put("Markup(", value);
    append_quoted(machine_, out_, value.text());
    if (value.text().is_markup()) put(")", value);
  }

  void object(const Value& value) {
    if (const auto* list = value.as<List>()) return sequence(*list, value);
    if (const auto* dict = value.as<Dict>()) return mapping(*dict, value);
    if (const auto* view = value.as<DictView>()) return dict_view(*view, value);
    if (const auto* range = value.as<Range>()) return this->range(*range, value);
    if (const auto* space = value.as<Namespace>()) {
      put("<Namespace ", value);
      mapping(space->members, value);
      return put(">", value);
    }
    put("<", value);
    put(type_name(value), value);
    put(">", value);
  }

  void items(const std::vector<Value>& all, const Value& owner) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (i > 0) put(", ", owner);
      repr(all[i]);
    }
  }

  void sequence(const List& list, const Value& owner) {
    put(list.is_tuple ? "(" : "[", owner);
    items(list.items, owner);
    if (list.is_tuple && list.items.size() == 1) put(",", owner);
    put(list.is_tuple ? ")" : "]", owner);
  }

  void mapping(const Dict& dict, const Value& owner) {
    put("{", owner);
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) put(", ", owner);
      repr(dict.entries[i].key);
      put(": ", owner);
      repr(dict.entries[i].value);
    }
    put("}", owner);
  }

  void dict_view(const DictView& view, const Value& owner) {
    static constexpr std::array<std::string_view, 3> kNames = {"dict_keys(", "dict_values(", "dict_items("};
    put(kNames[static_cast<size_t>(view.part)], owner);
    put("[", owner);
    items(list_of(machine_, owner), owner);
    put("])", owner);
  }

  void range(const Range& range, const Value& owner) {
    const int64_t stop = range.start + range.size * range.step;
    put(fmt::format("range({}, {}{})", range.start, stop,
                    range.step == 1 ? std::string() : fmt::format(", {}", range.step)),
        owner);
  }

  Machine& machine_;
  TextBuilder& out_;
};

class JsonPrinter {
 public:
  JsonPrinter(Machine& machine, TextBuilder& out, const JsonStyle& style)
      : machine_(machine), out_(out), style_(style) {}

  void value(const Value& value) {
    const Machine::Level level(machine_);
    machine_.step();
    machine_.check_text_bytes(out_.num_bytes());
    if (value.is_text()) return quoted(value.text());
    if (const auto* list = value.as<List>()) return array(*list, value);
    if (const auto* dict = value.as<Dict>()) return object(*dict, value);
    if (value.is_undefined() || value.object() != nullptr) {
      machine_.fail("{} cannot be converted to JSON", type_name(value));
    }
    put(scalar(value), value);
  }

 private:
  void put(std::string_view bytes, const Value& owner) { out_.append(bytes, !owner.is_content()); }

  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_boolean()) return value.boolean() ? "true" : "false";
    if (value.is_integer()) return std::to_string(value.integer());
    const double number = value.number();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_text(number);
  }

  void line(const Value& owner) {
    if (!style_.has_indent) return;
    put("\n", owner);
    machine_.check_text_bytes(out_.num_bytes() + num_levels_ * style_.indent.size());
    for (size_t i = 0; i < num_levels_; ++i) put(style_.indent, owner);
  }

  void array(const List& list, const Value& owner) {
    if (list.items.empty()) return put("[]", owner);
    put("[", owner);
    ++num_levels_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) put(style_.item_separator, owner);
      line(owner);
      value(list.items[i]);
    }
    --num_levels_;
    line(owner);
    put("]", owner);
  }

  std::vector<const Dict::Entry*> ordered(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const Dict::Entry* a, const Dict::Entry* b) {
        return is_less(machine_, a->key, b->key);
      });
    }
    return entries;
  }

  void object(const Dict& dict, const Value& owner) {
    if (dict.entries.empty()) return put("{}", owner);
    put("{", owner);
    ++num_levels_;
    bool first = true;
    for (const Dict::Entry* entry : ordered(dict)) {
      if (!first) put(style_.item_separator, owner);
      first = false;
      line(owner);
      key(entry->key);
      put(style_.key_separator, owner);
      value(entry->value);
    }
    --num_levels_;
    line(owner);
    put("}", owner);
  }

  void key(const Value& key) {
    if (key.is_text()) return quoted(key.text());
    if (key.is_undefined() || key.object() != nullptr) {
      machine_.fail("{} cannot be a key in JSON", type_name(key));
    }
    put('"' + scalar(key) + '"', key);
  }

  void quoted(const Text& text) {
    const std::string& bytes = text.bytes();
    machine_.step(bytes.size() / 16);
    const bool from_template = !text.runs().empty() && is_from_template(text, 0);
    out_.append("\"", from_template);
    size_t done = 0;
    for (size_t pos = 0; pos < bytes.size();) {
      const auto byte = static_cast<unsigned char>(bytes[pos]);
      const bool plain = byte >= 0x20 && byte != '"' && byte != '\\' && (byte < 0x7f || !style_.ensure_ascii);
      if (plain) {
        ++pos;
        continue;
      }
      out_.append(text, done, pos);
      const Utf8Char next = decode_utf8(bytes, pos);
      out_.append_changed(text, pos, escape(next.code_point));
      pos += next.length;
      done = pos;
    }
    out_.append(text, done, bytes.size());
    out_.append("\"", from_template);
  }

  static std::string escape(uint32_t c) {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
      default:
        break;
    }
    if (c <= 0xffff) return fmt::format("\\u{:04x}", c);
    return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((c - 0x10000) >> 10),
                       0xdc00 + ((c - 0x10000) & 0x3ff));
  }

  Machine& machine_;
  TextBuilder& out_;
  const JsonStyle& style_;
  size_t num_levels_ = 0;
};

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (value == 0.0) return std::signbit(value) ? "-0.0" : "0.0";
  return value < 0 ? "-" + positive_float_text(-value) : positive_float_text(value);
}

void append_str(Machine& machine, TextBuilder& out, const Value& value) {
  if (value.is_undefined()) return;
  if (value.is_text()) {
    out.append(value.text());
  } else {
    append_repr(machine, out, value);
  }
}

void append_repr(Machine& machine, TextBuilder& out, const Value& value) {
  Printer(machine, out).repr(value);
}

Value str_of(Machine& machine, const Value& value) {
  if (value.is_text()) return value;
  TextBuilder builder;
  append_str(machine, builder, value);
  return machine.text(builder);
}

void append_json(Machine& machine, TextBuilder& out, const Value& value, const JsonStyle& style) {
  JsonPrinter(machine, out, style).value(value);
}

}  // namespace quire::chat
