// Sources of draft networks: those of the golden files can be built, and files that do not fit are refused.
#include "core/models/draft_source.h"

#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "core/models/transformer_builder.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_families.h"
#include "tests/support/json_text.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/safetensors_builder.h"

namespace quire::testing {
namespace {

const std::string kGoldens = std::string(QUIRE_SHARED_DIR) + "/golden/mtp/";

// Opens the draft network, and reads and prepares all its weights.
void build_draft(const std::string& drafter, const std::string& target) {
  const DraftSource draft =
      open_draft_source(posix_file_system(), drafter, open_model_source(posix_file_system(), target));
  const auto weights = draft.weights(ReadScope::all, {});
  const std::vector<std::shared_ptr<Device>> devices = {open_test_device()};
  const auto transformer = build_transformer(draft.config.network, *weights, devices,
                                             place_on_one_device(draft.config.network.num_layers), {});
  EXPECT_NE(transformer, nullptr);
}

TEST(DraftSource, OfGoldenModulesHasAllTheirTensors) {
  for (const char* name : {"deepseek_v3", "glm4_moe", "qwen3_next", "qwen3_5", "mimo"}) {
    SCOPED_TRACE(name);
    if (!std::filesystem::is_directory(kGoldens + name)) GTEST_SKIP() << "no " << kGoldens << name;
    build_draft("mtp", kGoldens + name);
  }
}

TEST(DraftSource, OfGoldenEagle3HasAllItsTensors) {
  const std::string golden = kGoldens + "eagle3_norm_before/";
  if (!std::filesystem::is_directory(golden)) GTEST_SKIP() << "no " << golden;
  build_draft(golden + "draft", golden + "target");
}

TokenIds golden_tokens(const std::string& drafter, const std::string& target) {
  return open_draft_source(posix_file_system(), drafter, open_model_source(posix_file_system(), target))
      .token_of;
}

TEST(DraftSource, OfGoldenEagle3HasTheTokensOfItsColumns) {
  if (!std::filesystem::is_directory(kGoldens)) GTEST_SKIP() << "no " << kGoldens;
  const TokenIds tokens = golden_tokens(kGoldens + "eagle3/draft", kGoldens + "eagle3/target");
  EXPECT_EQ(tokens.size(), 64U);
  for (size_t i = 1; i < tokens.size(); ++i) EXPECT_LT(tokens[i - 1], tokens[i]);
  EXPECT_LT(tokens.back(), 160);
  const std::string story = std::string(QUIRE_SHARED_DIR) + "/models/story-15m";
  EXPECT_EQ(golden_tokens(kGoldens + "eagle3_story/draft", story).size(), 768U);
}

const Json kModule = {{"num_nextn_predict_layers", 1}};

Json family_with(const std::string& family, const Json& fields) {
  Json config = Json::parse(golden_family_config(family));
  for (const auto& [name, value] : fields.items()) config[name] = value;
  return config;
}

// A target of the family GLM-4.5 in the directory "m", with these tensors.
std::shared_ptr<ModelSource> glm_source(MemoryFileSystem& files, const std::vector<std::string>& tensors) {
  files.write("m/config.json", family_with("glm4_moe", kModule).dump());
  SafetensorsBuilder weights;
  for (const std::string& name : tensors) weights.add<float>(name, "F32", {1, 2}, {1.0f, 2.0f});
  files.write("m/model.safetensors", weights.build());
  return open_model_source(files, "m");
}

TEST(DraftSource, OfAModuleRenamesTheTensorsOfItsLayer) {
  MemoryFileSystem files;
  const auto target = glm_source(files, {"model.embed_tokens.weight", "model.layers.1.mlp.gate.weight",
                                         "model.layers.2.mlp.gate.weight", "model.layers.2.eh_proj.weight"});
  const DraftSource draft = open_draft_source(files, "mtp", target);
  EXPECT_EQ(draft.source, target);
  EXPECT_TRUE(draft.token_of.empty());
  const auto weights = draft.weights(ReadScope::all, {});
  EXPECT_EQ(weights->stored_name("model.layers.1.mlp.gate"), "model.layers.2.mlp.gate");
  EXPECT_EQ(weights->stored_name("model.layers.2.eh_proj"), "model.layers.2.eh_proj");
  EXPECT_EQ(weights->stored_name("model.layers.1.mlp.up_proj"), "model.layers.2.mlp.up_proj");
  EXPECT_TRUE(weights->is_concurrent());
  EXPECT_EQ(weights->vector("model.layers.2.mlp.gate.weight", 2), (std::vector<float>{1.0f, 2.0f}));
}

TEST(DraftSource, OfAModuleThatTheFilesLackIsRefused) {
  MemoryFileSystem files;
  const auto target = glm_source(files, {"model.embed_tokens.weight"});
  expect_error(ErrorCode::unsupported, {"m: ", "model.layers.2.eh_proj.weight", "choose another drafter"},
               [&] { (void)open_draft_source(files, "mtp", target); });
  const std::string synthetic = "synthetic:qwen3.5-2b";
  expect_error(ErrorCode::unsupported, {synthetic, "config.json"},
               [&] { (void)open_draft_source(files, "mtp", open_model_source(files, synthetic)); });
}

// An EAGLE-3 network in the directory "d", with 4 columns of logits.
class Eagle3Files {
 public:
  Eagle3Files() {
    files_.write("m/config.json", golden_family_config("llama3"));
    target_ = open_model_source(files_, "m");
    const ModelConfig& model = target_->config();
    const Json config = {{"architectures", {"LlamaForCausalLMEagle3"}},
                         {"model_type", "llama"},
                         {"num_hidden_layers", 1},
                         {"hidden_size", model.hidden_size},
                         {"intermediate_size", 32},
                         {"num_attention_heads", 4},
                         {"vocab_size", model.vocab_size},
                         {"draft_vocab_size", 4},
                         {"eagle_aux_hidden_state_layer_ids", {0, 1}}};
    files_.write("d/config.json", config.dump());
  }

