#include "core/base/utf8.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire {
namespace {

bool is_scalar(uint32_t code_point) {
  return code_point <= 0x10ffff && !(code_point >= 0xd800 && code_point <= 0xdfff);
}

TEST(Utf8, EveryScalarValueSurvivesARoundTrip) {
  for (uint32_t code_point = 0; code_point <= 0x10ffff; ++code_point) {
    if (!is_scalar(code_point)) continue;
    std::string text;
    append_utf8(text, code_point);
    const Utf8Char read = decode_utf8(text, 0);
    ASSERT_TRUE(read.valid) << code_point;
    ASSERT_EQ(read.code_point, code_point);
    ASSERT_EQ(read.length, text.size());
  }
}

TEST(Utf8, EveryProperPrefixIsIncomplete) {
  for (const uint32_t code_point :
       {0x80U, 0x7ffU, 0x800U, 0xd7ffU, 0xe000U, 0xffffU, 0x10000U, 0x1f600U, 0x10ffffU}) {
    std::string text;
    append_utf8(text, code_point);
    for (size_t length = 1; length < text.size(); ++length) {
      const Utf8Char read = decode_utf8(text.substr(0, length), 0);
      EXPECT_FALSE(read.valid);
      EXPECT_TRUE(read.incomplete) << code_point << " cut at " << length;
    }
  }
}

TEST(Utf8, FormsForbiddenByTheStandardAreInvalid) {
  for (const std::string_view text : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf",
                                      "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80", "\xff", "\xc3(", "\xe2\x28\xa1"}) {
    const Utf8Char read = decode_utf8(text, 0);
    EXPECT_FALSE(read.valid) << printable(text);
    EXPECT_FALSE(read.incomplete) << printable(text);
  }
}

TEST(Utf8, TheErrorNamesTheOffset) {
  EXPECT_EQ(find_invalid_utf8("ab\xff"), 2U);
  try {
    require_utf8("ab\xff", "the prompt");
    FAIL() << "invalid text passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::encoding);
    EXPECT_STREQ(error.what(), "the prompt is not valid UTF-8 at byte 2");
  }
}

TEST(Printable, EscapesControlsAndInvalidBytesAndCutsLongText) {
  EXPECT_EQ(printable("a\nb\xff\x7f"), "a\\x0ab\\xff\\x7f");
  EXPECT_EQ(printable("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80");
  EXPECT_LE(printable(std::string(1000, 'x'), 80).size(), 84U);
}

}  // namespace
}  // namespace quire
