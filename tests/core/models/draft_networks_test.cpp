// Draft networks on models: their logits equal those of other programs, their proposals are those that the
// published checkpoints were made for, and no network changes a bit.
#include <algorithm>
#include <atomic>
#include <iostream>
#include <numeric>

#include <gtest/gtest.h>

#include "core/engine/model/model_fingerprint.h"
#include "core/models/draft_scores.h"
#include "core/models/drafting_executor.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/still_cache.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/case_stride.h"
#include "tests/support/json_text.h"
#include "tests/support/random_schedule.h"

namespace quire::testing {
namespace {

const std::string kGolden = std::string(QUIRE_SHARED_DIR) + "/golden/mtp/";
const std::string kModels = std::string(QUIRE_SHARED_DIR) + "/models/";

// A golden directory: its target, its drafter and the names of its tensors.
struct GoldenNetwork {
  const char* name;
  bool is_eagle3;

  std::string folder() const { return kGolden + name + "/"; }
  std::string target() const { return is_eagle3 ? folder() + "target" : kGolden + name; }
  std::string drafter() const { return is_eagle3 ? folder() + "draft" : "mtp"; }
  std::string file() const { return folder() + "golden.safetensors"; }
};

void PrintTo(const GoldenNetwork& network, std::ostream* out) {
  *out << network.name;
}

class GoldenNetworks : public ::testing::TestWithParam<GoldenNetwork> {
 protected:
  void SetUp() override {
    if (!exists(GetParam().file())) GTEST_SKIP() << GetParam().file() << " is not here";
  }
  std::shared_ptr<const Model> load() const {
    return load_with_drafter(GetParam().target(), GetParam().drafter());
  }
};

// Returns the median of the relative errors of rows.
double median_error_of_rows(const std::vector<float>& rows, const std::vector<float>& reference,
                            size_t num_rows) {
  const size_t columns = reference.size() / num_rows;
  std::vector<double> errors;
  for (size_t first = 0; first < reference.size(); first += columns) {
    const auto from = static_cast<ptrdiff_t>(first), to = static_cast<ptrdiff_t>(first + columns);
    errors.push_back(relative_rms({rows.begin() + from, rows.begin() + to},
                                  std::vector<float>(reference.begin() + from, reference.begin() + to)));
  }
  std::sort(errors.begin(), errors.end());
  return errors[errors.size() / 2];
}

TEST_P(GoldenNetworks, RowsEqualTheReference) {
  const TokenIds ids = read_ids(GetParam().file(), "input_ids");
  const DraftScores scores = score_drafter(load()->transformer(), ids);
  const std::vector<float> reference =
      read_floats(GetParam().file(), GetParam().is_eagle3 ? "draft_all_logits" : "mtp_logits");
  ASSERT_EQ(scores.num_rows, static_cast<int32_t>(ids.size()) - 1);
  ASSERT_EQ(scores.logits.size(), reference.size());
  const double error = relative_rms(scores.logits, reference);
  std::cout << "[          ] relative RMS " << error << "\n";
  // A card may choose another one of two experts that are nearly tied. That changes a row, and the rows after
  // it a little.
  const double median = median_error_of_rows(scores.logits, reference, static_cast<size_t>(scores.num_rows));
  EXPECT_LE(open_test_device()->is_host() ? error : median, tolerance(2e-3, 1e-2));
}

// Tokens that a network proposes one after another: each from the state of the one before.
class Chain {
 public:
  explicit Chain(const std::shared_ptr<const Transformer>& transformer)
      : executor_(transformer, options_of(*transformer), nullptr) {}

  // Returns the logits of num_drafts rows after `known`, each with the best token of the row before.
  std::vector<float> after(const TokenIds& known, int32_t num_drafts) {
    const auto count = static_cast<int32_t>(known.size()) - 1;
    Batch batch = rows({known.begin(), known.end() - 1}, 0);
    const Ticket ticket = executor_.forward(with_states(batch));
    executor_.draw(ticket, {});
    executor_.wait(ticket);
    DraftStates states;
    states.rows.resize(static_cast<size_t>(count));
    std::iota(states.rows.begin(), states.rows.end(), 0);
    std::vector<float> all;
    batch = rows({known.begin() + 1, known.end()}, 0);
    for (int32_t i = 0; i < num_drafts; ++i) {
      batch.num_page_tables = 1;
      network().forward(batch, states);
      const Drawn drawn = network().draw({});
      all.insert(all.end(), drawn.values.begin(), drawn.values.end());
      const auto best = static_cast<size_t>(std::max_element(drawn.values.begin(), drawn.values.end()) -
                                            drawn.values.begin());
      const auto tokens = network().limits().token_of;
      batch = rows({tokens.empty() ? static_cast<TokenId>(best) : tokens[best]}, count + i);
      states = {false, {0}};
    }
    return all;
  }

