#include "core/base/message_text.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire {
namespace {

TEST(MessageText, EscapesControlsLineEndsAndDirections) {
  EXPECT_EQ(escape_unprintable("a\tb\nc\x1b[2Jd\x7f"), "a\\x09b\\x0ac\\x1b[2Jd\\x7f");
  EXPECT_EQ(escape_unprintable("\xc2\x85\xc2\x9b"), "\\u{85}\\u{9b}");  // Latin-1 control characters
  EXPECT_EQ(escape_unprintable("\xe2\x80\xa8\xe2\x80\xa9"), "\\u{2028}\\u{2029}");  // line ends
  EXPECT_EQ(escape_unprintable("\xe2\x80\xae\xe2\x81\xa6\xd8\x9c"),
            "\\u{202e}\\u{2066}\\u{61c}");  // text direction
  EXPECT_EQ(escape_unprintable("\xff\xc3"), "\\xff\\xc3");
}

TEST(MessageText, KeepsAllOtherCharacters) {
  const std::string text = "K\xc3\xb6ln \xe2\x96\x81 \xe4\xb8\xad \xf0\x9f\x98\x80 \\u{85}";
  EXPECT_EQ(escape_unprintable(text), text);
}

TEST(MessageText, PrintableEscapesAndCuts) {
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a\\u{202e}b");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("\xe4\xb8\xad\xe4\xb8\xad", 4), "\xe4\xb8\xad\xe4\xb8\xad");  // characters stay whole
}

TEST(MessageText, AMessageSetForACodeIsOneLine) {
  std::string target;
  set_message(target, "tensor \"a\n\xe2\x80\xae\"");
  EXPECT_EQ(target, "tensor \"a\\x0a\\u{202e}\"");
}

}  // namespace
}  // namespace quire
