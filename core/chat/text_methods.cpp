// Long file: the methods of str, in one table.
#include <algorithm>
#include <array>

#include "core/base/utf8.h"
#include "core/chat/compare.h"
#include "core/chat/format_text.h"
#include "core/chat/methods.h"
#include "core/chat/operators.h"
#include "core/chat/parameters.h"
#include "core/chat/text_operations.h"

namespace quire::chat {
namespace {

// --- Case and whitespace

template <CaseChange Change>
Value change_case_of(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self"}, 1);
  return in_case(machine, p[0].text(), Change);
}

Value capitalize(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self"}, 1);
  return capitalized(machine, p[0].text());
}

Value title(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self"}, 1);
  return titled(machine, p[0].text(), TitleWords::letters);
}

template <bool Begin, bool End>
Value strip(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "chars"}, 1);
  const Text* chars = p.is_none(1) ? nullptr : p.text(1).get();
  return stripped(machine, p.text(0), {Begin, End}, chars);
}

Value removeprefix(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "prefix"}, 2);
  const std::string& bytes = p[0].text().bytes();
  const std::string& prefix = p.text(1)->bytes();
  const bool has = bytes.compare(0, prefix.size(), prefix) == 0;
  return part_of(machine, p.text(0), has ? prefix.size() : 0, bytes.size());
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

Value removesuffix(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "suffix"}, 2);
  const std::string& bytes = p[0].text().bytes();
  const std::string& suffix = p.text(1)->bytes();
  return part_of(machine, p.text(0), 0, bytes.size() - (ends_with(bytes, suffix) ? suffix.size() : 0));
}

// --- Search

// The byte range of a part given in characters, like a slice; begin > end if it is empty and out of range.
struct Bounds {
  size_t begin = 0;
  size_t end = 0;
};

Bounds bounds_of(const Parameters& p, size_t first) {
  const Text& text = p[0].text();
  const auto num_chars = static_cast<int64_t>(text.num_chars());
  const auto place = [&](size_t idx, int64_t fallback) {
    if (p.is_none(idx)) return fallback;
    const int64_t wanted = p.integer(idx);
    return wanted < 0 ? std::max<int64_t>(wanted + num_chars, 0) : wanted;
  };
  const int64_t begin = place(first, 0);
  const int64_t end = std::min(place(first + 1, num_chars), num_chars);
  if (begin > num_chars || begin > end) return {1, 0};
  return {text.byte_offset(static_cast<size_t>(begin)), text.byte_offset(static_cast<size_t>(end))};
}

using AtEdge = bool (*)(std::string_view text, std::string_view part);

bool any_at_edge(Machine& machine, const Parameters& p, AtEdge at_edge) {
  const Bounds bounds = bounds_of(p, 2);
  if (bounds.begin > bounds.end) return false;
  const std::string_view text =
      std::string_view(p[0].text().bytes()).substr(bounds.begin, bounds.end - bounds.begin);
  const auto* choices = p[1].as<List>();
  if (choices == nullptr || !choices->is_tuple) return at_edge(text, p.text(1)->bytes());
  return std::any_of(choices->items.begin(), choices->items.end(), [&](const Value& choice) {
    machine.step();
    if (!choice.is_text()) machine.fail("expected a str, not {}", type_name(choice));
    return at_edge(text, choice.text().bytes());
  });
}

Value startswith(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "prefix", "start", "end"}, 2);
  return Value(any_at_edge(machine, p, [](std::string_view text, std::string_view part) {
    return text.substr(0, part.size()) == part;
  }));
}

Value endswith(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "suffix", "start", "end"}, 2);
  return Value(any_at_edge(machine, p, ends_with));
}

constexpr int64_t kNotFound = -1;

// Returns the position of a part, in characters.
int64_t find_part(Machine& machine, const Parameters& p, bool from_end) {
  const Text& text = p[0].text();
  const std::string& part = p.text(1)->bytes();
  const Bounds bounds = bounds_of(p, 2);
  if (bounds.begin > bounds.end) return kNotFound;
  machine.step_bytes(text.bytes().size());
  const std::string_view area =
      std::string_view(text.bytes()).substr(bounds.begin, bounds.end - bounds.begin);
  const size_t at = from_end ? area.rfind(part) : area.find(part);
  if (at == std::string_view::npos) return kNotFound;
  return static_cast<int64_t>(text.char_index(bounds.begin + at));
}

template <bool FromEnd, bool MustFind>
Value find(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "sub", "start", "end"}, 2);
  const int64_t at = find_part(machine, p, FromEnd);
  if (MustFind && at == kNotFound) machine.fail("the string has no such substring");
  return Value(at);
}

