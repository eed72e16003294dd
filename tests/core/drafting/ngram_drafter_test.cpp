// Proposals compared with a naive search for the longest suffix.
#include "core/drafting/ngram_drafter.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace quire {
namespace {

// Returns what follows the newest of the longest earlier occurrences of the suffix.
TokenIds naive(const TokenIds& text, int32_t max_drafts) {
  const auto size = static_cast<int32_t>(text.size());
  int32_t best = -1;
  int32_t best_length = 0;
  for (int32_t end = 1; end < size; ++end) {
    int32_t length = 0;
    while (length < std::min(end, NgramDrafter::kMaxMatch) &&
           text[static_cast<size_t>(end - 1 - length)] == text[static_cast<size_t>(size - 1 - length)])
      ++length;
    if (length < NgramDrafter::kMinMatch || length < best_length) continue;
    best = end;
    best_length = length;
  }
  TokenIds drafts = text;
  for (int32_t i = 0; best >= 0 && i < max_drafts; ++i)
    drafts.push_back(drafts[static_cast<size_t>(best + i)]);
  return {drafts.begin() + size, drafts.end()};
}

// A job of a drafter.
class Follower {
 public:
  explicit Follower(Drafter& drafter, std::string name_space = {})
      : drafter_(drafter), name_space_(std::move(name_space)) {}

  TokenIds draft(const TokenIds& text, int32_t max_drafts) {
    TokenIds drafts;
    const DraftRequest request{text, num_unchanged_, max_drafts, &state_, name_space_, &drafts};
    drafter_.draft({&request, 1});
    num_unchanged_ = static_cast<int32_t>(text.size());
    return drafts;
  }
  void rewound_to(size_t size) { num_unchanged_ = std::min(num_unchanged_, static_cast<int32_t>(size)); }

