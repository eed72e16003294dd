#include "core/tokenizer/normalizer.h"

#include <cstdlib>
#include <random>

#include <gtest/gtest.h>
#include <utf8proc.h>

#include "core/base/error.h"
#include "core/tokenizer/encode_scratch.h"
#include "core/tokenizer/unicode_additions.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

using Form = UnicodeNormalizer::Form;

std::string normalize(const Normalizer& normalizer, std::string_view text) {
  EncodeScratch scratch(text.size());
  return normalizer.normalize(text, scratch);
}
std::string normalize(Form form, std::string_view text) {
  return normalize(UnicodeNormalizer(form), text);
}

// Normalizes with utf8proc itself, which sorts marks in quadratic time.
std::string reference(Form form, const std::string& text) {
  int options = UTF8PROC_STABLE;
  options |= form == Form::nfc || form == Form::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == Form::nfkc || form == Form::nfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* result = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                                   static_cast<utf8proc_option_t>(options));
  EXPECT_GE(length, 0);
  std::string out(reinterpret_cast<const char*>(result), static_cast<size_t>(length));
  std::free(result);
  return out;
}

char32_t random_code_point(std::mt19937& random) {
  static constexpr char32_t kRanges[][2] = {
      {0x20, 0x7f},       {0xa0, 0x180},     {0x300, 0x345},   {0x1100, 0x1112}, {0x1161, 0x1175},
      {0x11a8, 0x11c2},   {0xac00, 0xd7a3},  {0x5b0, 0x5bd},   {0x64b, 0x652},   {0x900, 0xdf0},
      {0x1e00, 0x2000},   {0x2460, 0x24ff},  {0x3040, 0x30ff}, {0xf900, 0xfb50}, {0xfe70, 0xffee},
      {0x1d15e, 0x1d164}, {0x2f800, 0x2fa1d}};
  while (true) {
    const auto& range = kRanges[random() % std::size(kRanges)];
    const char32_t code_point = range[0] + static_cast<char32_t>(random() % (range[1] - range[0]));
    if (!is_never_normalized(code_point)) return code_point;
  }
}

TEST(UnicodeNormalizer, AgreesWithUtf8proc) {
  std::mt19937 random(11);
  for (int round = 0; round < 20000 / testing::stride_if_sanitized(10); ++round) {
    std::u32string code_points;
    for (size_t i = random() % 12; i-- > 0;) code_points += random_code_point(random);
    const std::string text = utf8(code_points);
    for (const Form form : {Form::nfc, Form::nfd, Form::nfkc, Form::nfkd}) {
      EXPECT_EQ(normalize(form, text), reference(form, text)) << text;
    }
  }
}

TEST(UnicodeNormalizer, AgreesForEveryCodePointAlone) {
  for (char32_t code_point = 1; code_point < 0x110000; code_point += testing::stride_if_sanitized(17)) {
    if ((code_point >= 0xd800 && code_point < 0xe000) || is_never_normalized(code_point)) continue;
    const std::string text = utf8(std::u32string(1, code_point));
    for (const Form form : {Form::nfc, Form::nfkd}) {
      ASSERT_EQ(normalize(form, text), reference(form, text)) << static_cast<uint32_t>(code_point);
    }
  }
}

// The tables of the reference library are from Unicode 9.
TEST(UnicodeNormalizer, KeepsNewerCodePoints) {
  for (const Form form : {Form::nfc, Form::nfd, Form::nfkc, Form::nfkd}) {
    EXPECT_EQ(normalize(form, utf8(U"\u32ff")), utf8(U"\u32ff"));
    EXPECT_EQ(normalize(form, utf8(U"\U00011935\U00011930")), utf8(U"\U00011935\U00011930"));
    EXPECT_EQ(normalize(form, utf8(U"\u0fd9\u08cb\u0742")), utf8(U"\u0fd9\u08cb\u0742"));  // not reordered
  }
}

TEST(UnicodeNormalizer, HandlesLongRunsOfMarks) {
  std::u32string above_and_below;
  for (int i = 0; i < 100000; ++i) above_and_below += i % 2 == 0 ? U'\u0301' : U'\u0323';
  const std::string expected = utf8(std::u32string(50000, U'\u0323') + std::u32string(50000, U'\u0301'));
  EXPECT_EQ(normalize(Form::nfd, utf8(above_and_below)), expected);
  const std::string composed = normalize(Form::nfc, "a" + utf8(above_and_below));
  EXPECT_EQ(composed.substr(0, 3), utf8(U"\u1ea1"));  // a with dot below
  EXPECT_EQ(composed.size(), 3 + expected.size() - 2);
}

TEST(LowercaseNormalizer, ConvertsCodePointsSeparately) {
  EXPECT_EQ(normalize(LowercaseNormalizer(), utf8(U"AbC\u0130\u03a3\u1c89\u00c9\u1e9e")),
            utf8(U"abci\u0307\u03c3\u1c8a\u00e9\u00df"));
}

TEST(StripNormalizer, RemovesWhiteSpaceFromTheEnds) {
  const std::string text = utf8(U" \u3000\u180e a \n");
  EXPECT_EQ(normalize(StripNormalizer(true, false), text), utf8(U"\u180e a \n"));
  EXPECT_EQ(normalize(StripNormalizer(false, true), text), utf8(U" \u3000\u180e a"));
  EXPECT_EQ(normalize(StripNormalizer(true, true), " \t "), "");
}

TEST(ReplaceNormalizer, ReplacesMatches) {
  EXPECT_EQ(normalize(ReplaceNormalizer(Regex(" {2,}", "p"), "_"), "a  b c   d"), "a_b c_d");
  EXPECT_EQ(normalize(ReplaceNormalizer(Regex("(a)", "p"), "$1"), "ab"), "$1b");
  EXPECT_EQ(normalize(ReplaceNormalizer(Regex("x*", "p"), "-"), "axxb"), "-a-b-");
}

TEST(ReplaceNormalizer, LimitsTheLengthOfTheResult) {
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (int i = 0; i < 10; ++i) {
    steps.push_back(std::make_unique<ReplaceNormalizer>(Regex("a", "p"), std::string(1000, 'a')));
  }
  EXPECT_THROW(normalize(NormalizerSequence(std::move(steps)), "aaa"), Error);
}

}  // namespace
}  // namespace quire
