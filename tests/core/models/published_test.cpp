// Directories as model hubs have them, with names, fields and layouts that transformers would not write
// today.
#include <filesystem>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/models/golden_file.h"
#include "tests/core/models/greedy_continuation.h"
#include "tests/core/models/stored_model.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

struct Published {
  const char* name;
  int32_t greedy_context = 512;  // long rope depends on it
};

const std::string kPublished = std::string(QUIRE_SHARED_DIR) + "/golden/published/";

// Without the shared folder no test is registered; the tests below and converted_families_test.cpp cover
// names and layouts.
class PublishedTest : public ::testing::TestWithParam<Published> {
 protected:
  void SetUp() override {
    directory_ = kPublished + GetParam().name;
    const std::string refusal = refusal_of(directory_);
    if (!refusal.empty()) GTEST_SKIP() << refusal;
  }

  std::string golden() const { return directory_ + "/golden.safetensors"; }
  std::string directory_;
};

TEST_P(PublishedTest, LogitsAgree) {
  TransformerRunner runner(load_model(directory_), {});
  const std::vector<float> logits = runner.logits(read_ids(golden(), "input_ids"), 512);
  EXPECT_LE(relative_rms(logits, read_floats(golden(), "logits")), tolerance(2e-3, 1e-2));
}

TEST_P(PublishedTest, GreedyTokensAgreeUpToTheFirstNearTie) {
  RunnerOptions options;
  options.max_seq_len = GetParam().greedy_context;
  TransformerRunner runner(load_model(directory_), options);
  expect_greedy_continuation(runner, golden());
}

std::vector<Published> published_directories() {
  std::vector<Published> found = {{"gpt2"},
                                  {"pythia"},
                                  {"qwen3_embedding"},
                                  {"llama_2023"},
                                  {"phi3_128k", 64},
                                  {"gemma3_4b"},
                                  {"qwen2_5_vl"},
                                  {"mistral_small_3_1"},
                                  {"mistral_consolidated"},
                                  {"ministral_3_fp8"},
                                  {"deepseek_v3_fp8"},
                                  {"chatglm_glm4_9b"},
                                  {"qwen1"},
                                  {"kimi_k2_5_int4"},
                                  {"gemma4_31b_nvfp4"}};
  std::erase_if(found, [](const Published& published) {
    return !std::filesystem::is_directory(kPublished + published.name);
  });
  return found;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PublishedTest);
INSTANTIATE_TEST_SUITE_P(Golden, PublishedTest, ::testing::ValuesIn(published_directories()),
                         [](const auto& published) { return std::string(published.param.name); });

std::string committed(const std::string& name) {
  return std::string(QUIRE_TEST_DATA) + "/architectures/" + name;
}

const TokenIds kIds = {5, 17, 99, 3, 42, 42, 7, 120, 64, 31, 8, 2};

std::vector<float> logits_of(const StoredModel& model, const RunnerOptions& options = {}) {
  return TransformerRunner(load_stored_model(model), options).logits(kIds, 512);
}

void expect_same(const StoredModel& respelled, const StoredModel& original) {
  EXPECT_LE(relative_rms(logits_of(respelled), logits_of(original)), tolerance(1e-6, 2e-3));
}

struct Spelling {
  const char* base;  // in place of "model."
  const char* head;  // in place of "lm_head"
};

class TensorNamesTest : public ::testing::TestWithParam<Spelling> {};

TEST_P(TensorNamesTest, AnyPrefixOfTheBaseIsFound) {
  const StoredModel original = read_stored_model(committed("llama3"));
  StoredModel respelled = original;
  for (StoredTensor& tensor : respelled.tensors) {
    if (tensor.name.starts_with("model.")) tensor.name = GetParam().base + tensor.name.substr(6);
    if (tensor.name == "lm_head.weight") tensor.name = GetParam().head + std::string(".weight");
  }
  expect_same(respelled, original);
  const auto model = load_stored_model(respelled);
  for (const TensorDescription& tensor : model->tensors())
    EXPECT_EQ(tensor.layer >= 0, tensor.name.find("layers.") != std::string::npos) << tensor.name;
}

INSTANTIATE_TEST_SUITE_P(Spellings, TensorNamesTest,
                         ::testing::Values(Spelling{"", "lm_head"}, Spelling{"language_model.", "lm_head"},
                                           Spelling{"language_model.model.", "language_model.lm_head"},
                                           Spelling{"model.language_model.", "lm_head"},
                                           Spelling{"model.text_model.", "lm_head"},
                                           Spelling{"model.text_model.", "model.lm_head"}));

