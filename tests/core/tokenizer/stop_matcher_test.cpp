#include "core/tokenizer/stop_matcher.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"
#include "tests/support/case_stride.h"

namespace quire {
namespace {

using Strings = std::vector<std::string>;

struct Found {
  std::string text;  // text before the match, or the whole text
  bool stopped = false;
  std::string match;
};

// Searches by the definition: the smallest end, then the longest string.
Found search_by_definition(const Strings& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string longest;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0 &&
          stop.size() > longest.size()) {
        longest = stop;
      }
    }
    if (!longest.empty()) return {text.substr(0, end - longest.size()), true, longest};
  }
  return {text, false, ""};
}

Found search_in_pieces(const Strings& stops, const Strings& pieces) {
  StopMatcher matcher(stops);
  const size_t longest = std::max_element(stops.begin(), stops.end(), [](const auto& a, const auto& b) {
                           return a.size() < b.size();
                         })->size();
  Found found;
  size_t num_pushed = 0;
  for (const std::string& piece : pieces) {
    num_pushed += piece.size();
    const bool stopped = matcher.push(piece, found.text);
    EXPECT_EQ(stopped, matcher.stopped());
    EXPECT_LE(matcher.num_held_bytes(), longest - 1);
    if (!stopped) {
      EXPECT_EQ(found.text.size() + matcher.num_held_bytes(), num_pushed);
    }
    EXPECT_EQ(find_invalid_utf8(found.text), found.text.size());  // output consists of whole characters
  }
  matcher.finish(found.text);
  found.stopped = matcher.stopped();
  if (found.stopped) found.match = stops[*matcher.matched()];
  return found;
}

std::string random_string(std::mt19937& random, size_t max_characters) {
  static const Strings kAlphabet = {
      "a", "b", "a", "b", "c", utf8(U"\u00e9"), utf8(U"\u00e8"), utf8(U"\u4e2d")};
  std::string text;
  for (size_t i = random() % (max_characters + 1); i-- > 0;) text += kAlphabet[random() % kAlphabet.size()];
  return text;
}

Strings random_pieces(std::mt19937& random, const std::string& text) {
  Strings pieces;
  std::string piece;
  for (size_t pos = 0; pos < text.size();) {
    const size_t length = decode_utf8(text, pos).length;
    piece += text.substr(pos, length);
    pos += length;
    if (random() % 3 == 0) {
      pieces.push_back(piece);
      piece.clear();
    }
    if (random() % 10 == 0) pieces.emplace_back();
  }
  pieces.push_back(piece);
  return pieces;
}

TEST(StopMatcher, MatchesTheDefinitionForAnySegmentationAndOrder) {
  std::mt19937 random(21);
  size_t num_stopped = 0;
  const size_t num_rounds = 200000 / static_cast<size_t>(testing::stride_if_sanitized(50));
  for (size_t round = 0; round < num_rounds; ++round) {
    Strings stops;
    for (size_t i = 1 + random() % 4; i-- > 0;)
      stops.push_back(random_string(random, 4) + "ab"[random() % 2]);
    const std::string text = random_string(random, 14);
    const Found expected = search_by_definition(stops, text);
    const Found found = search_in_pieces(stops, random_pieces(random, text));
    ASSERT_EQ(found.text, expected.text) << text;
    ASSERT_EQ(found.stopped, expected.stopped) << text;
    ASSERT_EQ(found.match, expected.match) << text;
    std::shuffle(stops.begin(), stops.end(), random);
    ASSERT_EQ(search_in_pieces(stops, {text}).text, expected.text);
    num_stopped += found.stopped ? 1 : 0;
  }
  EXPECT_GT(num_stopped, num_rounds / 10);
  EXPECT_LT(num_stopped, num_rounds * 9 / 10);
}

TEST(StopMatcher, MatchThatEndsFirstWins) {
  for (const Strings& stops : {Strings{"abcX", "b"}, Strings{"b", "abcX"}}) {
    const Found found = search_in_pieces(stops, {"ab"});
    EXPECT_EQ(found.text, "a");
    EXPECT_EQ(found.match, "b");
  }
}

TEST(StopMatcher, OutputsNothingAfterAMatch) {
  StopMatcher matcher(Strings{"stop"});
  std::string out;
  EXPECT_FALSE(matcher.push("one st", out));
  EXPECT_EQ(out, "one ");
  EXPECT_EQ(matcher.num_held_bytes(), 2U);
  EXPECT_TRUE(matcher.push("op two", out));
  EXPECT_TRUE(matcher.push(" three", out));
  matcher.finish(out);
  EXPECT_EQ(out, "one ");
  EXPECT_EQ(matcher.matched(), 0U);
}

TEST(StopMatcher, OutputsHeldTextAtTheEnd) {
  StopMatcher matcher(Strings{"stop"});
  std::string out;
  matcher.push("sto", out);
  EXPECT_EQ(out, "");
  matcher.finish(out);
  EXPECT_EQ(out, "sto");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, CopiesAreIndependent) {
  StopMatcher matcher(Strings{"abc"});
  std::string out;
  matcher.push("ab", out);
  StopMatcher fork = matcher;
  std::string fork_out;
  EXPECT_FALSE(fork.push("d", fork_out));
  EXPECT_EQ(fork_out, "abd");
  EXPECT_TRUE(matcher.push("c", out));
  EXPECT_EQ(out, "");
}

TEST(StopMatcher, PassesAllTextWithoutStopStrings) {
  for (StopMatcher matcher : {StopMatcher(), StopMatcher(Strings{})}) {
    std::string out;
    EXPECT_FALSE(matcher.push("text", out));
    EXPECT_EQ(out, "text");
    EXPECT_EQ(matcher.num_held_bytes(), 0U);
  }
}

TEST(StopMatcher, RefusesInvalidStopStrings) {
  EXPECT_THROW(StopMatcher(Strings{"a", ""}), Error);
  EXPECT_THROW(StopMatcher(Strings{"\xe4\xb8"}), Error);
  EXPECT_THROW(StopMatcher(Strings{std::string((1U << 20) + 1, 'a')}), Error);
}

// A long stop string that almost matches everywhere: never holds more than allowed, and outputs all text in
// the end.
TEST(StopMatcher, HandlesLongNearMatches) {
  const Strings stops = {std::string(4000, 'a') + "b"};
  StopMatcher matcher(stops);
  std::string out;
  for (int i = 0; i < 100000; ++i) {
    ASSERT_FALSE(matcher.push("a", out));
    ASSERT_LE(matcher.num_held_bytes(), 4000U);
  }
  matcher.finish(out);
  EXPECT_EQ(out, std::string(100000, 'a'));
}

}  // namespace
}  // namespace quire