 private:
  static constexpr int32_t kTokens = 128;

  static TransformerExecutorOptions options_of(const Transformer& transformer) {
    TransformerExecutorOptions options;
    options.max_tokens = kTokens;
    options.max_sequences = options.max_logit_rows = 2;
    options.max_pages_per_sequence = options.kv.num_pages = 1;
    options.kv.page_tokens = kTokens;
    for (const LayerCacheSize& cache : transformer.shape.caches)
      if (cache.state_bytes > 0) options.kv.num_state_slots = 1;
    return options;
  }
  static Batch rows(const TokenIds& ids, int32_t first) {
    const auto count = static_cast<int32_t>(ids.size());
    Batch batch;
    batch.token_ids = ids;
    batch.positions.resize(ids.size());
    std::iota(batch.positions.begin(), batch.positions.end(), first);
    batch.sequence_of_token.assign(ids.size(), 0);
    batch.sequence_starts = {0, count};
    batch.kv_lengths = {first + count};
    batch.page_table = {0};
    batch.page_table_stride = 1;
    batch.logit_rows = {count - 1};
    return batch;
  }
  Batch with_states(Batch batch) {
    if (executor_.limits().num_state_slots > 0) batch.state_slots = batch.state_banks = {0};
    return batch;
  }
  DraftNetwork& network() { return *executor_.draft_network(); }

