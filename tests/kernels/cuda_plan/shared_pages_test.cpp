// Every shared key is read once for all sequences that share it, and never twice; checked against the page
// tables.
#include "kernels/cuda/plan/shared_pages.h"

#include <algorithm>
#include <bit>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace quire::kernels {
namespace {

struct Step {
  int32_t page_tokens = 256;
  int32_t stride = 0;
  std::vector<int32_t> lengths;
  std::vector<int32_t> table;

  // Builds sequences as a cache with shared prefixes does: each continues after a page of another sequence or
  // from the start.
  static Step random(std::mt19937& random, int32_t sequences, int32_t most_pages, int32_t starts) {
    Step step;
    step.stride = most_pages + 1;
    std::vector<std::vector<int32_t>> rows;
    int32_t next_page = 1;
    const auto below = [&](int32_t end) {
      return static_cast<int32_t>(random() % static_cast<uint32_t>(end));
    };
    for (int32_t s = 0; s < sequences; ++s) {
      std::vector<int32_t> row;
      if (s >= starts) {
        const auto& from = rows[static_cast<size_t>(below(s))];
        row.assign(from.begin(), from.end() - 1 - below(std::min(2, static_cast<int32_t>(from.size()))));
      }
      const int32_t pages = s < starts
                                ? 1 + below(most_pages)
                                : std::min(static_cast<int32_t>(row.size()) + 1 + below(2), most_pages + 1);
      while (static_cast<int32_t>(row.size()) < pages) row.push_back(next_page++);
      // The last page is the sequence's own, and the token is at a random position in it.
      step.lengths.push_back((pages - 1) * step.page_tokens + 1 + below(step.page_tokens));
      rows.push_back(row);
      row.resize(static_cast<size_t>(step.stride), 0);
      step.table.insert(step.table.end(), row.begin(), row.end());
    }
    return step;
  }
  int32_t sequences() const { return static_cast<int32_t>(lengths.size()); }
  int32_t page(int32_t s, int32_t depth) const {
    return table[static_cast<size_t>(s) * static_cast<size_t>(stride) + static_cast<size_t>(depth)];
  }
  int32_t whole_pages(int32_t s) const { return (lengths[static_cast<size_t>(s)] - 1) / page_tokens; }
};

struct Found {
  std::vector<int32_t> members, counts;
  std::vector<SharedPage> pages;
};

Found find(const Step& step) {
  BatchView batch;
  batch.num_sequences = step.sequences();
  batch.page_tokens = step.page_tokens;
  batch.page_table_stride = step.stride;
  batch.kv_lengths = step.lengths.data();
  batch.page_table = step.table.data();
  Found found;
  found.members.assign(step.lengths.size(), -1);
  found.counts.assign(step.lengths.size(), -1);
  found.pages.assign(kMaxSharedPages, {-1, -1, -1});
  const int32_t count = find_shared_pages(batch, batch.num_sequences,
                                          {found.members.data(), found.counts.data(), found.pages.data()});
  EXPECT_LE(count, kMaxSharedPages);
  found.pages.resize(static_cast<size_t>(count));
  return found;
}

// Counts the sequences that begin with the same pages up to and including this one.
int32_t count_sharing(const Step& step, int32_t s, int32_t depth) {
  int32_t count = 0;
  for (int32_t other = 0; other < step.sequences(); ++other) {
    if (step.whole_pages(other) <= depth) continue;
    int32_t d = 0;
    while (d <= depth && step.page(other, d) == step.page(s, d)) ++d;
    if (d > depth) ++count;
  }
  return count;
}

void expect_each_read_once(const Step& step, const Found& found) {
  std::set<int32_t> all(found.members.begin(), found.members.end());
  EXPECT_EQ(all.size(), step.lengths.size());
  EXPECT_EQ(*all.begin(), 0);
  std::set<std::pair<int32_t, int32_t>> read;  // sequence, page
  for (const SharedPage& page : found.pages) {
    ASSERT_LE(page.num_members, 64);
    for (int32_t i = 0; i < page.num_members; ++i) {
      const int32_t s = found.members[static_cast<size_t>(page.first_member) + static_cast<size_t>(i)];
      EXPECT_EQ(step.page(s, page.index),
                step.page(found.members[static_cast<size_t>(page.first_member)], page.index));
      EXPECT_TRUE(read.emplace(s, page.index).second) << "sequence " << s << ", page " << page.index;
    }
  }
  for (int32_t s = 0; s < step.sequences(); ++s) {
    const int32_t count = found.counts[static_cast<size_t>(s)];
    ASSERT_LE(count, step.whole_pages(s));
    for (int32_t depth = 0; depth < step.whole_pages(s); ++depth)
      EXPECT_EQ(read.count({s, depth}), depth < count ? 1U : 0U) << "sequence " << s << ", page " << depth;
  }
}

TEST(SharedPages, EachSharedPageIsReadOnce) {
  std::mt19937 random(7);
  int32_t num_shared = 0;
  for (int32_t round = 0; round < 800; ++round) {
    const Step step =
        Step::random(random, 2 + static_cast<int32_t>(random() % 150),
                     1 + static_cast<int32_t>(random() % 24), 1 + static_cast<int32_t>(random() % 3));
    const Found found = find(step);
    if (found.pages.empty()) continue;
    ++num_shared;
    EXPECT_TRUE(std::has_single_bit(found.pages.size()));
    EXPECT_GE(found.pages.size(), 16U);
    expect_each_read_once(step, found);
    // No page shared by two sequences is left to be read by each.
    for (int32_t s = 0; s < step.sequences(); ++s) {
      const int32_t count = found.counts[static_cast<size_t>(s)];
      EXPECT_TRUE(count == 0 || count_sharing(step, s, count - 1) > 1);
      EXPECT_TRUE(count == step.whole_pages(s) || count_sharing(step, s, count) == 1);
    }
  }
  EXPECT_GT(num_shared, 200);
}

// Many sequences with one prefix: few groups of members if there are many pages, and many if there are few.
TEST(SharedPages, RunsAreLongIfTheCardStaysBusy) {
  const auto longest_run = [](int32_t sequences, int32_t prefix_pages) {
    std::mt19937 random(1);
    Step step;
    step.stride = prefix_pages + 1;
    for (int32_t s = 0; s < sequences; ++s) {
      for (int32_t d = 0; d < prefix_pages; ++d) step.table.push_back(100 + d);
      step.table.push_back(1000 + s);
      step.lengths.push_back(prefix_pages * step.page_tokens + 1 + static_cast<int32_t>(random() % 100));
    }
    const Found found = find(step);
    expect_each_read_once(step, found);
    int32_t longest = 0;
    for (const SharedPage& page : found.pages) longest = std::max(longest, page.num_members);
    return longest;
  };
  EXPECT_EQ(longest_run(200, 32), 50);
  EXPECT_EQ(longest_run(200, 3), 29);
  EXPECT_EQ(longest_run(100, 3), 15);
}

TEST(SharedPages, FewSharedPagesAreIgnored) {
  const auto shares = [](int32_t sequences, int32_t prefix_pages, int32_t own_pages,
                         int32_t page_tokens = 256) {
    Step step;
    step.page_tokens = page_tokens;
    step.stride = prefix_pages + own_pages + 1;
    for (int32_t s = 0; s < sequences; ++s) {
      for (int32_t d = 0; d < prefix_pages; ++d) step.table.push_back(1 + d);
      for (int32_t d = 0; d <= own_pages; ++d) step.table.push_back(1000 + s * (own_pages + 1) + d);
      step.lengths.push_back((prefix_pages + own_pages) * page_tokens + 1);
    }
    return !find(step).pages.empty();
  };
  EXPECT_TRUE(shares(41, 5, 0));
  EXPECT_FALSE(shares(40, 5, 0));   // 390 chunks are saved
  EXPECT_TRUE(shares(101, 9, 1));   // 1,800 of 2,121
  EXPECT_FALSE(shares(101, 9, 2));  // 1,800 of 2,323
  EXPECT_FALSE(shares(1, 100, 0));
  EXPECT_FALSE(shares(65, 8, 0, 64));  // pages smaller than a chunk
  EXPECT_FALSE(shares(65, 8, 0, 0));   // unknown page size
}

// The page that contains the token is the sequence's own, and later entries of the table are ignored.
TEST(SharedPages, PagesWithTheTokensAreNotShared) {
  Step step;
  step.stride = 8;
  for (int32_t s = 0; s < 300; ++s) {
    step.table.insert(step.table.end(), {1, 2, 3, 4, 5, 6, 0, 0});
    step.lengths.push_back(6 * 256);
  }
  const Found found = find(step);
  expect_each_read_once(step, found);
  for (const int32_t count : found.counts) EXPECT_EQ(count, 5);
}

TEST(SharedPages, PagesBeyondTheLimitAreReadBySequence) {
  Step step;
  step.stride = 2501;
  for (int32_t s = 0; s < 66; ++s) {
    for (int32_t d = 0; d < 2500; ++d) step.table.push_back(1 + d);
    step.table.push_back(10000 + s);
    step.lengths.push_back(2500 * 256 + 1);
  }
  const Found found = find(step);
  ASSERT_FALSE(found.pages.empty());
  expect_each_read_once(step, found);
  for (const int32_t count : found.counts) EXPECT_EQ(count, kMaxSharedPages / 2);
}

}  // namespace
}  // namespace quire::kernels
