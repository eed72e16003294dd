#include "core/kv/sequence_table.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace quire {
namespace {

PrefixRoot root_of(uint64_t content) {
  return {ContentId{content}, std::nullopt, nullptr};
}

TEST(SequenceTable, AnEntryIsReusedWithAnotherId) {
  SequenceTable table(8);
  const SequenceId first = table.add(root_of(3), true, true);
  Sequence& sequence = table.at(first);
  EXPECT_EQ(sequence.tail.value, 3U);
  EXPECT_GE(sequence.pages.capacity(), 8U);
  sequence.length = 5;
  table.remove(first);
  EXPECT_EQ(table.size(), 0);
  EXPECT_FALSE(sequence.is_in_use());
  const SequenceId second = table.add(root_of(4), false, false);
  EXPECT_NE(second.value, first.value);
  EXPECT_EQ(&table.at(second), &sequence);
  EXPECT_EQ(sequence.length, 0);
  EXPECT_EQ(sequence.tail.value, 4U);
  EXPECT_FALSE(sequence.reuse);
  EXPECT_FALSE(sequence.publish);
}

TEST(SequenceTable, IdsAreNeverGivenTwiceAndSequencesNeverMove) {
  SequenceTable table(1);
  std::mt19937 random(7);
  std::set<uint64_t> given;
  std::vector<std::pair<SequenceId, const Sequence*>> there;
  for (int step = 0; step < 2000; ++step) {
    if (there.empty() || random() % 2 == 0) {
      const SequenceId id = table.add(root_of(1), true, true);
      ASSERT_TRUE(given.insert(id.value).second) << step;
      there.emplace_back(id, &table.at(id));
    } else {
      const size_t idx = random() % there.size();
      table.remove(there[idx].first);
      there.erase(there.begin() + static_cast<ptrdiff_t>(idx));
    }
    ASSERT_EQ(table.size(), static_cast<int32_t>(there.size()));
    for (const auto& [id, sequence] : there) ASSERT_EQ(&table.at(id), sequence);
  }
}

}  // namespace
}  // namespace quire
