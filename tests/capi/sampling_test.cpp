// Settings that change the sampled tokens of a job, through the C interface.
#include <cmath>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

using Change = std::function<int32_t(quire_job_request*, quire_error**)>;

class CapiSampling : public ::testing::Test {
 protected:
  Collected run(const std::vector<Change>& changes) {
    const OwnedRequest request = make_prompt("abcabc");
    quire_job_request_set_max_new_tokens(request.get(), 24, nullptr);
    quire_job_request_set_ignore_eos(request.get(), 1, nullptr);
    quire_job_request_set_seed(request.get(), 7, nullptr);
    for (const Change& change : changes) {
      EXPECT_EQ(change(request.get(), report.out()), 1) << report.message();
    }
    const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), report.out()));
    EXPECT_TRUE(job) << report.message();
    return job ? collect(job.get()) : Collected{};
  }
  World world;
  Report report;
};

template <typename Setter, typename Value>
Change with(Setter* setter, Value value) {
  return [=](quire_job_request* request, quire_error** error) { return setter(request, value, error); };
}
template <typename Setter>
Change with_text(Setter* setter, std::string text) {
  return [=](quire_job_request* request, quire_error** error) {
    return setter(request, text.data(), text.size(), error);
  };
}

struct Range {
  const char* name;
  int32_t (*set)(quire_job_request*, double, quire_error**);
  double lowest, highest, below, above;
};

TEST_F(CapiSampling, EachNumberHasARange) {
  const double none = std::nan("");
  const Range ranges[] = {
      {"smoothing_factor", quire_job_request_set_smoothing_factor, 0, 100, -0.1, 101},
      {"min_temperature", quire_job_request_set_min_temperature, 0.01, 100, 0, 101},
      {"max_temperature", quire_job_request_set_max_temperature, 0.01, 100, 0, 101},
      {"temperature_exponent", quire_job_request_set_temperature_exponent, 0.01, 100, 0, 101},
      {"top_n_sigma", quire_job_request_set_top_n_sigma, 0, 1000, -1, 1001},
      {"top_a", quire_job_request_set_top_a, 0, 1, -0.1, 1.1},
      {"tail_free", quire_job_request_set_tail_free, 0, 1, -0.1, 1.1},
      {"typical", quire_job_request_set_typical, 0.001, 1, 0, 1.1},
      {"mirostat_tau", quire_job_request_set_mirostat_tau, 0, 100, -1, 101},
      {"mirostat_eta", quire_job_request_set_mirostat_eta, 0, 1, -0.1, 1.1},
      {"xtc_probability", quire_job_request_set_xtc_probability, 0, 1, -0.1, 1.1},
      {"xtc_threshold", quire_job_request_set_xtc_threshold, 0, 1, -0.1, 1.1},
      {"skew", quire_job_request_set_skew, -5, 5, -5.1, 5.1},
      {"dry_multiplier", quire_job_request_set_dry_multiplier, 0, 100, -1, 101},
      {"dry_base", quire_job_request_set_dry_base, 1, 8, 0.9, 8.1}};
  for (const Range& range : ranges) {
    const OwnedRequest request(quire_job_request_create(nullptr));
    for (const double value : {range.lowest, range.highest})
      EXPECT_EQ(range.set(request.get(), value, nullptr), 1) << range.name << " " << value;
    for (const double value : {range.below, range.above, none}) {
      EXPECT_EQ(range.set(request.get(), value, report.out()), 0) << range.name << " " << value;
      EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
      EXPECT_EQ(report.message().rfind(range.name, 0), 0U) << report.message();
    }
    const Change room = with(quire_job_request_set_max_temperature, 100.0);
    EXPECT_EQ(run({room, with(range.set, range.lowest)}).num_last_events, 1) << range.name;
    EXPECT_EQ(run({room, with(range.set, range.highest)}).num_last_events, 1) << range.name;
  }
}

