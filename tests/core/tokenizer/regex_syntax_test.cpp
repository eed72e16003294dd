#include "core/tokenizer/regex_syntax.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/tokenizer/regex.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"

namespace quire {
namespace {

// Splits a text at every match and joins the pieces with '|'; expected values are from the reference library.
std::string pieces(const std::string& pattern, const std::string& text) {
  const Regex regex(pattern, "pattern");
  RegexScratch scratch(text.size());
  RegexMatches matches(regex, text, scratch);
  std::string out;
  size_t end = 0;
  const auto add = [&](size_t from, size_t to) {
    if (from < to) out += (out.empty() ? "" : "|") + text.substr(from, to - from);
  };
  while (const auto match = matches.next()) {
    add(end, match->begin);
    add(match->begin, match->end);
    end = match->end;
  }
  add(end, text.size());
  return out;
}

TEST(RegexSyntax, MatchesLikeOniguruma) {
  EXPECT_EQ(pieces("^a", "a\na\n"), "a|\n|a|\n");
  EXPECT_EQ(pieces("a$", "ab\na"), "ab\n|a");
  EXPECT_EQ(pieces(R"(\s+$)", "a  \n b  "), "a|  |\n b|  ");
  EXPECT_EQ(pieces(".", "a\n\r"), "a|\n|\r");
  EXPECT_EQ(pieces(R"(\p{N}{1,3})", "12345678x"), "123|456|78|x");
  EXPECT_EQ(pieces(R"(\p{N}{1,3}+)", "12345678x"), "12345678|x");
  EXPECT_EQ(pieces(R"(\p{N}{2}+)", "12345"), "1234|5");
  EXPECT_EQ(pieces(R"((?:ab){1,2}+)", "abababx"), "ababab|x");
  EXPECT_EQ(pieces(R"(\p{N}{,2})", "123ab"), "12|3|a|b");
  EXPECT_EQ(pieces("(?i)ab|cd", "ABxCD"), "AB|x|CD");
  EXPECT_EQ(pieces("x(?i)ab|cd", "xABxCDcd"), "xAB|xCD|cd");
  EXPECT_EQ(pieces("(?i:a(?-i:b))", "AbAB"), "Ab|AB");
  EXPECT_EQ(pieces("[a[bc]]", "abcd"), "a|b|c|d");
  EXPECT_EQ(pieces("[^a[bc]]+", "abcdd"), "abc|dd");
  EXPECT_EQ(pieces("[a-]", "a-z"), "a|-|z");
  EXPECT_EQ(pieces(R"([a\-z])", "a-zb"), "a|-|z|b");
  EXPECT_EQ(pieces("(?>a+)", "aab"), "aa|b");
  EXPECT_EQ(pieces("a?+", "aab"), "a|a|b");
  EXPECT_EQ(pieces("(?<=a)b", "abb"), "a|b|b");
  EXPECT_EQ(pieces("(?<!a)b", "abb"), "ab|b");
  EXPECT_EQ(pieces("a{2", "a{2x"), "a{2|x");
  EXPECT_EQ(pieces("x*", "axb"), "a|x|b");
  EXPECT_EQ(pieces("a|", "aba"), "a|b|a");
  EXPECT_EQ(pieces(R"(\p{^L})", "a1b"), "a|1|b");
  EXPECT_EQ(pieces(R"([^\P{L}b])", "ab1"), "a|b1");
  EXPECT_EQ(pieces(R"(\x41|\x{42}|\u0043)", "ABCD"), "A|B|C|D");
  EXPECT_EQ(pieces(R"([^\S\n]+)", "a \n b"), "a| |\n| |b");
}

TEST(RegexSyntax, ClassesFollowUnicode16) {
  EXPECT_EQ(pieces(R"(\s)", utf8(U"a\u180eb\u3000c\u0085")), utf8(U"a\u180eb|\u3000|c|\u0085"));
  EXPECT_EQ(pieces(R"(\p{S}+)", utf8(U"a\U0001fae8\U0001fae9b")), utf8(U"a|\U0001fae8\U0001fae9|b"));
  EXPECT_EQ(pieces(R"(\P{L}+)", utf8(U"1\U00031350 2")), utf8(U"1|\U00031350| 2"));
  EXPECT_EQ(pieces(R"(\w+)", utf8(U"-\u00b2\u0301_\u2160\u0967-")), utf8(U"-|\u00b2\u0301_\u2160\u0967|-"));
  EXPECT_EQ(pieces(R"([\w]+)", utf8(U"-\u00b2a\u00be-")), utf8(U"-\u00b2|a|\u00be-"));
  EXPECT_EQ(pieces(R"([^\W]+)", utf8(U"-\u00b2a\u00be-")), utf8(U"-\u00b2|a|\u00be-"));
  EXPECT_EQ(pieces(R"([\P{L}]+)", utf8(U"1\U00031350 2")), utf8(U"1|\U00031350| 2"));
  EXPECT_EQ(pieces(R"([\D]+)", utf8(U"a\U00010d40b")), utf8(U"a|\U00010d40|b"));
  EXPECT_EQ(pieces(R"(\d)", utf8(U"1\u0967\u00b2")), utf8(U"1|\u0967|\u00b2"));
  EXPECT_EQ(pieces("(?i:s|k)", utf8(U"S\u017fK\u212ax")), utf8(U"S|\u017f|K|\u212a|x"));
  EXPECT_EQ(pieces(R"(\p{Han})", utf8(U"\u4e00\u3007\u3001")), utf8(U"\u4e00|\u3007|\u3001"));
}

TEST(RegexSyntax, RefusesConstructsThatMatchDifferently) {
  for (const std::string pattern :
       {"(a",          "a)",          "*a",        "a**",           "a++b)",       "a+{2}",
        "a{2}?",       "a{3,1}",      "a{1001}",   "(?=a)*",        "\\",          "\\q",
        "\\1",         "(?<=\\Ga)b",  "[a&&]",     "\\h",           "\\X",         "\\R",
        "\\K",         "\\N",         "\\0",       "\\p",           "\\p{",        "\\p{Klingon}",
        "\\pL",        "\\x{110000}", "\\x{d800}", "\\xc3",         "\\u12",       "[]a]",
        "[a",          "[z-a]",       "[a-\\d]",   "[&&b]",         "[[:alpha:]]", "(?i:[a[^b]])",
        "(?i:[a&&b])", "(?<name>a)",  "(?P<n>a)",  "(?#c)a",        "(?m:a)",      "(?x)a",
        "(*VERB)",     "(?i:ss)",     "(?i:st)",   "(?i:\xc3\xa9)", "(?i)\\p{Lu}", "(?i)[\\P{L}]",
        "(?i:\\w)",    "(?<=a*)b",    "(?R)",      "(?1)",          "(?(1)a)"}) {
    try {
      const Regex regex(pattern, "here");
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << pattern;
      EXPECT_EQ(std::string(error.what()).find("here: "), 0U) << error.what();
    }
  }
}

// Characters that are special in only one of the two libraries, each as a literal.
TEST(RegexSyntax, LiteralsStayLiterals) {
  for (int c = 1; c < 128; ++c) {
    const std::string text(1, static_cast<char>(c));
    const bool letter_or_digit = std::isalnum(c) != 0;
    if (!letter_or_digit) {
      EXPECT_EQ(pieces("\\" + text, "a" + text + "b"), "a|" + text + "|b") << c;
    }
    if (std::string("\\[^").find(text) == std::string::npos && c != ']') {
      EXPECT_EQ(pieces("[" + text + "]+", "~~" + text), c == '~' ? "~~~" : "~~|" + text) << c;
    }
  }
  EXPECT_EQ(pieces("# a", "x# a"), "x|# a");
  EXPECT_EQ(pieces(std::string("\0", 1), std::string("a\0b", 3)), std::string("a|\0|b", 5));
}

}  // namespace
}  // namespace quire