 private:
  Drafter& drafter_;
  std::string name_space_;
  std::unique_ptr<DraftState> state_;
  int32_t num_unchanged_ = 0;
};

TEST(NgramDrafterTest, TheLongestSuffixDecides) {
  NgramDrafter drafter;
  Follower job(drafter);
  EXPECT_EQ(job.draft({1, 2, 3, 4, 9, 2, 3, 4, 5, 7, 7, 7, 1, 2, 3, 4}, 3), (TokenIds{9, 2, 3}));
}

TEST(NgramDrafterTest, TheNewestOfEqualMatchesDecides) {
  NgramDrafter drafter;
  Follower job(drafter);
  EXPECT_EQ(job.draft({1, 2, 3, 8, 0, 1, 2, 3, 9, 5, 1, 2, 3}, 1), (TokenIds{9}));
}

TEST(NgramDrafterTest, ALoopGoesOnBeyondTheEndOfTheText) {
  NgramDrafter drafter;
  Follower job(drafter);
  EXPECT_EQ(job.draft({5, 6, 7, 5, 6, 7, 5, 6}, 7), (TokenIds{7, 5, 6, 7, 5, 6, 7}));
  Follower constant(drafter);
  EXPECT_EQ(constant.draft({4, 4, 4, 4}, 3), (TokenIds{4, 4, 4}));
}

TEST(NgramDrafterTest, TwoTokensInCommonAreTooFew) {
  NgramDrafter drafter;
  Follower job(drafter);
  EXPECT_EQ(job.draft({1, 2, 3, 4, 0, 2, 3}, 3), TokenIds{});
  for (const TokenIds& text : {TokenIds{1}, TokenIds{1, 1}, TokenIds{1, 1, 1}}) {
    Follower shorter(drafter);
    EXPECT_EQ(shorter.draft(text, 3), TokenIds{});
  }
}

// Texts over few letters repeat at every length. The number of places per bucket stays below the limit.
TEST(NgramDrafterTest, ProposalsEqualThoseOfANaiveSearch) {
  std::mt19937 random(11);
  int32_t num_proposals = 0;
  for (int32_t round = 0; round < 60; ++round) {
    NgramDrafter drafter;
    Follower job(drafter);
    const TokenId letters = 3 + round % 5;
    TokenIds text;
    for (int32_t step = 0; step < 300; ++step) {
      const bool repeats = text.size() > 40 && random() % 3 == 0;
      const size_t from = repeats ? random() % (text.size() - 20) : 0;
      for (size_t n = 1 + random() % 8; n > 0; --n)
        text.push_back(repeats ? text[from + n] : static_cast<TokenId>(random()) % letters + letters);
      if (text.size() > 250) {
        text.resize(random() % text.size());
        job.rewound_to(text.size());
      }
      if (text.empty()) continue;
      const auto max_drafts = 1 + static_cast<int32_t>(random() % 15);
      const TokenIds drafts = job.draft(text, max_drafts);
      ASSERT_EQ(drafts, naive(text, max_drafts)) << "round " << round << ", step " << step;
      num_proposals += drafts.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(num_proposals, 5000);
}

// With more places than are compared the proposal may be another one, but it continues a real occurrence.
TEST(NgramDrafterTest, AProposalAlwaysContinuesAnOccurrence) {
  std::mt19937 random(5);
  NgramDrafter drafter;
  Follower job(drafter);
  TokenIds text;
  for (int32_t step = 0; step < 3000; ++step) {
    text.push_back(static_cast<TokenId>(random() % 2));
    const TokenIds drafts = job.draft(text, 1);
    if (drafts.empty()) continue;
    TokenIds quoted(text.end() - NgramDrafter::kMinMatch, text.end());
    quoted.push_back(drafts.front());
    ASSERT_NE(std::search(text.begin(), text.end(), quoted.begin(), quoted.end()), text.end());
  }
}

TEST(NgramDrafterTest, MemoryIsCountedBoundedAndFreedWithTheJob) {
  constexpr uint64_t kMaxBytes = 20'000;
  NgramDrafter drafter(kMaxBytes);
  TokenIds text(600);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<TokenId>(i % 200);
  {
    Follower job(drafter);
    EXPECT_EQ(job.draft(text, 2), naive(text, 2));
    const uint64_t used = drafter.memory_bytes();
    EXPECT_GE(used, text.size() * 8);
    EXPECT_LE(used, kMaxBytes);
    Follower other(drafter);
    EXPECT_EQ(other.draft(text, 2), TokenIds{}) << "beyond the limit";
    EXPECT_EQ(drafter.memory_bytes(), used);
    EXPECT_EQ(job.draft(text, 2), naive(text, 2)) << "the first job keeps its text";
  }
  EXPECT_EQ(drafter.memory_bytes(), 0U);
  Follower late(drafter);
  EXPECT_EQ(late.draft(text, 2), naive(text, 2));
}

TEST(NgramDrafterTest, AnEarlierAnswerOfTheNamespaceGoesOn) {
  NgramDrafter drafter;
  drafter.remember("a", TokenIds{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const TokenIds text{20, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(Follower(drafter, "a").draft(text, 2), (TokenIds{8, 9}));
  EXPECT_EQ(Follower(drafter, "a").draft(text, 9), (TokenIds{8, 9, 10}))
      << "not beyond the end of the answer";
  EXPECT_EQ(Follower(drafter, "b").draft(text, 2), TokenIds{}) << "never to another namespace";
  EXPECT_EQ(Follower(drafter, "").draft(text, 2), TokenIds{});
  EXPECT_EQ(Follower(drafter, "a").draft({3, 4, 5, 6, 7}, 2), TokenIds{}) << "five tokens are too few";
}

TEST(NgramDrafterTest, ALongerMatchInTheOwnTextDecides) {
  NgramDrafter drafter;
  drafter.remember("a", TokenIds{2, 3, 4, 5, 6, 7, 60});
  drafter.remember("a", TokenIds{1, 1, 2, 3, 4, 5, 6, 7, 61});
  EXPECT_EQ(Follower(drafter, "a").draft({2, 3, 4, 5, 6, 7, 62, 9, 2, 3, 4, 5, 6, 7}, 1), (TokenIds{62}));
  EXPECT_EQ(Follower(drafter, "a").draft({2, 3, 4, 5, 6, 7, 62, 1, 1, 2, 3, 4, 5, 6, 7}, 1), (TokenIds{61}));
}

TEST(NgramDrafterTest, AnswersAreBoundedAndTheOldestNamespaceGoesFirst) {
  const uint64_t bytes_of_two = 2 * AnswerRing::bytes_of(AnswerStore::kRingTokens);
  NgramDrafter drafter(0, bytes_of_two);
  const TokenIds answer{1, 2, 3, 4, 5, 6, 7, 8};
  const TokenIds text{1, 2, 3, 4, 5, 6};
  for (const char* name : {"a", "b", "c"}) {
    drafter.remember(name, answer);
    EXPECT_LE(drafter.memory_bytes(), bytes_of_two);
  }
  EXPECT_EQ(Follower(drafter, "a").draft(text, 1), TokenIds{});
  EXPECT_EQ(Follower(drafter, "b").draft(text, 1), (TokenIds{7}));
  drafter.remember("d", answer);
  EXPECT_EQ(Follower(drafter, "b").draft(text, 1), (TokenIds{7})) << "c was used before b";
  EXPECT_EQ(Follower(drafter, "c").draft(text, 1), TokenIds{});
}

// Returns the longest match in the answers that a ring of `capacity` tokens still holds.
int32_t naive_length(const std::vector<TokenIds>& answers, size_t capacity, const TokenIds& history) {
  TokenIds all;
  for (const TokenIds& answer : answers) {
    all.insert(all.end(), answer.begin(), answer.end());
    all.push_back(-1);
  }
  const size_t first = all.size() - std::min(all.size(), capacity);
  int32_t best = 0;
  for (size_t end = first + 1; end <= all.size(); ++end) {
    int32_t length = 0;
    while (length < AnswerRing::kMaxMatch && static_cast<size_t>(length) < history.size() &&
           end - static_cast<size_t>(length) > first &&
           all[end - 1 - static_cast<size_t>(length)] ==
               history[history.size() - 1 - static_cast<size_t>(length)])
      ++length;
    if (length >= AnswerRing::kMinMatch) best = std::max(best, length);
  }
  return best;
}

// The ring is overwritten many times. Matches are rarer than the places that are tried.
TEST(AnswerRingTest, FindsTheLongestMatchOfWhatItHolds) {
  std::mt19937 random(5);
  AnswerRing ring(256);
  std::vector<TokenIds> answers;
  int32_t num_found = 0;
  for (int32_t round = 0; round < 400; ++round) {
    TokenIds answer;
    const auto size = 1 + random() % 60;
    for (size_t i = 0; i < size; ++i) answer.push_back(static_cast<TokenId>(random() % 3));
    ring.add(answer);
    answers.push_back(answer);
    TokenIds history = answers[answers.size() - 1 - random() % std::min<size_t>(answers.size(), 8)];
    history.resize(history.size() - random() % history.size());
    const AnswerRing::Match match = ring.find(history);
    const int32_t longest = naive_length(answers, 256, history);
    ASSERT_LE(match.length, longest) << round;
    ASSERT_EQ(match.length > 0, longest > 0) << round;
    num_found += match.length == longest && longest > 0 ? 1 : 0;
    TokenIds next;
    ring.read(match.next, 5, next);
    if (match.length == 0) continue;
    TokenIds seen(history.end() - match.length, history.end());
    seen.insert(seen.end(), next.begin(), next.end());
    const auto has = [&](const TokenIds& of) {
      return std::search(of.begin(), of.end(), seen.begin(), seen.end()) != of.end();
    };
    ASSERT_TRUE(std::any_of(answers.begin(), answers.end(), has)) << round;
  }
  EXPECT_GT(num_found, 150);
}

}  // namespace
}  // namespace quire
