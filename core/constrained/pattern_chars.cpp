#include "core/constrained/pattern_chars.h"

#include <algorithm>
#include <initializer_list>

#include <utf8proc.h>

namespace quire {
namespace {

struct Property {
  std::string_view name;
  std::string_view category;
};
constexpr Property kLongNames[] = {{"Letter", "L"},
                                   {"Lowercase_Letter", "Ll"},
                                   {"Uppercase_Letter", "Lu"},
                                   {"Titlecase_Letter", "Lt"},
                                   {"Mark", "M"},
                                   {"Number", "N"},
                                   {"Decimal_Number", "Nd"},
                                   {"digit", "Nd"},
                                   {"Punctuation", "P"},
                                   {"punct", "P"},
                                   {"Symbol", "S"},
                                   {"Separator", "Z"},
                                   {"Space_Separator", "Zs"},
                                   {"Other", "C"},
                                   {"Control", "Cc"},
                                   {"cntrl", "Cc"},
                                   {"Alphabetic", "L"},
                                   {"Letter_Number", "Nl"}};

// Returns all characters whose general category begins with one of these names.
CharSet chars_of(std::initializer_list<std::string_view> categories) {
  CharSet set;
  int last = -1;  // last category; adjacent characters often share it
  bool within = false;
  for (uint32_t code = 0; code <= kMaxCodePoint; ++code) {
    const auto scalar = static_cast<utf8proc_int32_t>(code);
    const int category = utf8proc_category(scalar);
    if (category != last) {
      last = category;
      const std::string_view name = utf8proc_category_string(scalar);
      within = std::any_of(categories.begin(), categories.end(),
                           [&name](std::string_view begin) { return name.starts_with(begin); });
    }
    if (!within) continue;
    if (!set.empty() && set.back().last + 1 == code) {
      set.back().last = code;
    } else {
      set.push_back({code, code});
    }
  }
  return normalized(std::move(set));
}

}  // namespace

CharSet category_chars(std::string_view name) {
  for (const Property& known : kLongNames) {
    if (known.name == name) name = known.category;
  }
  if (name.empty() || name.size() > 2) return {};
  return chars_of({name});
}

CharSet digit_chars(PatternDialect dialect) {
  if (dialect == PatternDialect::ecma262) return {{'0', '9'}};
  return category_chars("Nd");
}

// Python's \w: str.isalnum() and the underscore.
CharSet word_chars(PatternDialect dialect) {
  if (dialect == PatternDialect::ecma262) return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return united(chars_of({"L", "N"}), {{'_', '_'}});
}

// ECMA 262's \s includes the byte order mark; Python's includes the information separators and NEL.
CharSet space_chars(PatternDialect dialect) {
  const CharSet common = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},
                          {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                          {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
  if (dialect == PatternDialect::ecma262) return united(common, {{0xFEFF, 0xFEFF}});
  return united(common, {{0x1C, 0x1F}, {0x85, 0x85}});
}

CharSet line_end_chars(PatternDialect dialect) {
  if (dialect == PatternDialect::python) return {{'\n', '\n'}};
  return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
}

}  // namespace quire
