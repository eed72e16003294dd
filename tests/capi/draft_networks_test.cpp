// Draft networks through the C interface: which one is loaded with a model, its memory, its logits,
// and refusals.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include <gtest/gtest.h>
#include <quire/experimental.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

const std::string kGolden = QUIRE_SHARED_DIR "/golden/mtp";
const std::string kStory = QUIRE_SHARED_DIR "/models/story-15m";

class DraftNetworksTest : public ::testing::Test {
 protected:
  static bool has(const std::string& path) { return std::filesystem::is_directory(path); }

  static OwnedModelOptions options_of(const std::string& path, const std::string& drafter) {
    OwnedModelOptions options(quire_model_options_create(nullptr));
    EXPECT_EQ(quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr), 1);
    EXPECT_EQ(quire_model_options_set_drafter(options.get(), drafter.data(), drafter.size(), nullptr), 1);
    return options;
  }

  OwnedModel load(const std::string& path, const std::string& drafter,
                  int32_t scope = QUIRE_MODEL_SCOPE_FULL) const {
    const OwnedModelOptions options = options_of(path, drafter);
    EXPECT_EQ(quire_model_options_set_scope(options.get(), scope, nullptr), 1);
    Report report;
    OwnedModel model(
        quire_model_load(runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()));
    EXPECT_TRUE(model) << report.message();
    return model;
  }

  OwnedPlan plan(const std::string& path, const std::string& drafter) const {
    const OwnedModelOptions options = options_of(path, drafter);
    Report report;
    OwnedPlan plan(quire_plan_create(runtime.get(), options.get(), nullptr, report.out()));
    EXPECT_TRUE(plan) << report.message();
    return plan;
  }

  // Expects that neither a load nor a plan accepts the drafter.
  void expect_refused(const std::string& path, const std::string& drafter, int32_t code,
                      const std::string& says) const {
    const OwnedModelOptions options = options_of(path, drafter);
    Report load_report;
    Report plan_report;
    EXPECT_EQ(quire_model_load(runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, load_report.out()),
              nullptr);
    EXPECT_EQ(quire_plan_create(runtime.get(), options.get(), nullptr, plan_report.out()), nullptr);
    for (const Report* report : {&load_report, &plan_report}) {
      EXPECT_EQ(report->code(), code) << report->message();
      EXPECT_EQ(report->parameter(), "drafter");
      EXPECT_NE(report->message().find(says), std::string::npos) << report->message();
    }
  }

  template <typename Handle>
  static std::string name_by(int64_t (*get)(Handle*, char*, size_t, quire_error**), Handle* of) {
    std::string name(1024, '\0');
    const int64_t length = get(of, name.data(), name.size(), nullptr);
    EXPECT_GE(length, 0);
    name.resize(static_cast<size_t>(length));
    return name;
  }
  static std::string name_of(const OwnedModel& model) { return name_by(quire_model_drafter, model.get()); }
  static std::string name_of(const OwnedPlan& plan) { return name_by(quire_plan_drafter, plan.get()); }

  static OwnedCache make_cache(const OwnedModel& model, int32_t drafter, Report& report) {
    const OwnedCacheOptions options(quire_cache_options_create(nullptr));
    quire_cache_options_set_max_tokens(options.get(), 1024, nullptr);
    quire_cache_options_set_drafter(options.get(), drafter, nullptr);
    return OwnedCache(quire_cache_create(model.get(), options.get(), report.out()));
  }

  OwnedRuntime runtime = make_runtime();
};

TEST_F(DraftNetworksTest, AModelWithoutOneHasNoName) {
  for (const char* const drafter : {"", "auto", "none"}) {
    const OwnedModel model = load(embedded_model_path(), drafter);
    EXPECT_EQ(name_of(model), "") << drafter;
    EXPECT_EQ(quire_model_drafter_bytes(model.get(), nullptr), 0);
    const OwnedPlan of = plan(embedded_model_path(), drafter);
    EXPECT_EQ(name_of(of), "");
    EXPECT_EQ(quire_plan_drafter_bytes(of.get(), nullptr), 0);
    EXPECT_EQ(quire_plan_device_drafter_bytes(of.get(), 0, nullptr), 0);
  }
}