void fuse_all(StoredModel& model) {
  fuse(model, {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, "self_attn.qkv_proj");
  fuse(model, {"mlp.gate_proj", "mlp.up_proj"}, "mlp.gate_up_proj");
}

TEST(PublishedLayouts, FusedMatricesOfASplitFamilyAreSliced) {
  const StoredModel original = read_stored_model(committed("llama3"));
  StoredModel fused = original;
  fuse_all(fused);
  expect_same(fused, original);
}

TEST(PublishedLayouts, SplitMatricesOfAFusedFamilyAreJoined) {
  StoredModel split = read_stored_model(committed("llama_tied"));
  split.config["architectures"] = {"Phi3ForCausalLM"};
  split.config.erase("model_type");
  StoredModel fused = split;
  fuse_all(fused);
  expect_same(split, fused);
}

TEST(PublishedLayouts, AClassWithoutAHeadLoadsByModelType) {
  const StoredModel original = read_stored_model(committed("llama3"));
  StoredModel respelled = original;
  respelled.config["architectures"] = {"LlamaModel"};
  expect_same(respelled, original);
}

TEST(PublishedLayouts, AHeadMayBeAbsentIfTheClassHasNone) {
  const StoredModel original = read_stored_model(committed("llama3"));
  StoredModel headless = original;
  std::erase_if(headless.tensors, [](const StoredTensor& tensor) { return tensor.name == "lm_head.weight"; });
  expect_error(ErrorCode::format, {"lm_head"}, [&] { load_stored_model(headless); });
  headless.config["architectures"] = {"LlamaModel"};
  const auto model = load_stored_model(headless);
  EXPECT_TRUE(model->transformer()->head.is_absent);
  EXPECT_FALSE(load_stored_model(original)->transformer()->head.is_absent);
  RunnerOptions options;
  options.wants_hidden = true;
  const auto states_of = [&](const std::shared_ptr<const Model>& loaded) {
    TransformerRunner runner(loaded, options);
    runner.logits(kIds, 512);
    return runner.hidden(static_cast<int32_t>(kIds.size()));
  };
  EXPECT_EQ(states_of(model), states_of(load_stored_model(original)));
}

TEST(PublishedLayouts, TensorsOfOtherPartsAreIgnored) {
  const StoredModel original = read_stored_model(committed("llama3"));
  StoredModel respelled = original;
  StoredTensor extra = respelled.tensor("model.norm.weight");
  for (const char* name : {"model.layers.0.self_attn.rotary_emb.inv_freq", "visual.blocks.0.norm1.weight",
                           "model.layers.0.self_attn.bias", "model.layers.99.input_layernorm.weight"}) {
    extra.name = name;
    respelled.tensors.push_back(extra);
  }
  expect_same(respelled, original);
}

TEST(PublishedLayouts, ABiasForChoosingExpertsMayBeAbsent) {
  const std::string name = "model.layers.1.mlp.gate.e_score_correction_bias";
  StoredModel zero = read_stored_model(FamilyDirectory("axk1").path());
  std::string& bytes = zero.tensor(name).bytes;
  bytes.assign(bytes.size(), '\0');
  StoredModel absent = zero;
  std::erase_if(absent.tensors, [&](const StoredTensor& tensor) { return tensor.name == name; });
  expect_same(absent, zero);
}

TEST(LongRope, FactorsAreChosenByTheLongestSequenceAllowed) {
  StoredModel model = read_stored_model(committed("llama3"));
  const int head_dim =
      model.config["hidden_size"].get<int>() / model.config["num_attention_heads"].get<int>();
  const size_t num_factors = static_cast<size_t>(head_dim) / 2;
  model.config.erase("rope_parameters");
  model.config["original_max_position_embeddings"] = 64;
  model.config["rope_scaling"] = {{"rope_type", "longrope"},
                                  {"short_factor", std::vector<double>(num_factors, 1.0)},
                                  {"long_factor", std::vector<double>(num_factors, 3.0)}};
  RunnerOptions options;
  options.page_tokens = 64;
  options.num_pages = options.max_sequences;
  const std::vector<float> brief = logits_of(model, options);
  options.num_pages = 4 * options.max_sequences;
  const std::vector<float> roomy = logits_of(model, options);
  EXPECT_GT(relative_rms(roomy, brief), 1e-3);
  options.max_seq_len = 48;
  EXPECT_EQ(logits_of(model, options), brief);
  options.max_seq_len = 65;
  EXPECT_EQ(logits_of(model, options), roomy);
}

}  // namespace
}  // namespace quire::testing
