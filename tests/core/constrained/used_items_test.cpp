#include "core/constrained/used_items.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Interner, EqualValuesShareANumberAndKeepTheirAddress) {
  Interner<std::string> texts;
  const std::string* first = nullptr;
  for (uint32_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(texts.number_of(std::to_string(i)), i);
    if (i == 0) first = &texts[0];
  }
  EXPECT_EQ(texts.number_of("500"), 500U);
  EXPECT_EQ(&texts[0], first);
  EXPECT_EQ(texts[999], "999");
}

TEST(UsedItems, ListsDoNotDependOnTheOrderOfItems) {
  UsedItems used;
  const uint32_t one = used.with(0, "1");
  const uint32_t both = used.with(one, "\"a\"");
  EXPECT_EQ(used.with(used.with(0, "\"a\""), "1"), both);
  EXPECT_EQ(used.with(one, "\"a\""), both);
  EXPECT_NE(one, both);
  EXPECT_TRUE(used.has(both, "1"));
  EXPECT_FALSE(used.has(one, "\"a\""));
  EXPECT_FALSE(used.has(0, "1"));
  ASSERT_EQ(used.of(both).size(), 2U);
  EXPECT_EQ(used.text(used.of(both)[0]), "1");
  EXPECT_EQ(used.text(used.of(both)[1]), "\"a\"");
}

}  // namespace
}  // namespace quire