TEST_F(DraftNetworksTest, ATokenizerAloneHasNoDescription) {
  const OwnedModel model = load(embedded_model_path(), "auto", QUIRE_MODEL_SCOPE_TOKENIZER);
  Report report;
  EXPECT_EQ(quire_model_drafter(model.get(), nullptr, 0, report.out()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_UNSUPPORTED);
  Report of_bytes;
  EXPECT_EQ(quire_model_drafter_bytes(model.get(), of_bytes.out()), -1);
  EXPECT_EQ(of_bytes.code(), QUIRE_ERROR_UNSUPPORTED);
}

TEST_F(DraftNetworksTest, ACacheNeedsTheNetworkThatItNames) {
  const OwnedModel model = load(embedded_model_path(), "none");
  Report report;
  EXPECT_FALSE(make_cache(model, QUIRE_DRAFTER_NETWORK, report));
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(report.parameter(), "drafter");
  EXPECT_NE(report.message().find("without a draft network"), std::string::npos) << report.message();
}

TEST_F(DraftNetworksTest, APathThatDoesNotExistIsRefused) {
  expect_refused(embedded_model_path(), "/nowhere/at/all", QUIRE_ERROR_NOT_FOUND, "/nowhere/at/all");
}

TEST_F(DraftNetworksTest, MtpOfACheckpointWithoutItIsRefused) {
  expect_refused(embedded_model_path(), "mtp", QUIRE_ERROR_UNSUPPORTED, "multi-token prediction");
}

TEST_F(DraftNetworksTest, ANetworkOfAnotherModelIsRefused) {
  const std::string draft = kGolden + "/eagle3/draft";
  if (!has(draft)) GTEST_SKIP() << draft << " is absent";
  expect_refused(embedded_model_path(), draft, QUIRE_ERROR_FORMAT, draft);
}

TEST_F(DraftNetworksTest, HeadsOfACheckpointAreFound) {
  const std::string path = kGolden + "/mimo";
  if (!has(path)) GTEST_SKIP() << path << " is absent";
  for (const char* const drafter : {"auto", "mtp"}) {
    const OwnedModel model = load(path, drafter);
    EXPECT_EQ(name_of(model), "multi-token prediction of the checkpoint");
    EXPECT_GT(quire_model_drafter_bytes(model.get(), nullptr), 0);
  }
  EXPECT_EQ(name_of(load(path, "none")), "");
  const OwnedModel described = load(path, "mtp", QUIRE_MODEL_SCOPE_METADATA);
  EXPECT_EQ(name_of(described), "multi-token prediction of the checkpoint");
  EXPECT_EQ(quire_model_drafter_bytes(described.get(), nullptr), 0) << "without weights";
}

TEST_F(DraftNetworksTest, ThePlanCountsTheirWeights) {
  const std::string path = kGolden + "/mimo";
  if (!has(path)) GTEST_SKIP() << path << " is absent";
  const OwnedModel model = load(path, "mtp");
  const OwnedPlan with = plan(path, "mtp");
  const OwnedPlan without = plan(path, "none");
  const int64_t bytes = quire_model_drafter_bytes(model.get(), nullptr);
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(name_of(with), name_of(model));
  EXPECT_EQ(quire_plan_drafter_bytes(with.get(), nullptr), bytes);
  EXPECT_EQ(quire_plan_device_drafter_bytes(with.get(), 0, nullptr), bytes);
  EXPECT_EQ(quire_plan_drafter_bytes(without.get(), nullptr), 0);
  EXPECT_EQ(quire_model_weight_bytes(model.get(), nullptr),
            quire_model_weight_bytes(load(path, "none").get(), nullptr) + bytes);
  EXPECT_GE(quire_plan_total_bytes(with.get(), nullptr),
            quire_plan_total_bytes(without.get(), nullptr) + bytes);
  EXPECT_GT(quire_plan_kv_bytes(with.get(), nullptr), quire_plan_kv_bytes(without.get(), nullptr));
}

TEST_F(DraftNetworksTest, TheCacheGroupsHaveTheirPages) {
  const std::string path = kGolden + "/mimo";
  if (!has(path)) GTEST_SKIP() << path << " is absent";
  const OwnedPlan of = plan(path, "mtp");
  int64_t bytes = 0;
  for (int32_t i = 0; i < quire_plan_num_cache_groups(of.get(), nullptr); ++i)
    bytes += quire_plan_cache_group_bytes(of.get(), i, nullptr);
  EXPECT_EQ(bytes, quire_plan_kv_bytes(of.get(), nullptr));
}

TEST_F(DraftNetworksTest, AnAnswerDoesNotDependOnTheNetwork) {
  const std::string draft = kGolden + "/eagle3_story/draft";
  if (!has(draft) || !has(kStory)) GTEST_SKIP() << draft << " or " << kStory << " is absent";
  const OwnedModel model = load(kStory, draft);
  EXPECT_EQ(name_of(model), "EAGLE-3 network " + draft);
  Report report;
  const OwnedCache plain = make_cache(model, QUIRE_DRAFTER_NONE, report);
  int64_t accepted = 0;  // over all jobs, because measured times may leave one of them without drafts
  for (const int32_t drafter : {QUIRE_DRAFTER_NETWORK, QUIRE_DRAFTER_AUTO}) {
    const OwnedCache drafting = make_cache(model, drafter, report);
    ASSERT_TRUE(drafting) << report.message();
    for (const double temperature : {0.0, 0.7}) {
      const OwnedRequest request = make_request("Once upon a time", 64);
      quire_job_request_set_temperature(request.get(), temperature, nullptr);
      quire_job_request_set_seed(request.get(), 7, nullptr);
      const OwnedJob expected(quire_job_submit(plain.get(), request.get(), nullptr));
      const OwnedJob job(quire_job_submit(drafting.get(), request.get(), nullptr));
      EXPECT_EQ(collect(job.get()).tokens, collect(expected.get()).tokens) << temperature;
      accepted += quire_job_accepted_draft_tokens(job.get(), nullptr);
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST_F(DraftNetworksTest, AModelDraftsForALargerOne) {
  const std::string draft = QUIRE_SHARED_DIR "/models/story-3m";
  if (!has(draft) || !has(kStory)) GTEST_SKIP() << draft << " or " << kStory << " is absent";
  const OwnedModel model = load(kStory, draft);
  EXPECT_EQ(name_of(model), "draft model " + draft);
  Report report;
  const OwnedCache cache = make_cache(model, QUIRE_DRAFTER_NETWORK, report);
  ASSERT_TRUE(cache) << report.message();
  int64_t accepted = 0;  // measured times may leave a job without drafts
  for (int32_t i = 0; i < 40 && accepted == 0; ++i) {
    const OwnedJob job(quire_job_submit(cache.get(), make_request("Once upon a time", 64).get(), nullptr));
    collect(job.get());
    accepted = quire_job_accepted_draft_tokens(job.get(), nullptr);
  }
  EXPECT_GT(accepted, 0);
}

TEST_F(DraftNetworksTest, TheyLeaveAndReturnWithTheModel) {
  const std::string path = kGolden + "/mimo";
  if (!has(path)) GTEST_SKIP() << path << " is absent";
  const OwnedModel model = load(path, "mtp");
  const int64_t bytes = quire_model_drafter_bytes(model.get(), nullptr);
  ASSERT_EQ(quire_model_evict(model.get(), QUIRE_MODEL_STATE_ON_DISK, QUIRE_WAIT_FOREVER, nullptr, nullptr),
            1);
  EXPECT_EQ(name_of(model), "multi-token prediction of the checkpoint");
  EXPECT_EQ(quire_model_drafter_bytes(model.get(), nullptr), bytes);
  ASSERT_EQ(quire_model_wake(model.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
  Report report;
  EXPECT_TRUE(make_cache(model, QUIRE_DRAFTER_NETWORK, report)) << report.message();
}

// The packaged model, which drafts for itself: its draft logits are its own.
class DraftLogitsTest : public DraftNetworksTest {
 protected:
  DraftLogitsTest() { std::iota(tokens.begin(), tokens.end(), 300); }

  int64_t logits_of(const std::vector<int32_t>& ids, std::vector<float>& out,
                    int64_t timeout_ns = QUIRE_WAIT_FOREVER, quire_cancel* cancel = nullptr) {
    return quire_model_drafter_logits(model.get(), ids.data(), ids.size(), timeout_ns, cancel, out.data(),
                                      out.size(), report.out());
  }
  void expect_refused(const std::vector<int32_t>& ids, const std::string& says) {
    std::vector<float> none;
    EXPECT_EQ(logits_of(ids, none), -1);
    EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT) << report.message();
    EXPECT_EQ(report.parameter(), "tokens");
    EXPECT_NE(report.message().find(says), std::string::npos) << report.message();
  }

  const OwnedModel model = load(embedded_model_path(), embedded_model_path());
  const size_t columns = static_cast<size_t>(quire_model_drafter_vocab_size(model.get(), nullptr));
  std::vector<int32_t> tokens = std::vector<int32_t>(70);
  const size_t size = tokens.size() * columns;
  Report report;
};

TEST_F(DraftLogitsTest, AModelThatDraftsForItselfHasItsOwn) {
  const OwnedCache cache = make_cache(model, QUIRE_DRAFTER_NONE, report);
  ASSERT_TRUE(cache) << report.message();
  ASSERT_EQ(static_cast<int32_t>(columns), quire_cache_vocab_size(cache.get(), nullptr));
  std::vector<float> expected(size);
  ASSERT_EQ(quire_cache_logits(cache.get(), request_of_tokens(tokens.data(), tokens.size()).get(),
                               QUIRE_WAIT_FOREVER, nullptr, expected.data(), size, report.out()),
            static_cast<int64_t>(size))
      << report.message();
  std::vector<float> logits(size);
  ASSERT_EQ(logits_of(tokens, logits), static_cast<int64_t>(size)) << report.message();
  EXPECT_TRUE(logits == expected);
}

TEST_F(DraftLogitsTest, ABufferThatIsTooSmallStaysAsItIs) {
  for (const size_t capacity : {size_t{0}, size_t{1}, size - 1}) {
    std::vector<float> buffer(capacity, 77.0F);
    EXPECT_EQ(logits_of(tokens, buffer, 0), static_cast<int64_t>(size)) << report.message();
    EXPECT_TRUE(std::all_of(buffer.begin(), buffer.end(), [](float value) { return value == 77.0F; }));
  }
  std::vector<float> larger(size + 3, 77.0F);
  EXPECT_EQ(logits_of(tokens, larger), static_cast<int64_t>(size)) << report.message();
  EXPECT_TRUE(std::all_of(larger.end() - 3, larger.end(), [](float value) { return value == 77.0F; }));
}

TEST_F(DraftLogitsTest, TokensAreChecked) {
  const int32_t vocab = quire_model_vocab_size(model.get(), nullptr);
  for (const int32_t bad : {-1, vocab}) {
    tokens[7] = bad;
    expect_refused(tokens,
                   "tokens[7]: " + std::to_string(bad) + " is not in 0 to " + std::to_string(vocab - 1));
  }
  expect_refused({}, "2 or more");
  expect_refused({5}, "2 or more");
  const auto context = static_cast<size_t>(quire_model_max_context(model.get(), nullptr));
  expect_refused(std::vector<int32_t>(context + 1, 5), "give fewer");
}

TEST_F(DraftLogitsTest, TheWaitEndsTheCall) {
  std::vector<float> logits(size);
  EXPECT_EQ(logits_of(tokens, logits, 0), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_TIMEOUT) << report.message();
  const OwnedCancel cancel(quire_cancel_create(nullptr));
  quire_cancel_trigger(cancel.get(), nullptr);
  EXPECT_EQ(logits_of(tokens, logits, QUIRE_WAIT_FOREVER, cancel.get()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_CANCELLED) << report.message();
  EXPECT_EQ(quire_model_evict(model.get(), QUIRE_MODEL_STATE_ON_DISK, 0, nullptr, nullptr), 1)
      << "nothing holds the weights";
}

TEST_F(DraftLogitsTest, WeightsThatAreAwayComeBack) {
  std::vector<float> expected(size);
  ASSERT_EQ(logits_of(tokens, expected), static_cast<int64_t>(size)) << report.message();
  for (const int32_t state : {QUIRE_MODEL_STATE_STANDING_BY, QUIRE_MODEL_STATE_ON_DISK}) {
    ASSERT_EQ(quire_model_evict(model.get(), state, QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
    std::vector<float> logits;
    EXPECT_EQ(logits_of(tokens, logits), static_cast<int64_t>(size)) << "the size needs no weights";
    EXPECT_EQ(quire_model_state(model.get(), nullptr), state);
    logits.resize(size);
    ASSERT_EQ(logits_of(tokens, logits), static_cast<int64_t>(size)) << report.message();
    EXPECT_TRUE(logits == expected) << state;
  }
}

TEST_F(DraftLogitsTest, AModelWithoutANetworkHasNone) {
  for (const int32_t scope : {QUIRE_MODEL_SCOPE_FULL, QUIRE_MODEL_SCOPE_METADATA}) {
    const OwnedModel of = load(embedded_model_path(), "none", scope);
    const std::string way_out = scope == QUIRE_MODEL_SCOPE_FULL ? "drafter \"mtp\"" : "full scope";
    Report of_size;
    EXPECT_EQ(quire_model_drafter_vocab_size(of.get(), of_size.out()), -1);
    EXPECT_EQ(quire_model_drafter_logits(of.get(), tokens.data(), tokens.size(), QUIRE_WAIT_FOREVER, nullptr,
                                         nullptr, 0, report.out()),
              -1);
    for (const Report* said : {&of_size, &report}) {
      EXPECT_EQ(said->code(), QUIRE_ERROR_UNSUPPORTED);
      EXPECT_NE(said->message().find(way_out), std::string::npos) << said->message();
    }
  }
}

TEST_F(DraftLogitsTest, HeadsHaveOneRowLess) {
  const std::string path = kGolden + "/mimo";
  if (!has(path)) GTEST_SKIP() << path << " is absent";
  const OwnedModel heads = load(path, "mtp");
  const int32_t width = quire_model_drafter_vocab_size(heads.get(), nullptr);
  EXPECT_EQ(width, quire_model_vocab_size(heads.get(), nullptr));
  const std::vector<int32_t> ids = {5, 6, 7};
  std::vector<float> logits(2 * static_cast<size_t>(width));
  EXPECT_EQ(quire_model_drafter_logits(heads.get(), ids.data(), ids.size(), QUIRE_WAIT_FOREVER, nullptr,
                                       logits.data(), logits.size(), report.out()),
            2 * width)
      << report.message();
}

}  // namespace
}  // namespace quire::testing
