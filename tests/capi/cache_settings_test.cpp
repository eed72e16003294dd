// Settings of a quire_cache_options reach the engine.
#include "capi/src/cache_settings.h"

#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::capi {
namespace {

ModelCacheOptions engine_options_of(quire_cache_options* options) {
  return engine_options(Pinned(options, "options")->read());
}

TEST(CacheSettings, AreTheEnginesDefaultsIfUnset) {
  const testing::OwnedCacheOptions options(quire_cache_options_create(nullptr));
  const EngineOptions set = engine_options_of(options.get()).engine;
  const EngineOptions untouched;
  EXPECT_EQ(set.max_queued_jobs, untouched.max_queued_jobs);
  EXPECT_EQ(set.max_overtakes, untouched.max_overtakes);
  EXPECT_EQ(set.ageing_interval, untouched.ageing_interval);
  EXPECT_EQ(set.watchdog_timeout, untouched.watchdog_timeout);
  EXPECT_EQ(set.close_timeout, untouched.close_timeout);
  EXPECT_EQ(set.max_pinned_pages, untouched.max_pinned_pages);
  EXPECT_EQ(set.default_quota.max_pages, 0);
  EXPECT_EQ(set.default_quota.weight, 1.0);
  EXPECT_TRUE(set.namespaces.empty());
  EXPECT_EQ(set.drafting.drafter, untouched.drafting.drafter);
  EXPECT_EQ(set.drafting.max_drafts, untouched.drafting.max_drafts);
}

TEST(CacheSettings, ReachTheEngine) {
  const testing::OwnedCacheOptions options(quire_cache_options_create(nullptr));
  EXPECT_EQ(quire_cache_options_set_max_queue(options.get(), 11, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_max_overtakes(options.get(), 3, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_ageing_ns(options.get(), 5, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_step_timeout_ns(options.get(), 6, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_close_timeout_ns(options.get(), 7, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_max_pinned_pages(options.get(), 8, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_kv_format(options.get(), QUIRE_KV_Q6, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_device_weight(options.get(), 3.0, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_step_stretch(options.get(), 4.0, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_card_expert_bytes(options.get(), 8, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_prefix_bytes(options.get(), 9, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_prefix_directory(options.get(), "/kept", 5, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_prefix_directory_bytes(options.get(), 10, nullptr), 1);
  const ModelCacheOptions set = engine_options_of(options.get());
  EXPECT_EQ(set.card_expert_bytes, 8);
  EXPECT_EQ(set.engine.prefixes.host_bytes, 9U);
  EXPECT_EQ(set.engine.prefixes.directory, "/kept");
  EXPECT_EQ(set.engine.prefixes.directory_bytes, 10U);
  EXPECT_EQ(set.engine.max_queued_jobs, 11);
  EXPECT_EQ(set.engine.max_overtakes, 3);
  EXPECT_EQ(set.engine.ageing_interval, Duration(5));
  EXPECT_EQ(set.engine.watchdog_timeout, Duration(6));
  EXPECT_EQ(set.engine.close_timeout, Duration(7));
  EXPECT_EQ(set.engine.max_pinned_pages, 8);
  EXPECT_EQ(set.engine.device_weight, 3.0);
  EXPECT_EQ(set.engine.step_stretch, 4.0);
  EXPECT_EQ(set.key_format, kernels::KvFormat::q8);
  EXPECT_EQ(set.value_format, kernels::KvFormat::q4);
}

TEST(CacheSettings, DraftersReachTheEngine) {
  const testing::OwnedCacheOptions options(quire_cache_options_create(nullptr));
  const auto drafting_of = [&](int32_t drafter) {
    EXPECT_EQ(quire_cache_options_set_drafter(options.get(), drafter, nullptr), 1);
    return engine_options_of(options.get()).engine.drafting;
  };
  EXPECT_EQ(quire_cache_options_set_max_drafts(options.get(), 15, nullptr), 1);
  EXPECT_EQ(drafting_of(QUIRE_DRAFTER_NONE).drafter, DrafterKind::none);
  EXPECT_EQ(drafting_of(QUIRE_DRAFTER_NGRAM).drafter, DrafterKind::ngram);
  EXPECT_EQ(drafting_of(QUIRE_DRAFTER_NETWORK).drafter, DrafterKind::network);
  EXPECT_EQ(drafting_of(QUIRE_DRAFTER_AUTO).drafter, DrafterKind::automatic);
  EXPECT_EQ(drafting_of(QUIRE_DRAFTER_AUTO).max_drafts, 15);
}

TEST(CacheSettings, ANamespaceInheritsAllQuotasButItsOwn) {
  const testing::OwnedCacheOptions options(quire_cache_options_create(nullptr));
  // The order of calls does not matter: a quota for all also applies to a namespace that was named before.
  quire_cache_options_set_namespace_quota(options.get(), "a\0b", 3, QUIRE_QUOTA_PAGES, 0, nullptr);
  quire_cache_options_set_namespace_weight(options.get(), "a\0b", 3, 2.5, nullptr);
  quire_cache_options_set_quota(options.get(), QUIRE_QUOTA_RUNNING_JOBS, 2, nullptr);
  quire_cache_options_set_quota(options.get(), QUIRE_QUOTA_QUEUED_JOBS, 3, nullptr);
  quire_cache_options_set_quota(options.get(), QUIRE_QUOTA_PAGES, 4, nullptr);
  quire_cache_options_set_quota(options.get(), QUIRE_QUOTA_PINNED_PAGES, 5, nullptr);
  quire_cache_options_set_namespace_quota(options.get(), nullptr, 0, QUIRE_QUOTA_QUEUED_JOBS, 9, nullptr);
  const EngineOptions set = engine_options_of(options.get()).engine;
  EXPECT_EQ(set.default_quota.max_running_jobs, 2);
  EXPECT_EQ(set.default_quota.max_queued_jobs, 3);
  EXPECT_EQ(set.default_quota.max_pages, 4);
  EXPECT_EQ(set.default_quota.max_pinned_pages, 5);
  ASSERT_EQ(set.namespaces.size(), 2U);
  EXPECT_EQ(set.namespaces[0].name, "") << "a namespace like any other";
  EXPECT_EQ(set.namespaces[0].quota.max_queued_jobs, 9);
  EXPECT_EQ(set.namespaces[0].quota.max_pages, 4);
  EXPECT_EQ(set.namespaces[1].name, std::string("a\0b", 3));
  EXPECT_EQ(set.namespaces[1].quota.max_pages, 0) << "no limit, though others have one";
  EXPECT_EQ(set.namespaces[1].quota.max_running_jobs, 2);
  EXPECT_EQ(set.namespaces[1].quota.weight, 2.5);
}

}  // namespace
}  // namespace quire::capi