TEST_F(CapiSampling, EachSettingChangesTheSampledTokens) {
  const std::string plain = run({}).text;
  const std::vector<std::pair<const char*, std::vector<Change>>> settings = {
      {"smoothing", {with(quire_job_request_set_smoothing_factor, 20.0)}},
      {"dynamic temperature",
       {with(quire_job_request_set_min_temperature, 0.02), with(quire_job_request_set_max_temperature, 0.2)}},
      {"top_n_sigma", {with(quire_job_request_set_top_n_sigma, 0.3)}},
      {"top_a", {with(quire_job_request_set_top_a, 1.0)}},
      {"tail_free", {with(quire_job_request_set_tail_free, 0.2)}},
      {"typical", {with(quire_job_request_set_typical, 0.1)}},
      {"mirostat", {with(quire_job_request_set_mirostat_tau, 0.5)}},
      {"xtc",
       {with(quire_job_request_set_xtc_probability, 1.0), with(quire_job_request_set_xtc_threshold, 0.001)}},
      {"skew", {with(quire_job_request_set_skew, 3.0)}},
      {"dry", {with(quire_job_request_set_dry_multiplier, 50.0), with(quire_job_request_set_dry_base, 8.0)}}};
  for (const auto& [name, changes] : settings) {
    if (std::string(name) == "top_a" || std::string(name) == "dry") continue;  // too mild for flat logits
    EXPECT_NE(run(changes).text, plain) << name;
  }
}

TEST_F(CapiSampling, TheOrderMattersAndIsChecked) {
  const Change top_k = with(quire_job_request_set_top_k, 6);
  const Change skewed = with(quire_job_request_set_typical, 0.6);
  const std::string one =
      run({top_k, skewed, with_text(quire_job_request_set_sampler_order, "temperature, top_k, typical")})
          .text;
  const std::string other =
      run({top_k, skewed, with_text(quire_job_request_set_sampler_order, "typical, temperature, top_k")})
          .text;
  EXPECT_NE(one, other);
  const OwnedRequest request = make_prompt("a");
  EXPECT_EQ(quire_job_request_set_sampler_order(request.get(), "top_z", 5, report.out()), 0);
  EXPECT_NE(report.message().find("top_z"), std::string::npos) << report.message();
  quire_job_request_set_top_k(request.get(), 4, nullptr);
  quire_job_request_set_sampler_order(request.get(), "temperature", 11, nullptr);
  EXPECT_FALSE(OwnedJob(quire_job_submit(world.cache.get(), request.get(), report.out())))
      << "a stage that is on has to be in the order";
}

TEST_F(CapiSampling, APresetIsItsSettings) {
  const Change seed = with(quire_job_request_set_seed, uint64_t{11});
  const std::string by_name = run({seed, with_text(quire_job_request_set_sampling_preset, "balanced")}).text;
  const std::string by_hand =
      run({seed, with(quire_job_request_set_temperature, 0.8), with(quire_job_request_set_min_p, 0.05)}).text;
  EXPECT_EQ(by_name, by_hand);
  const std::string changed = run({seed, with_text(quire_job_request_set_sampling_preset, "greedy"),
                                   with(quire_job_request_set_temperature, 1.0)})
                                  .text;
  EXPECT_EQ(changed, run({seed}).text) << "what is set afterwards counts";
  const OwnedRequest request = make_prompt("a");
  EXPECT_EQ(quire_job_request_set_sampling_preset(request.get(), "wild", 4, report.out()), 0);
  EXPECT_NE(report.message().find("creative"), std::string::npos) << report.message();
}

TEST_F(CapiSampling, AModelsOwnRecommendation) {
  const TempDirectory directory;
  for (const auto& entry : std::filesystem::directory_iterator(tiny_model_path()))
    std::filesystem::copy_file(entry.path(), directory.file(entry.path().filename().string()));
  directory.write("generation_config.json", R"({"do_sample": true, "temperature": 0.4, "top_k": 9})");
  const OwnedModel model = load_model(world.runtime.get(), directory.path(), QUIRE_MODEL_SCOPE_METADATA);
  const std::string recommended = run({with(quire_job_request_set_sampling_of_model, model.get())}).text;
  EXPECT_EQ(recommended,
            run({with(quire_job_request_set_temperature, 0.4), with(quire_job_request_set_top_k, 9)}).text);
  const OwnedRequest request = make_prompt("a");
  EXPECT_EQ(quire_job_request_set_sampling_of_model(request.get(), world.model.get(), report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_NOT_FOUND);
  directory.write("generation_config.json", R"({"eos_token_id": 2, "temperature": 0.4})");
  const OwnedModel silent = load_model(world.runtime.get(), directory.path(), QUIRE_MODEL_SCOPE_METADATA);
  EXPECT_EQ(quire_job_request_set_sampling_of_model(request.get(), silent.get(), report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_NOT_FOUND) << "only ids, as most files have";
  EXPECT_NE(report.message().find("do_sample"), std::string::npos) << report.message();
}

TEST_F(CapiSampling, AJobWithoutAllowedTokensIsRefused) {
  std::vector<int32_t> banned(static_cast<size_t>(quire_cache_vocab_size(world.cache.get(), nullptr)));
  std::iota(banned.begin(), banned.end(), 0);
  const auto code_with = [&](int32_t min_new_tokens) {
    const OwnedRequest request = make_prompt("a");
    quire_job_request_set_max_new_tokens(request.get(), 8, nullptr);
    quire_job_request_set_min_new_tokens(request.get(), min_new_tokens, nullptr);
    quire_job_request_set_banned_tokens(request.get(), banned.data(), banned.size(), nullptr);
    const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), report.out()));
    return job ? QUIRE_ERROR_OK : report.code();
  };
  EXPECT_EQ(code_with(0), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(report.message().rfind("banned_tokens ", 0), 0U) << report.message();
  const int32_t end = quire_model_special_token(world.model.get(), QUIRE_TOKEN_EOS, nullptr);
  ASSERT_GE(end, 0);
  banned.erase(banned.begin() + end);
  EXPECT_EQ(code_with(5), QUIRE_ERROR_INVALID_ARGUMENT) << "the end alone is left, and may not come";
  EXPECT_EQ(code_with(0), QUIRE_ERROR_OK) << "the end is drawn";
}