Value count(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "sub", "start", "end"}, 2);
  const Bounds bounds = bounds_of(p, 2);
  if (bounds.begin > bounds.end) return Value(int64_t{0});
  const std::string_view area =
      std::string_view(p[0].text().bytes()).substr(bounds.begin, bounds.end - bounds.begin);
  const std::string& part = p.text(1)->bytes();
  machine.step_bytes(area.size());
  if (part.empty()) return Value(static_cast<int64_t>(count_chars(area)) + 1);
  int64_t num = 0;
  for (size_t at = area.find(part); at != std::string_view::npos; at = area.find(part, at + part.size()))
    ++num;
  return Value(num);
}

// --- Replacing and splitting

Value replace(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "old", "new", "count"}, 3);
  if (!p[0].text().is_markup()) {
    return replaced(machine, p[0].text(), *p.text(1), *p.text(2), p.integer(3, -1));
  }
  const Value from = escape_markup(machine, p[1]);
  const Value to = escape_markup(machine, p[2]);
  return replaced(machine, p[0].text(), from.text(), to.text(), p.integer(3, -1));
}

std::vector<Value> split_at_space(Machine& machine, const TextRef& text, int64_t max_splits) {
  const std::string& bytes = text->bytes();
  std::vector<Value> parts;
  size_t pos = leading_space(bytes);
  while (pos < bytes.size()) {
    machine.step();
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) {
      parts.push_back(part_of(machine, text, pos, bytes.size() - trailing_space(bytes)));
      return parts;
    }
    size_t end = pos;
    while (end < bytes.size() && !is_space(decode_utf8(bytes, end).code_point))
      end += decode_utf8(bytes, end).length;
    parts.push_back(part_of(machine, text, pos, end));
    pos = end + leading_space(std::string_view(bytes).substr(end));
  }
  return parts;
}

std::vector<Value> split_at_space_from_end(Machine& machine, const TextRef& text, int64_t max_splits) {
  const std::string_view bytes = text->bytes();
  std::vector<Value> parts;
  size_t end = bytes.size() - trailing_space(bytes);
  while (end > 0) {
    machine.step();
    size_t begin = end;
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) == max_splits) {
      begin = std::min(leading_space(bytes), end);
    } else {
      while (begin > 0 && !is_space(decode_utf8(bytes, char_start_before(bytes, begin)).code_point)) {
        begin = char_start_before(bytes, begin);
      }
    }
    if (begin == end) break;
    parts.push_back(part_of(machine, text, begin, end));
    end = begin - trailing_space(bytes.substr(0, begin));
    if (max_splits >= 0 && static_cast<int64_t>(parts.size()) > max_splits) break;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Value> split_at(Machine& machine, const TextRef& text, const std::string& separator,
                            int64_t max_splits) {
  const std::string& bytes = text->bytes();
  machine.step_bytes(bytes.size());
  std::vector<Value> parts;
  size_t begin = 0;
  while (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) {
    const size_t end = bytes.find(separator, begin);
    if (end == std::string::npos) break;
    machine.step();
    parts.push_back(part_of(machine, text, begin, end));
    begin = end + separator.size();
  }
  parts.push_back(part_of(machine, text, begin, bytes.size()));
  return parts;
}

std::vector<Value> split_at_from_end(Machine& machine, const TextRef& text, const std::string& separator,
                                     int64_t max_splits) {
  const std::string& bytes = text->bytes();
  machine.step_bytes(bytes.size());
  std::vector<Value> parts;
  size_t end = bytes.size();
  while ((max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) && end >= separator.size()) {
    const size_t begin = bytes.rfind(separator, end - separator.size());
    if (begin == std::string::npos) break;
    machine.step();
    parts.push_back(part_of(machine, text, begin + separator.size(), end));
    end = begin;
  }
  parts.push_back(part_of(machine, text, 0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool FromEnd>
Value split(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "sep", "maxsplit"}, 1);
  const int64_t max_splits = p.integer(2, -1);
  if (p.is_none(1)) {
    const auto splitter = FromEnd ? split_at_space_from_end : split_at_space;
    return Value(machine.make_list(splitter(machine, p.text(0), max_splits)));
  }
  const std::string& separator = p.text(1)->bytes();
  if (separator.empty()) machine.fail("empty separator");
  const auto splitter = FromEnd ? split_at_from_end : split_at;
  return Value(machine.make_list(splitter(machine, p.text(0), separator, max_splits)));
}

Value splitlines(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "keepends"}, 1);
  return Value(machine.make_list(lines_of(machine, p.text(0), p.flag(1, false))));
}

