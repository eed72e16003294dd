// Models through the C interface: scopes, tokenizer calls, and errors that name the fault.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <quire/experimental.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

class ModelTest : public ::testing::Test {
 protected:
  OwnedRuntime runtime = make_runtime();
  OwnedModel model = load_model(runtime.get());
};

TEST_F(ModelTest, DescribesItself) {
  quire_model* const of = model.get();
  EXPECT_EQ(quire_model_vocab_size(of, nullptr), 160);
  EXPECT_EQ(quire_model_tokenizer_size(of, nullptr), 259);
  EXPECT_EQ(quire_model_num_layers(of, nullptr), 2);
  EXPECT_EQ(quire_model_hidden_size(of, nullptr), 64);
  EXPECT_EQ(quire_model_num_heads(of, nullptr), 4);
  EXPECT_EQ(quire_model_num_kv_heads(of, nullptr), 2);
  EXPECT_EQ(quire_model_max_context(of, nullptr), 4096);
  EXPECT_EQ(quire_model_bits_per_weight(of, nullptr), 16.0);
  EXPECT_GT(quire_model_weight_bytes(of, nullptr), 0);
  EXPECT_EQ(quire_model_drafter_bytes(of, nullptr), 0);
  // Two layers: q, k and v; then o, gate and up, down.
  EXPECT_EQ(quire_model_token_ops(of, nullptr), 2 * 2 * (64 * 128 + 64 * 64 + 64 * 192 + 96 * 64));
  EXPECT_EQ(quire_model_logit_ops(of, nullptr), 2 * 64 * 160);
  EXPECT_EQ(quire_model_special_token(of, QUIRE_TOKEN_BOS, nullptr), 1);
  EXPECT_EQ(quire_model_special_token(of, QUIRE_TOKEN_EOS, nullptr), 2);
  EXPECT_EQ(quire_model_special_token(of, QUIRE_TOKEN_PAD, nullptr), 0);
  Report report;
  EXPECT_EQ(quire_model_special_token(of, QUIRE_TOKEN_UNK, report.out()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_OK) << "none is no error";
  EXPECT_EQ(quire_model_special_token(of, 9, report.out()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
}

TEST_F(ModelTest, ListsItsTensors) {
  const int32_t num_tensors = quire_model_num_tensors(model.get(), nullptr);
  int64_t bytes = 0;
  int32_t last_layer = -1;
  for (int32_t i = 0; i < num_tensors; ++i) {
    bytes += quire_model_tensor_bytes(model.get(), i, nullptr);
    last_layer = std::max(last_layer, quire_model_tensor_layer(model.get(), i, nullptr));
  }
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(last_layer, 1);
  Report report;
  EXPECT_EQ(quire_model_tensor_bytes(model.get(), num_tensors, report.out()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
}

TEST_F(ModelTest, FindsTokens) {
  EXPECT_EQ(quire_model_find_token(model.get(), "</s>", 4, nullptr), 2);
  EXPECT_EQ(quire_model_find_token(model.get(), "none", 4, nullptr), -1);
  EXPECT_EQ(quire_model_is_special(model.get(), 2, nullptr), 1);
  EXPECT_EQ(quire_model_is_special(model.get(), 68, nullptr), 0);
  EXPECT_EQ(quire_model_is_special(model.get(), 259, nullptr), -1);
}

TEST_F(ModelTest, SpecialTextIsTextUnlessRequested) {
  const auto encode = [&](int32_t parse_special) {
    return quire_model_encode(model.get(), "</s>", 4, 0, parse_special, nullptr, 0, nullptr);
  };
  EXPECT_EQ(encode(0), 4);
  EXPECT_EQ(encode(1), 1);
  EXPECT_EQ(encode(2), -1);
}

TEST_F(ModelTest, RefusesTextThatIsNotUtf8) {
  Report report;
  EXPECT_EQ(quire_model_encode(model.get(), "ab\xff", 3, 0, 0, nullptr, 0, report.out()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_ENCODING) << report.message();
  EXPECT_NE(report.message().find('2'), std::string::npos) << "the offset: " << report.message();
}

TEST_F(ModelTest, RefusesIdsOutOfRange) {
  const std::vector<int32_t> ids = {5, 259};
  Report report;
  EXPECT_EQ(quire_model_decode(model.get(), ids.data(), ids.size(), 0, nullptr, 0, report.out()), -1);
  EXPECT_EQ(report.message(), "tokens[1]: 259 is not in 0 to 258");
  const int32_t negative = -1;
  EXPECT_EQ(quire_model_decode(model.get(), &negative, 1, 0, nullptr, 0, nullptr), -1);
}

TEST(ModelScope, ATokenizerAloneEncodes) {
  const OwnedRuntime runtime = make_runtime();
  for (const std::string& path : {tiny_model_path(), tiny_model_path() + "/tokenizer.json"}) {
    const OwnedModel model = load_model(runtime.get(), path, QUIRE_MODEL_SCOPE_TOKENIZER);
    EXPECT_EQ(quire_model_encode(model.get(), "abc", 3, 0, 0, nullptr, 0, nullptr), 3);
    Report report;
    EXPECT_EQ(quire_model_vocab_size(model.get(), report.out()), -1);
    EXPECT_EQ(report.code(), QUIRE_ERROR_UNSUPPORTED) << report.message();
    EXPECT_TRUE(std::isnan(quire_model_bits_per_weight(model.get(), report.out())));
    EXPECT_EQ(quire_cache_create(model.get(), nullptr, report.out()), nullptr);
    EXPECT_EQ(report.code(), QUIRE_ERROR_UNSUPPORTED) << report.message();
  }
}

TEST(ModelScope, MetadataPlansTheMemoryOfACache) {
  const OwnedRuntime runtime = make_runtime();
  const OwnedModel metadata = load_model(runtime.get(), tiny_model_path(), QUIRE_MODEL_SCOPE_METADATA);
  const OwnedModel full = load_model(runtime.get());
  const OwnedCacheOptions options(quire_cache_options_create(nullptr));
  quire_cache_options_set_max_tokens(options.get(), 1000, nullptr);
  const int64_t bytes = quire_cache_required_bytes(metadata.get(), options.get(), nullptr);
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(quire_cache_required_bytes(full.get(), options.get(), nullptr), bytes);
  const OwnedCache cache(quire_cache_create(full.get(), options.get(), nullptr));
  const OwnedStats stats(quire_cache_stats(cache.get(), nullptr));
  EXPECT_EQ(quire_stats_device_bytes(stats.get(), nullptr), bytes);
  EXPECT_EQ(quire_stats_pages_total(stats.get(), nullptr), 4) << "1000 tokens in pages of 256";
  EXPECT_EQ(quire_stats_page_tokens(stats.get(), nullptr), 256);
  Report report;
  EXPECT_EQ(quire_cache_create(metadata.get(), nullptr, report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_UNSUPPORTED) << report.message();
}

TEST(ModelLoad, NamesTheMissingPath) {
  const OwnedRuntime runtime = make_runtime();
  const OwnedModelOptions options(quire_model_options_create(nullptr));
  Report report;
  EXPECT_EQ(quire_model_load(runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()),
            nullptr);
  EXPECT_EQ(report.message(), "path: not set; give the directory of a model");
  const std::string path = "/nonexistent/model";
  quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr);
  EXPECT_EQ(quire_model_load(runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()),
            nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_NOT_FOUND);
  EXPECT_NE(report.message().find(path), std::string::npos) << report.message();
  const std::string there = QUIRE_EMBEDDED_MODEL;
  quire_model_options_set_path(options.get(), there.data(), there.size(), nullptr);
  quire_model_options_set_device(options.get(), "abacus", 6, nullptr);
  EXPECT_EQ(quire_model_load(runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()),
            nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_NOT_FOUND);
  EXPECT_NE(report.message().find("abacus"), std::string::npos) << report.message();
}

// Bytes of the keys and values of a token by format, from docs/formats.md: 2 x layers x kv heads x head dim
// elements.
TEST(ModelScope, MetadataPlansEachKvFormat) {
  const OwnedRuntime runtime = make_runtime();
  const OwnedModel model = load_model(runtime.get(), QUIRE_EMBEDDED_MODEL, QUIRE_MODEL_SCOPE_METADATA);
  const auto bytes = [&](int32_t format, int64_t max_tokens) {
    const OwnedCacheOptions options(quire_cache_options_create(nullptr));
    quire_cache_options_set_max_tokens(options.get(), max_tokens, nullptr);
    quire_cache_options_set_max_seq_len(options.get(), 512, nullptr);
    EXPECT_EQ(quire_cache_options_set_kv_format(options.get(), format, nullptr), 1);
    return quire_cache_required_bytes(model.get(), options.get(), nullptr);
  };
  constexpr double kElements = 8 * 2 * 64;
  const std::pair<int32_t, double> bits[] = {
      {QUIRE_KV_F16, 16}, {QUIRE_KV_Q8, 8.5}, {QUIRE_KV_Q6, 6.5}, {QUIRE_KV_Q4, 4.5}, {QUIRE_KV_FP8, 8}};
  for (const auto& [format, per_element] : bits) {
    const auto grown = static_cast<double>(bytes(format, 8192) - bytes(format, 4096));
    EXPECT_EQ(grown, 4096 * 2 * kElements * per_element / 8) << "format " << format;
  }
}

TEST(ModelLoad, ObeysTheMemoryBudget) {
  const OwnedRuntimeOptions options(quire_runtime_options_create(nullptr));
  quire_runtime_options_set_num_threads(options.get(), 1, nullptr);
  quire_runtime_options_set_memory_budget(options.get(), "cpu", 3, 1000, nullptr);
  const OwnedRuntime runtime(quire_runtime_create(options.get(), nullptr));
  const OwnedModelOptions load(quire_model_options_create(nullptr));
  quire_model_options_set_path(load.get(), tiny_model_path().data(), tiny_model_path().size(), nullptr);
  Report report;
  EXPECT_EQ(quire_model_load(runtime.get(), load.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_OUT_OF_MEMORY) << report.message();
}

TEST(Runtime, ListsItsDevices) {
  const OwnedRuntime runtime = make_runtime();
  EXPECT_GE(quire_runtime_num_devices(runtime.get(), nullptr), 1);
  EXPECT_GT(quire_runtime_device_memory_bytes(runtime.get(), 0, nullptr), 0);
  EXPECT_GT(quire_runtime_device_free_bytes(runtime.get(), 0, nullptr), 0);
  Report report;
  EXPECT_EQ(quire_runtime_device_memory_bytes(runtime.get(), 1000, report.out()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_GT(quire_runtime_measure_read_rate(runtime.get(), 0, 1 << 20, nullptr), 0);
  EXPECT_GT(quire_runtime_measure_op_rate(runtime.get(), 0, nullptr), 0);
  EXPECT_EQ(quire_runtime_measure_read_rate(runtime.get(), 0, 0, report.out()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(quire_runtime_measure_op_rate(runtime.get(), 1000, report.out()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  const OwnedRuntimeOptions options(quire_runtime_options_create(nullptr));
  quire_runtime_options_set_device(options.get(), "cuda:99", 7, nullptr);
  EXPECT_EQ(quire_runtime_create(options.get(), report.out()), nullptr);
  // Without the backend, or without a card, the error is the reason of that.
  EXPECT_TRUE(report.code() == QUIRE_ERROR_NOT_FOUND || report.code() == QUIRE_ERROR_UNSUPPORTED)
      << report.message();
  EXPECT_EQ(report.message().rfind("device: ", 0), 0U) << report.message();
}

}  // namespace
}  // namespace quire::testing
