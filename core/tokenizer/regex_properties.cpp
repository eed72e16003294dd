#include "core/tokenizer/regex_properties.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "core/tokenizer/unicode_additions.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 37> kCategories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl",
    "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk",
    "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cn", "Co", "Cs"};

constexpr std::array<std::string_view, 12> kScripts = {"Han",    "Hiragana", "Katakana",   "Hangul",
                                                       "Latin",  "Cyrillic", "Greek",      "Arabic",
                                                       "Hebrew", "Thai",     "Devanagari", "Bopomofo"};

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns the name as PCRE2 spells it. Scripts use the Script property, not Script_Extensions.
std::optional<std::string> pcre2_name(std::string_view name) {
  if (contains(kCategories, name)) return std::string(name);
  if (contains(kScripts, name)) return fmt::format("sc:{}", name);
  return std::nullopt;
}

bool belongs_to(std::string_view addition, std::string_view name) {
  if (name.size() == 1) return addition.size() == 2 && addition[0] == name[0];
  return addition == name;
}

void append_additions(std::string_view name, std::string& items) {
  for (const CodePointAddition& addition : unicode_additions()) {
    if (belongs_to(addition.property, name)) {
      items += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", addition.first, addition.last);
    }
  }
}

}  // namespace

std::optional<std::string> property_items(std::string_view name) {
  const auto spelled = pcre2_name(name);
  if (!spelled) return std::nullopt;
  std::string items = fmt::format("\\p{{{}}}", *spelled);
  append_additions(name, items);
  return items;
}

std::string_view space_items() {
  return "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
         "\\x{3000}";
}

std::string_view non_space_items() {
  return "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"
         "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";
}

std::string word_items(RegexDialect dialect, RegexPlace place) {
  std::string_view own;
  if (dialect == RegexDialect::rust) {
    own = "\\x{200c}\\x{200d}";
  } else if (place == RegexPlace::pattern) {
    own = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
  }
  return fmt::format("\\p{{Alphabetic}}{}{}{}{}{}", own, *property_items("L"), *property_items("M"),
                     *property_items("Nd"), *property_items("Pc"));
}

bool is_case_closed(std::string_view name) {
  return contains(std::array<std::string_view, 5>{"N", "Nd", "P", "S", "Z"}, name);
}

}  // namespace quire