template <bool FromEnd>
Value partition(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "sep"}, 2);
  const std::string& bytes = p[0].text().bytes();
  const std::string& separator = p.text(1)->bytes();
  if (separator.empty()) machine.fail("empty separator");
  const size_t at = FromEnd ? bytes.rfind(separator) : bytes.find(separator);
  const Value nothing = machine.text("");
  if (at == std::string::npos) {
    return Value(machine.make_list(
        FromEnd ? std::vector<Value>{nothing, nothing, p[0]} : std::vector<Value>{p[0], nothing, nothing},
        true));
  }
  const size_t end = at + separator.size();
  return Value(machine.make_list({part_of(machine, p.text(0), 0, at), part_of(machine, p.text(0), at, end),
                                  part_of(machine, p.text(0), end, bytes.size())},
                                 true));
}

Value join(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "iterable"}, 2);
  std::vector<Value> items = list_of(machine, p[1]);
  if (p[0].text().is_markup()) {
    for (Value& item : items) item = escape_markup(machine, item);
  }
  return joined(machine, p[0].text(), items);
}

// --- Padding

enum class Align { left, right, center };

template <Align Where>
Value justify(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "width", "fillchar"}, 2);
  const Text& text = p[0].text();
  const TextRef fill = p.has(2) ? p.text(2) : make_text(" ", true);
  if (fill->num_chars() != 1) machine.fail("fillchar must be exactly one character");
  const int64_t padding = std::max<int64_t>(p.integer(1) - static_cast<int64_t>(text.num_chars()), 0);
  machine.check_text_bytes(static_cast<uint64_t>(padding));
  machine.step(static_cast<uint64_t>(padding) / 16);
  int64_t before = Where == Align::right ? padding : 0;
  if (Where == Align::center) before = padding / 2 + (padding & p.integer(1) & 1);
  TextBuilder builder;
  for (int64_t i = 0; i < before; ++i) builder.append(*fill);
  builder.append(text);
  for (int64_t i = before; i < padding; ++i) builder.append(*fill);
  return machine.text(builder, text.is_markup());
}

Value zfill(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "width"}, 2);
  const Text& text = p[0].text();
  const int64_t padding = std::max<int64_t>(p.integer(1) - static_cast<int64_t>(text.num_chars()), 0);
  machine.check_text_bytes(static_cast<uint64_t>(padding));
  const bool has_sign = !text.bytes().empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
  TextBuilder builder;
  builder.append(text, 0, has_sign ? 1 : 0);
  builder.append(std::string(static_cast<size_t>(padding), '0'), true);
  builder.append(text, has_sign ? 1 : 0, text.bytes().size());
  return machine.text(builder, text.is_markup());
}

Value expandtabs(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "tabsize"}, 1);
  const int64_t tab = std::clamp<int64_t>(p.integer(1, 8), 0, 1 << 20);
  const Text& text = p[0].text();
  TextBuilder builder;
  int64_t column = 0;
  for (size_t pos = 0; pos < text.bytes().size();) {
    machine.step();
    machine.check_text_bytes(builder.num_bytes());
    const Utf8Char next = decode_utf8(text.bytes(), pos);
    if (next.code_point == '\t') {
      const int64_t width = tab == 0 ? 0 : tab - column % tab;
      builder.append_changed(text, pos, std::string(static_cast<size_t>(width), ' '));
      column += width;
    } else {
      builder.append(text, pos, pos + next.length);
      column = next.code_point == '\n' || next.code_point == '\r' ? 0 : column + 1;
    }
    pos += next.length;
  }
  return machine.text(builder, text.is_markup());
}

// --- Predicates

using CharTest = bool (*)(uint32_t code_point);

template <CharTest Test>
Value all_are(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self"}, 1);
  const std::string& bytes = p[0].text().bytes();
  machine.step_bytes(bytes.size());
  for (size_t pos = 0; pos < bytes.size();) {
    const Utf8Char next = decode_utf8(bytes, pos);
    if (!Test(next.code_point)) return Value(false);
    pos += next.length;
  }
  return Value(!bytes.empty());
}

bool is_letter_or_number(uint32_t c) {
  return is_alphabetic(c) || is_decimal(c) || is_digit(c) || is_numeric(c);
}

Value isascii(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self"}, 1);
  return Value(p[0].text().is_ascii());
}

Value isprintable(Machine& machine, Arguments& arguments) {
  if (!arguments.positional.empty() && arguments.positional[0].text().bytes().empty()) return Value(true);
  return all_are<is_printable>(machine, arguments);
}

Value isidentifier(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self"}, 1);
  const std::string& bytes = p[0].text().bytes();
  machine.step_bytes(bytes.size());
  for (size_t pos = 0; pos < bytes.size();) {
    const Utf8Char next = decode_utf8(bytes, pos);
    const bool fits =
        pos == 0 ? (is_alphabetic(next.code_point) || next.code_point == '_') : is_word_char(next.code_point);
    if (!fits) return Value(false);
    pos += next.length;
  }
  return Value(!bytes.empty());
}

