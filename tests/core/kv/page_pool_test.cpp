#include "core/kv/page_pool.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire {
namespace {

TokenIds tokens_from(TokenId first, int32_t count) {
  TokenIds tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

// Returns a cached page: a whole page, published and released.
PageId cache_page(PagePool& pool, ContentId parent, const TokenIds& tokens) {
  const PageId page = pool.allocate();
  pool.record(page, 0, tokens);
  pool.show(page, parent);
  const PageId kept = pool.publish(page);
  if (kept != page) pool.reference(kept);
  if (kept != page) pool.release(page);
  return kept;
}

// Runs with both hash widths: every rule must hold even if all pages collide.
class PagePoolTest : public ::testing::TestWithParam<int32_t> {
 protected:
  PagePool pool_{{8, 4, GetParam()}};
  ContentId root_ = pool_.new_content();
  const std::function<bool(PageId)> any_ = [](PageId) { return true; };
};

TEST_P(PagePoolTest, APageIsFreeCachedOrReferenced) {
  EXPECT_EQ(pool_.num_free(), 8);
  const PageId page = cache_page(pool_, root_, tokens_from(1, 4));
  EXPECT_EQ(pool_.num_referenced(), 1);
  pool_.release(page);
  EXPECT_EQ(pool_.num_cached(), 1);
  EXPECT_EQ(pool_.num_available(), 8);
  EXPECT_EQ(pool_.audit(std::vector<int32_t>(8, 0)), "");
}

TEST_P(PagePoolTest, OnlyTheSameTokensAfterTheSameParentAreFound) {
  const PageId page = cache_page(pool_, root_, tokens_from(1, 4));
  const ContentId other = pool_.new_content();
  EXPECT_EQ(pool_.find(root_, tokens_from(1, 4)), page);
  EXPECT_LT(pool_.find(root_, tokens_from(2, 4)).value, 0);
  EXPECT_LT(pool_.find(other, tokens_from(1, 4)).value, 0);
}

TEST_P(PagePoolTest, PublishReturnsTheExistingPageOfTheSameTokens) {
  const PageId first = cache_page(pool_, root_, tokens_from(1, 4));
  const PageId second = cache_page(pool_, root_, tokens_from(1, 4));
  EXPECT_EQ(first, second);
  EXPECT_EQ(pool_.ref_count(first), 2);
  EXPECT_EQ(pool_.num_free(), 7) << "the duplicate holds nothing any more";
}

TEST_P(PagePoolTest, TheLongestMatchingBeginningOfAPageIsFound) {
  const PageId page = pool_.allocate();
  pool_.record(page, 0, TokenIds{5, 6, 7});
  pool_.show(page, root_);
  const auto match = pool_.find_longest(root_, TokenIds{5, 6, 9, 9}, any_);
  EXPECT_EQ(match.page, page);
  EXPECT_EQ(match.num_tokens, 2);
  EXPECT_EQ(pool_.find_longest(root_, TokenIds{9}, any_).num_tokens, 0);
}

TEST_P(PagePoolTest, TheLeastRecentlyUsedPageIsEvictedTailFirst) {
  std::vector<PageId> chain;
  ContentId parent = root_;
  for (int32_t i = 0; i < 3; ++i) {
    chain.push_back(cache_page(pool_, parent, tokens_from(10 * i, 4)));
    parent = pool_.content(chain.back());
  }
  for (size_t i = chain.size(); i-- > 0;) pool_.release(chain[i]);
  for (int32_t i = 0; i < 5; ++i) pool_.allocate();  // the free pages
  EXPECT_EQ(pool_.allocate(), chain[2]);
  EXPECT_EQ(pool_.allocate(), chain[1]);
  EXPECT_EQ(pool_.find(root_, tokens_from(0, 4)), chain[0]) << "the head of the chain is evicted last";
  EXPECT_EQ(pool_.num_evicted(), 2U);
}

TEST_P(PagePoolTest, AFullPoolThrowsCapacity) {
  for (int32_t i = 0; i < 8; ++i) pool_.allocate();
  try {
    pool_.allocate();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::capacity);
  }
}

TEST_P(PagePoolTest, AuditFindsAnUnaccountedReference) {
  pool_.allocate();
  EXPECT_NE(pool_.audit(std::vector<int32_t>(8, 0)), "");
}

INSTANTIATE_TEST_SUITE_P(HashBits, PagePoolTest, ::testing::Values(1, 4, 64));

TEST(ElasticPagePool, TheLowestFreePageIsTakenFirst) {
  PagePool pool({200, 4, 64});
  std::vector<PageId> pages;
  for (int32_t i = 0; i < 150; ++i) {
    pages.push_back(pool.allocate());
    EXPECT_EQ(pages.back().value, i);
  }
  for (const int32_t slot : {140, 3, 70}) pool.release(PageId{slot});
  EXPECT_EQ(pool.allocate().value, 3);
  EXPECT_EQ(pool.allocate().value, 70);
  EXPECT_EQ(pool.allocate().value, 140);
  EXPECT_EQ(pool.allocate().value, 150);
}

TEST(ElasticPagePool, PagesWithoutMemoryAreNeitherFreeNorTaken) {
  PagePool pool({8, 4, 64, 2});
  EXPECT_EQ(pool.num_pages(), 2);
  EXPECT_EQ(pool.max_pages(), 8);
  EXPECT_EQ(pool.num_available(), 2);
  pool.allocate();
  pool.allocate();
  EXPECT_THROW(pool.allocate(), Error);
  pool.grow(5);
  EXPECT_EQ(pool.allocate().value, 2);
  EXPECT_EQ(pool.num_free(), 2);
  EXPECT_TRUE(pool.is_used_after(2));
  EXPECT_FALSE(pool.is_used_after(3));
  pool.shrink(3);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.audit(std::vector<int32_t>{1, 1, 1, 0, 0, 0, 0, 0}), "");
}

