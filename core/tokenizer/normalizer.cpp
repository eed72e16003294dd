#include "core/tokenizer/normalizer.h"

#include <algorithm>
#include <array>
#include <optional>

#include <utf8proc.h>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/code_point_classes.h"
#include "core/tokenizer/encode_scratch.h"
#include "core/tokenizer/unicode_additions.h"
#include "core/tokenizer/unicode_text.h"

namespace quire {
namespace {

constexpr uint32_t kFirstDecomposed = 0xa0;  // code points below have no decomposition

struct Mark {
  utf8proc_int32_t code_point;
  int32_t combining_class;
};

bool is_hangul_vowel_or_final(uint32_t c) {
  return c >= 0x1160 && c <= 0x11ff;
}
bool is_hangul_syllable(uint32_t c) {
  return c >= 0xac00 && c <= 0xd7a3;
}

// Returns whether no normal form changes the character or combines it with text before it; it may combine
// with text after it. All second parts of compositions are marks, except the Hangul ones.
bool is_inert(uint32_t code_point, bool compose) {
  if (code_point < kFirstDecomposed) return true;
  if (is_hangul_syllable(code_point)) return compose;
  if (is_hangul_vowel_or_final(code_point)) return false;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point));
  const auto category = static_cast<utf8proc_category_t>(property->category);
  const bool mark = category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
                    category == UTF8PROC_CATEGORY_ME;
  const bool inert = !mark && property->combining_class == 0 && property->decomp_seqindex == UINT16_MAX;
  return inert || is_never_normalized(code_point);
}

void append_decomposed(uint32_t code_point, utf8proc_option_t options, std::vector<Mark>& marks) {
  if (is_never_normalized(code_point)) {
    marks.push_back({static_cast<utf8proc_int32_t>(code_point), 0});
    return;
  }
  std::array<utf8proc_int32_t, 32> parts;  // the longest compatibility decomposition has 18 code points
  int boundary_class = 0;
  const auto num_parts =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), parts.data(),
                              static_cast<utf8proc_ssize_t>(parts.size()), options, &boundary_class);
  if (num_parts < 0 || num_parts > static_cast<utf8proc_ssize_t>(parts.size())) {
    throw Error(ErrorCode::internal, "U+{:04X} does not decompose", code_point);
  }
  for (utf8proc_ssize_t i = 0; i < num_parts; ++i) {
    const auto part = parts[static_cast<size_t>(i)];
    marks.push_back({part, static_cast<int32_t>(utf8proc_get_property(part)->combining_class)});
  }
}

// Sorts marks into canonical order: each run by combining class, stable. utf8proc's own sort is quadratic in
// the length of a run.
void sort_marks(std::vector<Mark>& marks) {
  for (auto begin = marks.begin(); begin != marks.end();) {
    if (begin->combining_class == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, marks.end(), [](const Mark& mark) { return mark.combining_class == 0; });
    std::stable_sort(begin, end,
                     [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    begin = end;
  }
}

void append_normalized(std::string_view text, bool compatible, bool compose, std::string& out) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<Mark> marks;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char next = decode_utf8(text, pos);
    append_decomposed(next.code_point, options, marks);
    pos += next.length;
  }
  sort_marks(marks);
  std::vector<utf8proc_int32_t> code_points(marks.size() + 1);
  for (size_t i = 0; i < marks.size(); ++i) code_points[i] = marks[i].code_point;
  auto num_code_points = static_cast<utf8proc_ssize_t>(marks.size());
  if (compose) {
    num_code_points =
        utf8proc_normalize_utf32(code_points.data(), num_code_points,
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  }
  if (num_code_points < 0) throw Error(ErrorCode::internal, "text does not compose");
  for (utf8proc_ssize_t i = 0; i < num_code_points; ++i) {
    append_utf8(out, static_cast<uint32_t>(code_points[static_cast<size_t>(i)]));
  }
}

}  // namespace

// Normalizes only the parts that are not inert, each together with the inert character before it, which may
// combine with the first mark.
std::string UnicodeNormalizer::normalize(std::string_view text, EncodeScratch&) const {
  const bool compatible = form_ == Form::nfkc || form_ == Form::nfkd;
  const bool compose = form_ == Form::nfc || form_ == Form::nfkc;
  std::string out;
  out.reserve(text.size());
  size_t copied = 0;
  size_t last_inert = 0;
  for (size_t pos = 0; pos < text.size();) {
    Utf8Char next = decode_utf8(text, pos);
    if (is_inert(next.code_point, compose)) {
      last_inert = pos;
      pos += next.length;
      continue;
    }
    const size_t begin = std::max(last_inert, copied);
    out.append(text.substr(copied, begin - copied));
    do {
      pos += next.length;
      if (pos == text.size()) break;
      next = decode_utf8(text, pos);
    } while (!is_inert(next.code_point, compose));
    append_normalized(text.substr(begin, pos - begin), compatible, compose, out);
    copied = pos;
    last_inert = pos;
  }
  out.append(text.substr(copied));
  return out;
}

std::string LowercaseNormalizer::normalize(std::string_view text, EncodeScratch&) const {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char next = decode_utf8(text, pos);
    pos += next.length;
    const utf8proc_int32_t small = utf8proc_tolower(static_cast<utf8proc_int32_t>(next.code_point));
    append_utf8(out, added_lower_case(static_cast<uint32_t>(small)));
    if (next.code_point == 0x130) append_utf8(out, 0x307);  // the only lower case of two code points
  }
  return out;
}

std::string PrependNormalizer::normalize(std::string_view text, EncodeScratch&) const {
  return prefix_ + std::string(text);
}

