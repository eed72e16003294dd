// Modules for multi-token prediction of families without golden files: the tiny model of a family gets a
// module of copies of its own tensors, under the names of published files, and both compute.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "core/models/draft_scores.h"
#include "core/models/draft_source.h"
#include "tests/core/models/stored_model.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/golden_families.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/safetensors_builder.h"

namespace quire::testing {
namespace {

constexpr int64_t kHidden = 64;

// Beginnings of names in the model, and in the module that gets copies.
using Copies = std::vector<std::pair<std::string, std::string>>;

struct FamilyModule {
  std::string family;
  std::string projection;
  Copies copies;
  Json fields = {{"num_nextn_predict_layers", 1}};
};

std::vector<FamilyModule> family_modules() {
  const std::string ernie = "model.mtp_block.0.", flash = "model.mtp.layers.0.", step = "model.layers.4.";
  const Copies of_ernie = {{"model.layers.0.", ernie},
                           {"model.norm.", "model.mtp_emb_norm.0."},
                           {"model.norm.", "model.mtp_hidden_norm.0."}};
  return {
      {"ernie4_5", "model.mtp_linear_proj.0", of_ernie},
      {"ernie4_5_moe", "model.mtp_linear_proj.0", of_ernie},
      {"mimo_v2_flash",
       flash + "eh_proj",
       {{"model.layers.1.self_attn.", flash + "self_attn."},
        {"model.layers.1.input_layernorm.", flash + "input_layernorm."},
        {"model.layers.1.post_attention_layernorm.", flash + "pre_mlp_layernorm."},
        {"model.layers.0.mlp.", flash + "mlp."},
        {"model.norm.", flash + "enorm."},
        {"model.norm.", flash + "hnorm."},
        {"model.norm.", flash + "final_layernorm."}},
       Json::object()},
      {"hy_v3",
       "model.layers.2.eh_proj",
       {{"model.layers.1.", "model.layers.2."},
        {"model.norm.", "model.layers.2.enorm."},
        {"model.norm.", "model.layers.2.hnorm."},
        {"model.norm.", "model.layers.2.final_layernorm."}}},
      {"exaone_moe",
       "mtp.fc",
       {{"model.layers.0.", "mtp.layers.0."},
        {"model.norm.", "mtp.pre_fc_norm_embedding."},
        {"model.norm.", "mtp.pre_fc_norm_hidden."},
        {"model.norm.", "mtp.norm."}},
       {{"num_nextn_predict_layers", 1}, {"mtp_layer_types", {"full_attention"}}}},
      {"step3p7",
       step + "eh_proj",
       {{"model.layers.2.self_attn.", step + "self_attn."},
        {"model.layers.2.input_layernorm.", step + "input_layernorm."},
        {"model.layers.0.post_attention_layernorm.", step + "post_attention_layernorm."},
        {"model.layers.0.mlp.", step + "mlp."},
        {"model.norm.", step + "enorm."},
        {"model.norm.", step + "hnorm."},
        {"model.norm.", step + "transformer.shared_head.norm."},
        {"lm_head.", step + "transformer.shared_head.output."}},
       {{"num_nextn_predict_layers", 1},
        {"layer_types",
         {"full_attention", "sliding_attention", "sliding_attention", "full_attention",
          "sliding_attention"}}}},
  };
}

void PrintTo(const FamilyModule& module, std::ostream* out) {
  *out << module.family;
}

// Adds half the sum of both inputs, each of the hidden size, as the module's projection.
void add_projection(const std::string& name, SafetensorsBuilder& file) {
  std::vector<float> values(kHidden * 2 * kHidden);
  for (int64_t i = 0; i < kHidden; ++i)
    for (const int64_t column : {i, kHidden + i})
      values[static_cast<size_t>(i * 2 * kHidden + column)] = 0.5f;
  file.add<float>(name + ".weight", "F32", {kHidden, 2 * kHidden}, values);
}

std::string weights_of(const StoredModel& model, const FamilyModule& module) {
  SafetensorsBuilder file;
  for (const StoredTensor& tensor : model.tensors) {
    file.add_bytes(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
    for (const auto& [from, to] : module.copies)
      if (tensor.name.starts_with(from))
        file.add_bytes(to + tensor.name.substr(from.size()), tensor.dtype, tensor.shape, tensor.bytes);
  }
  add_projection(module.projection, file);
  return file.build();
}

class FamilyModules : public ::testing::TestWithParam<FamilyModule> {};

TEST_P(FamilyModules, ComputeWithTheNamesOfPublishedFiles) {
  const FamilyModule& module = GetParam();
  const FamilyDirectory directory(module.family);
  if (const std::string refusal = refusal_of(directory.path()); !refusal.empty()) GTEST_SKIP() << refusal;
  StoredModel model = read_stored_model(directory.path());
  Json& text = model.config.contains("text_config") ? model.config["text_config"] : model.config;
  for (const auto& [name, value] : module.fields.items()) text[name] = value;
  MemoryFileSystem files;
  files.write("m/config.json", model.config.dump());
  files.write("m/model.safetensors", weights_of(model, module));
  ModelOptions options;
  options.source = open_model_source(files, "m");
  options.devices = {open_test_device()};
  options.drafter = std::make_shared<const DraftSource>(open_draft_source(files, "mtp", options.source));
  TokenIds ids;
  for (TokenId token = 0; token < 40; ++token) ids.push_back(token * 37 % 150);
  const DraftScores scores = score_drafter(Model::load(options)->transformer(), ids);
  EXPECT_EQ(scores.num_rows, 39);
  EXPECT_EQ(scores.columns, 160);
  EXPECT_TRUE(
      std::all_of(scores.logits.begin(), scores.logits.end(), [](float x) { return std::isfinite(x); }));
  EXPECT_NE(scores.logits.front(), scores.logits.back());
}

INSTANTIATE_TEST_SUITE_P(All, FamilyModules, ::testing::ValuesIn(family_modules()),
                         [](const auto& of) { return of.param.family; });

}  // namespace
}  // namespace quire::testing