TEST_F(CapiSampling, TheBoundsOfARangeAreValid) {
  EXPECT_EQ(run({with(quire_job_request_set_top_p, 1e-30)}).tokens.size(), 24U);
  for (const double bias : {1e30, -1e30}) {
    const Change biased = [&](quire_job_request* request, quire_error** error) {
      return quire_job_request_add_logit_bias(request, 70, bias, error);
    };
    EXPECT_EQ(run({biased}).tokens.size(), 24U);
  }
}

// Tokens 70 and 71 are otherwise equal here, so only the bias decides between them.
TEST_F(CapiSampling, BiasesAreSetTogetherReplacedAndRemoved) {
  const auto biased = [](std::vector<int32_t> tokens, double bias) -> Change {
    return [=](quire_job_request* request, quire_error** error) {
      return quire_job_request_set_logit_biases(request, tokens.data(), tokens.size(), bias, error);
    };
  };
  const auto one = [](int32_t token, double bias) -> Change {
    return [=](quire_job_request* request, quire_error** error) {
      return quire_job_request_add_logit_bias(request, token, bias, error);
    };
  };
  const Change clear = quire_job_request_clear_logit_biases;
  const std::vector<int32_t> plain = run({}).tokens;
  const std::vector<int32_t> together = run({biased({70, 71}, 1e3)}).tokens;
  for (const int32_t token : together) EXPECT_TRUE(token == 70 || token == 71) << token;
  EXPECT_EQ(together, run({one(70, 1e3), one(71, 1e3)}).tokens);
  EXPECT_EQ(run({one(80, 1e6), biased({70, 71}, 1e3)}).tokens, together) << "in place of what was set before";
  EXPECT_EQ(run({biased({70, 71}, 1e3), one(71, 0)}).tokens, run({one(70, 1e3)}).tokens);
  EXPECT_EQ(run({biased({70, 71}, 1e3), clear}).tokens, plain);
  EXPECT_EQ(run({biased({70, 71}, 1e3), biased({}, 1.0)}).tokens, plain);
  const OwnedRequest request = make_prompt("a");
  const std::vector<int32_t> negative = {70, -1};
  EXPECT_EQ(quire_job_request_set_logit_biases(request.get(), negative.data(), negative.size(), 1.0, nullptr),
            0);
}

TEST_F(CapiSampling, ALoopEndsAJobWithALoopGuard) {
  const Change drawn_alone = [](quire_job_request* request, quire_error** error) {
    return quire_job_request_add_logit_bias(request, 70, 1e6, error);
  };
  const Change guard = [](quire_job_request* request, quire_error** error) {
    return quire_job_request_set_loop_guard(request, 3, 5, error);
  };
  const Collected endless = run({drawn_alone});
  EXPECT_EQ(endless.finish_reason, QUIRE_FINISH_LENGTH);
  const Collected ended = run({drawn_alone, guard});
  EXPECT_EQ(ended.finish_reason, QUIRE_FINISH_LOOP);
  EXPECT_EQ(ended.tokens.size(), 5U);
  EXPECT_EQ(ended.text, "CCCCC") << "what was said stays";
  EXPECT_EQ(run({guard}).finish_reason, QUIRE_FINISH_LENGTH);
  const OwnedRequest request = make_prompt("a");
  EXPECT_EQ(quire_job_request_set_loop_guard(request.get(), 4, 1, report.out()), 0);
  EXPECT_NE(report.message().find("min_repeats"), std::string::npos) << report.message();
}

}  // namespace
}  // namespace quire::testing