// Returns whether the text has a cased letter and all cased letters are `Wanted`.
template <CharTest Wanted>
Value all_cased_are(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self"}, 1);
  return Value(has_only_case(p[0].text().bytes(), Wanted));
}

Value istitle(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self"}, 1);
  const std::string& bytes = p[0].text().bytes();
  machine.step_bytes(bytes.size());
  bool after_cased = false;
  bool any = false;
  for (size_t pos = 0; pos < bytes.size();) {
    const Utf8Char next = decode_utf8(bytes, pos);
    const uint32_t c = next.code_point;
    if (is_upper(c) || is_title(c) ? after_cased : (is_lower(c) && !after_cased)) return Value(false);
    after_cased = is_cased(c);
    any = any || after_cased;
    pos += next.length;
  }
  return Value(any);
}

Value format(Machine& machine, Arguments& arguments) {
  if (arguments.positional.empty()) machine.fail("format takes a string");
  const Value self = arguments.positional.front();
  arguments.positional.erase(arguments.positional.begin());
  return format_braces(machine, self, arguments);
}

Value format_map(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "mapping"}, 2);
  const auto* dict = p[1].as<Dict>();
  if (dict == nullptr) machine.fail("format_map takes a mapping");
  Arguments named;
  for (const Dict::Entry& entry : dict->entries) {
    if (entry.key.is_text()) named.named.emplace_back(entry.key.text().bytes(), entry.value);
  }
  return format_braces(machine, p[0], named);
}

constexpr std::array kMethods = {
    NamedBuiltin{"capitalize", capitalize},
    NamedBuiltin{"casefold", change_case_of<CaseChange::fold>},
    NamedBuiltin{"center", justify<Align::center>},
    NamedBuiltin{"count", count},
    NamedBuiltin{"endswith", endswith},
    NamedBuiltin{"expandtabs", expandtabs},
    NamedBuiltin{"find", find<false, false>},
    NamedBuiltin{"format", format},
    NamedBuiltin{"format_map", format_map},
    NamedBuiltin{"index", find<false, true>},
    NamedBuiltin{"isalnum", all_are<is_letter_or_number>},
    NamedBuiltin{"isalpha", all_are<is_alphabetic>},
    NamedBuiltin{"isascii", isascii},
    NamedBuiltin{"isdecimal", all_are<is_decimal>},
    NamedBuiltin{"isdigit", all_are<is_digit>},
    NamedBuiltin{"isidentifier", isidentifier},
    NamedBuiltin{"islower", all_cased_are<is_lower>},
    NamedBuiltin{"isnumeric", all_are<is_numeric>},
    NamedBuiltin{"isprintable", isprintable},
    NamedBuiltin{"isspace", all_are<is_space>},
    NamedBuiltin{"istitle", istitle},
    NamedBuiltin{"isupper", all_cased_are<is_upper>},
    NamedBuiltin{"join", join},
    NamedBuiltin{"ljust", justify<Align::left>},
    NamedBuiltin{"lower", change_case_of<CaseChange::lower>},
    NamedBuiltin{"lstrip", strip<true, false>},
    NamedBuiltin{"partition", partition<false>},
    NamedBuiltin{"removeprefix", removeprefix},
    NamedBuiltin{"removesuffix", removesuffix},
    NamedBuiltin{"replace", replace},
    NamedBuiltin{"rfind", find<true, false>},
    NamedBuiltin{"rindex", find<true, true>},
    NamedBuiltin{"rjust", justify<Align::right>},
    NamedBuiltin{"rpartition", partition<true>},
    NamedBuiltin{"rsplit", split<true>},
    NamedBuiltin{"rstrip", strip<false, true>},
    NamedBuiltin{"split", split<false>},
    NamedBuiltin{"splitlines", splitlines},
    NamedBuiltin{"startswith", startswith},
    NamedBuiltin{"strip", strip<true, true>},
    NamedBuiltin{"swapcase", change_case_of<CaseChange::swap>},
    NamedBuiltin{"title", title},
    NamedBuiltin{"upper", change_case_of<CaseChange::upper>},
    NamedBuiltin{"zfill", zfill},
};

}  // namespace

bool has_only_case(std::string_view bytes, bool (*wanted)(uint32_t)) {
  bool any = false;
  for (size_t pos = 0; pos < bytes.size();) {
    const Utf8Char next = decode_utf8(bytes, pos);
    if (is_cased(next.code_point)) {
      if (!wanted(next.code_point)) return false;
      any = true;
    }
    pos += next.length;
  }
  return any;
}

Builtin find_text_method(std::string_view name) {
  return find_named(kMethods, name);
}

}  // namespace quire::chat
