// Option objects: each setter refuses values outside its range, and a refused setting keeps its old value.
#include <cmath>
#include <string>

#include <gtest/gtest.h>
#include <quire/cancel.h>
#include <quire/error.h>
#include <quire/options.h>

#include "capi/src/options_objects.h"

namespace quire::capi {
namespace {

// The error code of a call, and its text.
struct Report {
  quire_error* error = nullptr;
  ~Report() { quire_error_free(error); }
  int32_t code() const { return quire_error_code(error); }
  std::string message() const { return quire_error_message(error, nullptr); }
};

TEST(RuntimeOptions, KeepTheirValues) {
  quire_runtime_options* const options = quire_runtime_options_create(nullptr);
  EXPECT_EQ(quire_runtime_options_set_num_threads(options, 3, nullptr), 1);
  EXPECT_EQ(quire_runtime_options_set_device(options, "cuda:1xx", 6, nullptr), 1);
  EXPECT_EQ(quire_runtime_options_set_memory_budget(options, "cpu", 3, 1 << 30, nullptr), 1);
  const RuntimeSettings settings = Pinned(options, "options")->read();
  EXPECT_EQ(settings.num_threads, 3);
  EXPECT_EQ(settings.device, "cuda:1");
  EXPECT_EQ(settings.memory_budgets.at("cpu"), 1 << 30);
  EXPECT_EQ(quire_runtime_options_free(options, nullptr), 1);
}

TEST(RuntimeOptions, RefuseValuesOutOfRange) {
  quire_runtime_options* const options = quire_runtime_options_create(nullptr);
  EXPECT_EQ(quire_runtime_options_set_num_threads(options, 7, nullptr), 1);
  Report report;
  EXPECT_EQ(quire_runtime_options_set_num_threads(options, 1025, &report.error), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(report.message(), "num_threads: 1025 is not in 0 to 1024");
  EXPECT_EQ(Pinned(options, "options")->read().num_threads, 7);
  EXPECT_EQ(quire_runtime_options_set_log_level(options, QUIRE_LOG_DEBUG + 1, nullptr), 0);
  EXPECT_EQ(quire_runtime_options_set_memory_budget(options, "cpu", 3, -1, nullptr), 0);
  quire_runtime_options_free(options, nullptr);
}

TEST(ModelOptions, APathHasNoZeroByte) {
  quire_model_options* const options = quire_model_options_create(nullptr);
  Report report;
  EXPECT_EQ(quire_model_options_set_path(options, "a\0b", 3, &report.error), 0);
  EXPECT_EQ(report.message(), "path: a zero byte at offset 1; remove it");
  quire_model_options_free(options, nullptr);
}

TEST(ModelOptions, TextNeedsAnAddress) {
  quire_model_options* const options = quire_model_options_create(nullptr);
  Report report;
  EXPECT_EQ(quire_model_options_set_path(options, nullptr, 5, &report.error), 0);
  EXPECT_EQ(report.message(), "text: NULL with a length of 5; pass its address, or a length of 0");
  EXPECT_EQ(quire_model_options_set_path(options, nullptr, 0, nullptr), 1) << "empty";
  EXPECT_EQ(quire_model_options_set_path(options, "x", SIZE_MAX, nullptr), 0) << "more than any memory has";
  quire_model_options_free(options, nullptr);
}

TEST(ModelOptions, ShardsHaveARange) {
  quire_model_options* const options = quire_model_options_create(nullptr);
  EXPECT_EQ(quire_model_options_set_num_shards(options, 2, nullptr), 1);
  EXPECT_EQ(Pinned(options, "options")->read().num_shards, 2);
  EXPECT_EQ(quire_model_options_set_num_shards(options, 0, nullptr), 0);
  EXPECT_EQ(quire_model_options_set_num_shards(options, 65, nullptr), 0);
  quire_model_options_free(options, nullptr);
}

TEST(ModelOptions, ActivationsAreAnEnumValue) {
  quire_model_options* const options = quire_model_options_create(nullptr);
  EXPECT_EQ(Pinned(options, "options")->read().activation_dtype, QUIRE_ACTIVATION_FULL);
  EXPECT_EQ(quire_model_options_set_activation_dtype(options, QUIRE_ACTIVATION_I8, nullptr), 1);
  EXPECT_EQ(Pinned(options, "options")->read().activation_dtype, QUIRE_ACTIVATION_I8);
  Report report;
  EXPECT_EQ(quire_model_options_set_activation_dtype(options, 3, &report.error), 0);
  EXPECT_EQ(report.message(), "activation_dtype: 3 is not in 0 to 2");
  quire_model_options_free(options, nullptr);
}

TEST(ModelOptions, HostExpertsAreANameOrANumber) {
  quire_model_options* const options = quire_model_options_create(nullptr);
  const auto choice = [&] { return Pinned(options, "options")->read().host_experts; };
  EXPECT_FALSE(choice().any());
  EXPECT_EQ(quire_model_options_set_host_experts(options, "24", 2, nullptr), 1);
  EXPECT_EQ(choice().num_layers, 24);
  Report report;
  EXPECT_EQ(quire_model_options_set_host_experts(options, "most", 4, &report.error), 0);
  EXPECT_EQ(report.message(), "host_experts: \"most\" is invalid; use none, all, auto or a number of layers");
  EXPECT_EQ(choice().num_layers, 24);
  EXPECT_EQ(quire_model_options_set_host_experts(options, "auto", 4, nullptr), 1);
  EXPECT_TRUE(choice().is_automatic);
  EXPECT_EQ(quire_model_options_set_host_experts(options, nullptr, 0, nullptr), 1);
  EXPECT_FALSE(choice().any());
  quire_model_options_free(options, nullptr);
}

TEST(ModelOptions, ADrafterIsANameOrAPath) {
  quire_model_options* const options = quire_model_options_create(nullptr);
  const auto drafter = [&] { return Pinned(options, "options")->read().drafter; };
  EXPECT_EQ(drafter(), "auto");
  EXPECT_EQ(quire_model_options_set_drafter(options, "mtp", 3, nullptr), 1);
  EXPECT_EQ(drafter(), "mtp");
  Report report;
  EXPECT_EQ(quire_model_options_set_drafter(options, "a\0b", 3, &report.error), 0);
  EXPECT_EQ(report.message(), "drafter: a zero byte at offset 1; remove it");
  EXPECT_EQ(drafter(), "mtp");
  EXPECT_EQ(quire_model_options_set_drafter(options, nullptr, 0, nullptr), 1);
  EXPECT_EQ(drafter(), "auto");
  quire_model_options_free(options, nullptr);
}

TEST(EngineOptions, HaveRanges) {
  quire_cache_options* const options = quire_cache_options_create(nullptr);
  EXPECT_EQ(quire_cache_options_set_page_tokens(options, 4, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_page_tokens(options, 0, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_page_tokens(options, 4097, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_max_batch_size(options, 0, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_window_sequences(options, 4097, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_window_sequences(options, -1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_max_chunk_tokens(options, 65537, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_max_seq_len(options, -1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_max_tokens(options, -1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_min_tokens(options, -1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_page_idle_ns(options, -1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_max_queue(options, 0, nullptr), 0) << "every job passes through it";
  EXPECT_EQ(quire_cache_options_set_kv_format(options, QUIRE_KV_AUTO + 1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_max_overtakes(options, -1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_max_pinned_pages(options, -1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_card_expert_bytes(options, -1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_prefix_bytes(options, -1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_prefix_directory(options, "a\0b", 3, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_prefix_directory_bytes(options, -1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_ageing_ns(options, -1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_step_timeout_ns(options, -1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_close_timeout_ns(options, -1, nullptr), 0);
  EXPECT_EQ(Pinned(options, "options")->read().page_tokens, 4);
  quire_cache_options_free(options, nullptr);
}

TEST(EngineOptions, RefuseUnknownQuotas) {
  quire_cache_options* const options = quire_cache_options_create(nullptr);
  Report report;
  EXPECT_EQ(quire_cache_options_set_quota(options, QUIRE_QUOTA_PINNED_PAGES + 1, 1, &report.error), 0);
  EXPECT_EQ(report.message(), "quota: 4 is not in 0 to 3");
  EXPECT_EQ(quire_cache_options_set_quota(options, QUIRE_QUOTA_PAGES, -1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_namespace_quota(options, "n", 1, -1, 1, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_namespace_quota(options, "n", 1, QUIRE_QUOTA_PAGES, -1, nullptr), 0);
  for (const double weight : {0.0, -1.0, 1e7, std::nan("")}) {
    EXPECT_EQ(quire_cache_options_set_namespace_weight(options, "n", 1, weight, nullptr), 0) << weight;
  }
  for (const double weight : {0.0, -1.0, 1e7, std::nan("")}) {
    EXPECT_EQ(quire_cache_options_set_device_weight(options, weight, nullptr), 0) << weight;
  }
  for (const double stretch : {0.5, -1.0, 1001.0, std::nan("")}) {
    EXPECT_EQ(quire_cache_options_set_step_stretch(options, stretch, nullptr), 0) << stretch;
  }
  const std::string long_name(257, 'n');
  EXPECT_EQ(quire_cache_options_set_namespace_weight(options, long_name.data(), 257, 1.0, nullptr), 0);
  EXPECT_EQ(quire_cache_options_set_namespace_weight(options, long_name.data(), 256, 1.0, nullptr), 1);
  EXPECT_EQ(Pinned(options, "options")->read().namespaces.size(), 1U) << "what was refused leaves no entry";
  quire_cache_options_free(options, nullptr);
}

TEST(EngineOptions, NamespacesWithSettingsAreLimited) {
  quire_cache_options* const options = quire_cache_options_create(nullptr);
  const auto set = [&](size_t i, quire_error** error) {
    const std::string name = std::to_string(i);
    return quire_cache_options_set_namespace_quota(options, name.data(), name.size(), QUIRE_QUOTA_PAGES, 1,
                                                   error);
  };
  for (size_t i = 0; i < 1024; ++i) ASSERT_EQ(set(i, nullptr), 1);
  Report report;
  EXPECT_EQ(set(1024, &report.error), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(report.message().rfind("namespace: 1024 namespaces", 0), 0U) << report.message();
  EXPECT_EQ(set(5, nullptr), 1) << "one that is known may change";
  quire_cache_options_free(options, nullptr);
}

}  // namespace
}  // namespace quire::capi
