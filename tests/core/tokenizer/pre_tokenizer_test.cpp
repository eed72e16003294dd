#include "core/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "core/tokenizer/encode_scratch.h"

namespace quire {
namespace {

class Collector final : public PieceSink {
 public:
  void piece(const TextPiece& piece) override { pieces.emplace_back(piece.text); }
  std::vector<std::string> pieces;
};

using Pieces = std::vector<std::string>;

Pieces split(const PreTokenizer& pre_tokenizer, std::string_view text) {
  EncodeScratch scratch(text.size());
  Collector collector;
  pre_tokenizer.split({text, true}, scratch, collector);
  return collector.pieces;
}

Pieces split(const std::string& pattern, SplitBehavior behavior, bool invert, std::string_view text) {
  return split(SplitPreTokenizer(Regex(pattern, "pattern"), behavior, invert), text);
}

// Expected values from the reference library.
TEST(Split, FollowsEachBehavior) {
  using enum SplitBehavior;
  const std::string text = "--a-b--c-z-";
  const std::string pattern = "-+|z";
  EXPECT_EQ(split(pattern, removed, false, text), (Pieces{"a", "b", "c"}));
  EXPECT_EQ(split(pattern, removed, true, text), (Pieces{"--", "-", "--", "-", "z", "-"}));
  const Pieces all = {"--", "a", "-", "b", "--", "c", "-", "z", "-"};
  EXPECT_EQ(split(pattern, isolated, false, text), all);
  EXPECT_EQ(split(pattern, isolated, true, text), all);
  EXPECT_EQ(split(pattern, merged_with_previous, false, text), (Pieces{"--", "a-", "b--", "c-", "z", "-"}));
  EXPECT_EQ(split(pattern, merged_with_previous, true, text), (Pieces{"--a", "-b", "--c", "-", "z", "-"}));
  EXPECT_EQ(split(pattern, merged_with_next, false, text), (Pieces{"--a", "-b", "--c", "-", "z", "-"}));
  EXPECT_EQ(split(pattern, merged_with_next, true, text), (Pieces{"--", "a-", "b--", "c-", "z", "-"}));
  EXPECT_EQ(split(pattern, contiguous, false, text), (Pieces{"--", "a", "-", "b", "--", "c", "-z-"}));
  EXPECT_EQ(split(pattern, contiguous, true, text), (Pieces{"--", "a", "-", "b", "--", "c", "-z-"}));
  EXPECT_EQ(split("-", merged_with_previous, true, "--a-b--c"), (Pieces{"-", "-a", "-b", "-", "-c"}));
  EXPECT_EQ(split("-", merged_with_next, false, "--a-b--c"), (Pieces{"-", "-a", "-b", "-", "-c"}));
}

TEST(Split, HandlesEmptyMatches) {
  using enum SplitBehavior;
  EXPECT_EQ(split("", isolated, false, "ab"), (Pieces{"a", "b"}));
  EXPECT_EQ(split("", removed, true, "ab"), Pieces{});
  EXPECT_EQ(split("x*", isolated, false, "axbxx"), (Pieces{"a", "x", "b", "xx"}));
  EXPECT_EQ(split("x*", merged_with_previous, false, "axbxx"), (Pieces{"ax", "bxx"}));
  EXPECT_EQ(split("x*", merged_with_next, false, "axbxx"), (Pieces{"a", "xb", "xx"}));
}

TEST(Sequence, EachStepSeesOnlyItsPiece) {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  steps.push_back(std::make_unique<SplitPreTokenizer>(Regex("-", "p"), SplitBehavior::isolated, false));
  steps.push_back(std::make_unique<PrefixSpacePreTokenizer>());
  steps.push_back(
      std::make_unique<SplitPreTokenizer>(Regex("(?<=-)b| ", "p"), SplitBehavior::isolated, false));
  EXPECT_EQ(split(PreTokenizerSequence(std::move(steps)), "a-b"), (Pieces{" ", "a", " ", "-", " ", "b"}));
}

TEST(PrefixSpace, IsAddedOnlyIfMissing) {
  EXPECT_EQ(split(PrefixSpacePreTokenizer(), "ab"), Pieces{" ab"});
  EXPECT_EQ(split(PrefixSpacePreTokenizer(), " ab"), Pieces{" ab"});
  EXPECT_EQ(split(PrefixSpacePreTokenizer(), "\tab"), Pieces{" \tab"});
}

}  // namespace
}  // namespace quire