  DraftingExecutor executor_;
};

TEST_P(GoldenNetworks, DraftsEqualTheReference) {
  const std::string file = GetParam().file();
  const TokenIds ids = read_ids(file, "input_ids");
  const TokenIds prefixes = read_ids(file, "draft_prefix"), firsts = read_ids(file, "draft_first");
  const std::vector<float> reference = read_floats(file, "draft_logits");
  const TokenIds expected = read_ids(file, "draft_ids");
  const std::vector<float> gaps = read_floats(file, "draft_gap");
  const auto model = load();
  const size_t num_drafts = expected.size() / prefixes.size();
  const size_t width = reference.size() / expected.size();
  for (size_t p = 0; p < prefixes.size(); ++p) {
    TokenIds known(ids.begin(), ids.begin() + prefixes[p]);
    known.push_back(firsts[p]);
    Chain chain(model->transformer());
    const std::vector<float> rows = chain.after(known, static_cast<int32_t>(num_drafts));
    for (size_t i = 0; i < num_drafts; ++i) {
      const auto row = rows.begin() + static_cast<ptrdiff_t>(i * width);
      const auto right = reference.begin() + static_cast<ptrdiff_t>((p * num_drafts + i) * width);
      EXPECT_LE(relative_rms({row, row + static_cast<ptrdiff_t>(width)},
                             {right, right + static_cast<ptrdiff_t>(width)}),
                tolerance(3e-3, 2e-2))
          << "prefix " << prefixes[p] << ", draft " << i;
      if (gaps[p * num_drafts + i] < 0.01F) break;  // another token goes on in another way
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenNetworks,
                         ::testing::Values(GoldenNetwork{"deepseek_v3", false},
                                           GoldenNetwork{"glm4_moe", false},
                                           GoldenNetwork{"qwen3_next", false},
                                           GoldenNetwork{"qwen3_5", false}, GoldenNetwork{"mimo", false},
                                           GoldenNetwork{"eagle3", true},
                                           GoldenNetwork{"eagle3_norm_before", true}),
                         [](const auto& of) { return std::string(of.param.name); });

// Returns options of a cache that drafts with the network of its model; without drafts if max_drafts is 0.
ModelCacheOptions drafting_cache(int32_t max_drafts) {
  ModelCacheOptions options = small_cache();
  if (max_drafts > 0) options.engine.drafting = {DrafterKind::network, max_drafts};
  return options;
}

std::shared_ptr<Engine> still_engine(const std::shared_ptr<const Model>& model, int32_t max_drafts) {
  return still_cache(model, drafting_cache(max_drafts));
}

// Returns jobs for a model with random weights, most of whose proposals are wrong.
std::vector<JobRequest> jobs_of(int32_t vocab_size) {
  std::vector<JobRequest> all;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    TokenIds prompt;
    for (const TokenId token : random_tokens(seed, 5 + 9 * static_cast<int32_t>(seed)))
      prompt.push_back(token % vocab_size);
    JobRequest request = greedy(prompt, 24);
    request.ignore_end_tokens = true;
    request.sampling.seed = seed;
    all.push_back(request);
    request.sampling.temperature = 0.8F;
    request.sampling.top_k = 50;
    all.push_back(request);
  }
  return all;
}

TEST_P(GoldenNetworks, ChangeNoBit) {
  const auto model = load();
  std::vector<KnownJob> known;
  for (const JobRequest& request : jobs_of(model->config().vocab_size))
    known.push_back({request, run_alone(*still_engine(model, 0), request)});
  for (const int32_t max_drafts : {1, 4}) {
    for (const KnownJob& job : known)
      ASSERT_EQ(difference(run_alone(*still_engine(model, max_drafts), job.request), job.alone), "");
    std::mt19937_64 random(static_cast<uint64_t>(max_drafts));
    ASSERT_EQ(run_random_schedule(*still_engine(model, max_drafts), known, random), "");
  }
}

// A model that drafts for itself is always right: with its own noise, on pages that came back from host
// memory, in a cache that grows, and after forks.
TEST(DraftModelTest, AModelIsRightForItself) {
  const auto model = load_with_drafter(QUIRE_EMBEDDED_MODEL, QUIRE_EMBEDDED_MODEL);
  ModelCacheOptions options = drafting_cache(4);
  options.max_tokens = 256;
  options.max_seq_len = 128;
  options.min_tokens = 128;
  options.engine.prefixes.host_bytes = uint64_t{64} << 20;
  const auto engine = still_cache(model, options);
  std::vector<TokenIds> answers;
  int32_t num_cached = 0;
  for (int32_t round = 0; round < 12; ++round) {
    TokenIds prompt(40, 100 + round % 6);
    for (int32_t i = 0; i < 40; ++i) prompt[static_cast<size_t>(i)] += 37 * i % 200;
    JobRequest request = greedy(prompt, 40);
    request.ignore_end_tokens = true;
    request.sampling.temperature = 0.9F;
    request.sampling.seed = static_cast<uint64_t>(round % 6);
    const auto job = engine->submit(std::move(request));
    while (engine->thread().run_once() == StepOutcome::advanced) {
    }
    EXPECT_EQ(job->result().draft_tokens, job->result().accepted_draft_tokens) << round;
    EXPECT_GE(job->result().accepted_draft_tokens, 20) << round;
    num_cached += job->result().cached_tokens;
    answers.push_back(read_all(*job).tokens);
    const size_t first = answers.size() > 6 ? answers.size() - 7 : answers.size() - 1;
    EXPECT_EQ(answers.back(), answers[first]) << round;
  }
  EXPECT_GT(num_cached, 100);
}

// The weights of a network are read after those of its target.
TEST(DraftModelTest, ItsLoadIsCancelledToo) {
  std::atomic<bool> cancel{false};
  ModelOptions options;
  options.source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
  options.devices = {open_test_device()};
  options.drafter = std::make_shared<const DraftSource>(
      open_draft_source(posix_file_system(), QUIRE_EMBEDDED_MODEL, options.source));
  options.monitor.cancel = &cancel;
  options.monitor.progress = [&](const LoadProgress& progress) {
    cancel = progress.done_bytes == progress.total_bytes;
  };
  try {
    Model::load(options);
    FAIL() << "a cancelled load went through";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled) << error.what();
  }
}

// Prefix files of one network are of no use to another one, whose rows are not in them.
TEST(DraftModelTest, PagesAreNamedAfterTheNetwork) {
  const auto fingerprint_with = [](const std::string& drafter) {
    const auto model =
        drafter.empty() ? load_model(QUIRE_EMBEDDED_MODEL) : load_with_drafter(QUIRE_EMBEDDED_MODEL, drafter);
    return model_fingerprint(posix_file_system(), *model,
                             executor_options(model->config(), drafting_cache(4)));
  };
  const std::string tiny = std::string(QUIRE_TEST_DATA) + "/architectures/";
  const std::string none = fingerprint_with(""), llama = fingerprint_with(tiny + "llama3");
  EXPECT_NE(none, llama);
  EXPECT_NE(llama, fingerprint_with(tiny + "qwen2"));
  EXPECT_EQ(llama, fingerprint_with(tiny + "llama3"));
}

TEST(DraftModelTest, ChangesNoBitInAnyCompany) {
  if (!exists(kModels + "story-15m/config.json")) GTEST_SKIP() << kModels << "story-15m is not here";
  for (const std::string& drafter : {kModels + "story-3m", kGolden + "eagle3_story/draft"}) {
    const auto model = load_with_drafter(kModels + "story-15m", drafter);
    std::vector<KnownJob> known;
    for (const char* text : {"Once upon a time", "The old man said that", "In the morning, when the sun"}) {
      JobRequest request = greedy(model->tokenizer().encode(text), 40);
      request.ignore_end_tokens = true;
      for (const float temperature : {0.0F, 0.8F}) {
        request.sampling.temperature = temperature;
        request.sampling.seed = known.size();
        known.push_back({request, run_alone(*still_engine(model, 0), request)});
      }
    }
    for (const int32_t max_drafts : thin_if_sanitized(std::vector{4, 1, kMaxDrafts}, 3)) {
      std::mt19937_64 random(static_cast<uint64_t>(max_drafts));
      const auto engine = still_engine(model, max_drafts);
      ASSERT_EQ(run_random_schedule(*engine, known, random), "") << drafter;
      EXPECT_GT(engine->stats().draft_tokens_accepted, 20U) << drafter;
    }
  }
}

// Returns the tokens of a step after the first, over some prompts and seeds.
double tokens_a_step(const std::shared_ptr<const Model>& model, const std::vector<TokenIds>& prompts,
                     float temperature, int32_t num_seeds) {
  int64_t num_tokens = 0, num_steps = 0;
  const auto engine = still_engine(model, 4);
  // Drafts begin once the clock is known to be still.
  run_alone(*engine, greedy(prompts.front(), 10));
  for (const TokenIds& prompt : prompts) {
    for (int32_t seed = 0; seed < num_seeds; ++seed) {
      JobRequest request = greedy(prompt, 64);
      request.ignore_end_tokens = true;
      request.sampling.temperature = temperature;
      request.sampling.seed = static_cast<uint64_t>(seed);
      const auto job = engine->submit(std::move(request));
      while (engine->thread().run_once() == StepOutcome::advanced) {
        const int32_t before = job->result().new_tokens;
        num_steps += before > 1 ? 1 : 0;
      }
      num_tokens += job->result().new_tokens - 1;
    }
  }
  const double per_step = static_cast<double>(num_tokens) / static_cast<double>(num_steps);
  std::cout << "[          ] temperature " << temperature << ": " << per_step << " tokens a step\n";
  return per_step;
}

constexpr int32_t kNumSeeds = 12 / stride_if_sanitized(6);

std::vector<TokenIds> golden_prompts() {
  std::vector<TokenIds> prompts;
  for (const GoldenPrompt& prompt : read_golden_prompts(kModels + "story-15m/golden.json"))
    prompts.push_back(prompt.ids);
  return prompts;
}

// A greedy draft would reach 1.45 at a temperature of 0.8.
TEST(DraftModelTest, ASmallModelDraftsForALargerOne) {
  if (!exists(kModels + "story-15m/config.json")) GTEST_SKIP() << kModels << "story-15m is not here";
  const auto model = load_with_drafter(kModels + "story-15m", kModels + "story-3m");
  EXPECT_GE(tokens_a_step(model, golden_prompts(), 0.0F, 1), 2.2);
  EXPECT_GE(tokens_a_step(model, golden_prompts(), 0.8F, kNumSeeds), 1.9);
}

// The reference takes 111 steps for 189 tokens.
TEST(DraftModelTest, EagleDraftsForTheModelItWasTrainedOn) {
  if (!exists(kGolden + "eagle3_story/golden.json")) GTEST_SKIP() << kGolden << "eagle3_story is not here";
  const auto model = load_with_drafter(kModels + "story-15m", kGolden + "eagle3_story/draft");
  EXPECT_GE(tokens_a_step(model, golden_prompts(), 0.0F, 1), 1.6);
  EXPECT_GE(tokens_a_step(model, golden_prompts(), 0.8F, kNumSeeds), 1.3);
}

}  // namespace
}  // namespace quire::testing