std::string StripNormalizer::normalize(std::string_view text, EncodeScratch&) const {
  if (left_) text.remove_prefix(leading_white_space(text));
  if (right_) text.remove_suffix(trailing_white_space(text));
  return std::string(text);
}

namespace {

// Returns the concatenated results of `append` for each code point of `text`.
template <typename Append>
std::string map_code_points(std::string_view text, Append append) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char next = decode_utf8(text, pos);
    append(next.code_point, text.substr(pos, next.length), out);
    pos += next.length;
  }
  return out;
}

void require_length(const std::string& text, const EncodeScratch& scratch) {
  if (text.size() <= scratch.max_normalized_bytes) return;
  throw Error(ErrorCode::unsupported, "the tokenizer's replacements make the text longer than {} bytes",
              scratch.max_normalized_bytes);
}

}  // namespace

std::string StripAccentsNormalizer::normalize(std::string_view text, EncodeScratch&) const {
  return map_code_points(text, [](uint32_t code_point, std::string_view character, std::string& out) {
    if (!is_accent_mark(code_point)) out.append(character);
  });
}

namespace {

bool is_removed_by_nmt(uint32_t c) {
  return (c >= 0x1 && c <= 0x8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
}
bool is_space_for_nmt(uint32_t c) {
  return c == 0x9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
}

}  // namespace

std::string NmtNormalizer::normalize(std::string_view text, EncodeScratch&) const {
  return map_code_points(text, [](uint32_t code_point, std::string_view character, std::string& out) {
    if (is_removed_by_nmt(code_point)) return;
    out.append(is_space_for_nmt(code_point) ? " " : character);
  });
}

std::string ByteAlphabetNormalizer::normalize(std::string_view text, EncodeScratch&) const {
  return to_byte_alphabet(text);
}

namespace {

std::string clean(std::string_view text) {
  return map_code_points(text, [](uint32_t code_point, std::string_view character, std::string& out) {
    if (is_cleaned_away(code_point)) return;
    out.append(is_white_space(code_point) ? " " : character);
  });
}

std::string set_chinese_apart(std::string_view text) {
  return map_code_points(text, [](uint32_t code_point, std::string_view character, std::string& out) {
    if (!is_chinese_character(code_point)) {
      out.append(character);
      return;
    }
    out.append(" ").append(character).append(" ");
  });
}

std::string remove_nonspacing_marks(std::string_view text) {
  return map_code_points(text, [](uint32_t code_point, std::string_view character, std::string& out) {
    if (!is_nonspacing_mark(code_point)) out.append(character);
  });
}

}  // namespace

std::string BertNormalizer::normalize(std::string_view text, EncodeScratch& scratch) const {
  std::string out(text);
  if (options_.clean_text) out = clean(out);
  if (options_.handle_chinese_chars) out = set_chinese_apart(out);
  if (options_.strip_accents) {
    out = UnicodeNormalizer(UnicodeNormalizer::Form::nfd).normalize(out, scratch);
    out = remove_nonspacing_marks(out);
  }
  return options_.lowercase ? LowercaseNormalizer().normalize(out, scratch) : out;
}

namespace {

constexpr size_t kMaxGraphemeBytes = 5;

// Returns the end of the grapheme that begins at `begin`.
size_t grapheme_end(std::string_view text, size_t begin) {
  Utf8Char last = decode_utf8(text, begin);
  utf8proc_int32_t state = 0;
  for (size_t pos = begin + last.length; pos < text.size();) {
    const Utf8Char next = decode_utf8(text, pos);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code_point),
                                         static_cast<utf8proc_int32_t>(next.code_point), &state) != 0) {
      return pos;
    }
    last = next;
    pos += next.length;
  }
  return text.size();
}

}  // namespace

std::string PrecompiledNormalizer::normalize(std::string_view text, EncodeScratch& scratch) const {
  std::string out;
  out.reserve(text.size());
  const auto replace = [&](std::string_view part) {
    const auto match = map_.shortest(part);
    if (match) out.append(match->replacement);
    return match.has_value();
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = grapheme_end(text, begin);
    const std::string_view grapheme = text.substr(begin, end - begin);
    begin = end;
    if (grapheme.size() <= kMaxGraphemeBytes && replace(grapheme)) continue;
    for (size_t pos = 0; pos < grapheme.size();) {
      const std::string_view character = grapheme.substr(pos, decode_utf8(grapheme, pos).length);
      if (!replace(character)) out.append(character);
      pos += character.size();
    }
    require_length(out, scratch);
  }
  return out;
}

std::string LiteralReplaceNormalizer::normalize(std::string_view text, EncodeScratch& scratch) const {
  std::string out;
  out.reserve(text.size());
  size_t copied = 0;
  for (size_t at = text.find(pattern_); at != std::string_view::npos; at = text.find(pattern_, copied)) {
    out.append(text.substr(copied, at - copied)).append(content_);
    copied = at + pattern_.size();
    require_length(out, scratch);
  }
  out.append(text.substr(copied));
  return out;
}

std::string ReplaceNormalizer::normalize(std::string_view text, EncodeScratch& scratch) const {
  std::string out;
  out.reserve(text.size());
  RegexMatches matches(pattern_, text, scratch.regex);
  size_t copied = 0;
  while (const auto match = matches.next()) {
    out.append(text.substr(copied, match->begin - copied));
    out.append(content_);
    copied = match->end;
    require_length(out, scratch);
  }
  out.append(text.substr(copied));
  return out;
}

std::string NormalizerSequence::normalize(std::string_view text, EncodeScratch& scratch) const {
  std::string out(text);
  for (const auto& step : steps_) {
    if (out.empty()) break;
    out = step->normalize(out, scratch);
  }
  return out;
}

}  // namespace quire