  int32_t vocab_size() const { return target_->config().vocab_size; }

  template <typename T>
  void write_map(const char* type, const std::vector<T>& values) {
    SafetensorsBuilder weights;
    const std::vector<float> row = {1.0f};
    for (const char* name : {"midlayer.self_attn.o_proj.weight", "lm_head.weight"})
      weights.add<float>(name, "F32", {1, 1}, row);
    weights.add<T>("d2t", type, {static_cast<int64_t>(values.size())}, values);
    files_.write("d/model.safetensors", weights.build());
  }

  DraftSource open() const { return open_draft_source(files_, "d", target_); }

  void expect_refused(std::initializer_list<std::string_view> words) const {
    expect_error(ErrorCode::format, words, [&] { (void)open(); });
  }

 private:
  MemoryFileSystem files_;
  std::shared_ptr<ModelSource> target_;
};

TEST(DraftSource, OfEagle3ReadsItsTokenMap) {
  Eagle3Files files;
  files.write_map<int64_t>("I64", {0, 4, 9, files.vocab_size() - 4});
  const DraftSource draft = files.open();
  EXPECT_EQ(draft.token_of, (TokenIds{0, 5, 11, files.vocab_size() - 1}));
  EXPECT_TRUE(draft.config.borrows_embedding);
  EXPECT_EQ(draft.source, nullptr);
  EXPECT_EQ(draft.weights(ReadScope::all, {})->stored_name("model.layers.0.self_attn.o_proj"),
            "midlayer.self_attn.o_proj");
  files.write_map<int32_t>("I32", {3, 2, 1, 0});
  EXPECT_EQ(files.open().token_of, (TokenIds{3, 3, 3, 3}));
}

TEST(DraftSource, OfEagle3RefusesTokensThatTheTargetLacks) {
  Eagle3Files files;
  const std::initializer_list<std::string_view> words = {"d/model.safetensors", "\"d2t\"", "column 2"};
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t bad : {int64_t{-3}, int64_t{files.vocab_size()} - 2, kMost, -kMost}) {
    files.write_map<int64_t>("I64", {0, 0, bad, 0});
    files.expect_refused(words);
  }
  files.write_map<int32_t>("I32", {0, 0, std::numeric_limits<int32_t>::max(), 0});
  files.expect_refused(words);
  files.write_map<int64_t>("I64", {0, 0, 0});
  files.expect_refused({"\"d2t\"", "shape"});
  files.write_map<float>("F32", {0, 0, 0, 0});
  files.expect_refused({"\"d2t\"", "F32", "I64"});
}

TEST(DraftSource, MayBeAModelOfItsOwn) {
  const FileSystem& files = posix_file_system();
  const auto target = open_model_source(files, QUIRE_EMBEDDED_MODEL);
  const DraftSource draft = open_draft_source(files, QUIRE_EMBEDDED_MODEL, target);
  EXPECT_EQ(draft.config.kind, DraftNetworkKind::model);
  EXPECT_EQ(draft.config.network.num_layers, 8);
  EXPECT_NE(draft.source, target);
  EXPECT_TRUE(draft.source->has_tokenizer());
  EXPECT_TRUE(draft.weights(ReadScope::all, {})->has_tensor("model.norm.weight"));
  EXPECT_EQ(open_draft_source(files, "synthetic:llama-3.2-1b,layers=2", target).config.network.num_layers, 2);
  MemoryFileSystem memory;
  memory.write("h/config.json", golden_family_config("falcon_h1"));
  expect_error(ErrorCode::unsupported, {"h: ", "attention beside Mamba-2"},
               [&] { (void)open_draft_source(memory, "h", target); });
  expect_error(ErrorCode::not_found, {"no/such"},
               [&] { (void)open_draft_source(memory, "no/such", target); });
}

}  // namespace
}  // namespace quire::testing