TEST(ElasticPagePool, PagesThatLoseTheirMemoryAreNotFound) {
  PagePool pool({8, 4, 64, 3});
  const ContentId root = pool.new_content();
  const PageId first = cache_page(pool, root, tokens_from(1, 4));
  const PageId second = cache_page(pool, pool.content(first), tokens_from(5, 4));
  const ContentId of_first = pool.content(first);
  pool.release(second);
  pool.release(first);
  pool.shrink(1);
  EXPECT_EQ(pool.find(root, tokens_from(1, 4)), first);
  EXPECT_LT(pool.find(of_first, tokens_from(5, 4)).value, 0);
  EXPECT_EQ(pool.num_evicted(), 1U);
  EXPECT_EQ(pool.audit(std::vector<int32_t>(8, 0)), "");
  pool.shrink(0);
  EXPECT_LT(pool.find(root, tokens_from(1, 4)).value, 0);
  EXPECT_EQ(pool.audit(std::vector<int32_t>(8, 0)), "");
}

TEST(ElasticPagePool, PagesThatContinueAPageWithoutMemoryAreEvictedToo) {
  PagePool pool({8, 4, 64});
  const ContentId root = pool.new_content();
  const PageId hole = pool.allocate();
  const PageId first = cache_page(pool, root, tokens_from(1, 4));
  pool.release(hole);
  // Takes the free page before it.
  const PageId second = cache_page(pool, pool.content(first), tokens_from(5, 4));
  const PageId other = cache_page(pool, root, tokens_from(50, 4));
  for (const PageId page : {other, second, first}) pool.release(page);
  ASSERT_LT(second, first);
  EXPECT_EQ(pool.cached_after(1), (std::vector<PageId>{other, second, first}));
  EXPECT_EQ(pool.cached_after(2), (std::vector<PageId>{other}));
}

TEST(ElasticPagePool, PagesThatWereHeldOrFoundCountAsUsed) {
  PagePool pool({8, 4, 64});
  const ContentId root = pool.new_content();
  const PageId cached = cache_page(pool, root, tokens_from(1, 4));
  const PageId held = pool.allocate();
  pool.release(cached);
  EXPECT_EQ(pool.take_num_used(), 2);
  EXPECT_EQ(pool.take_num_used(), 1) << "one is still held";
  pool.touch(cached);
  pool.touch(cached);
  EXPECT_EQ(pool.take_num_used(), 2);
  pool.release(held);
  EXPECT_EQ(pool.take_num_used(), 1) << "held at the last call";
  EXPECT_EQ(pool.take_num_used(), 0);
}

}  // namespace
}  // namespace quire
