// Directories in Mistral's own layout: params.json and consolidated.safetensors. A model that transformers
// wrote is rewritten with other names, other fields and rotary pairs side by side, and must give the same
// logits.
#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/core/models/stored_model.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_families.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/safetensors_builder.h"

namespace quire::testing {
namespace {

const TokenIds kLayoutIds = {5, 17, 99, 3,  42, 42, 7,  120, 64, 31, 8,
                             2, 90, 11, 12, 13, 14, 15, 1,   0,  33, 77};

StoredModel small_mistral() {
  return read_stored_model(std::string(QUIRE_TEST_DATA) + "/architectures/mistral");
}

std::string file_of(const std::vector<StoredTensor>& tensors) {
  SafetensorsBuilder builder;
  for (const StoredTensor& tensor : tensors)
    builder.add_bytes(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
  return builder.build();
}

std::shared_ptr<const Model> load_files(const MemoryFileSystem& files) {
  ModelOptions options;
  options.source = open_model_source(files, "model");
  options.devices = {open_test_device()};
  return Model::load(options);
}

std::vector<float> logits_by(const std::shared_ptr<const Model>& model) {
  return TransformerRunner(model, {}).logits(kLayoutIds, 512);
}

// Mistral's own files, before they are written.
struct OwnFiles {
  Json params;
  std::vector<StoredTensor> tensors;
};

void replace_in_name(StoredTensor& tensor, const std::string& from, const std::string& to) {
  const size_t at = tensor.name.find(from);
  if (at != std::string::npos) tensor.name.replace(at, from.size(), to);
}

void rename_as_own(StoredTensor& tensor) {
  static const auto* const kNames = new std::vector<std::pair<std::string, std::string>>{
      {"model.", ""},
      {"embed_tokens", "tok_embeddings"},
      {"lm_head", "output"},
      {"input_layernorm", "attention_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attention.wq"},
      {"self_attn.k_proj", "attention.wk"},
      {"self_attn.v_proj", "attention.wv"},
      {"self_attn.o_proj", "attention.wo"},
      {"mlp.gate_proj", "feed_forward.w1"},
      {"mlp.down_proj", "feed_forward.w2"},
      {"mlp.up_proj", "feed_forward.w3"},
      {"block_sparse_moe", "feed_forward"},
      {"weight_scale_inv", "qscale_weight"},
      {"activation_scale", "qscale_act"},
  };
  for (const auto& [from, to] : *kNames) replace_in_name(tensor, from, to);
}

// Moves the rows of each head so that row i and row i + d/2 become neighbors.
void pair_rows(StoredTensor& tensor, int64_t head_dim) {
  const auto row_bytes = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
  std::string paired;
  for (int64_t row = 0; row < tensor.shape[0]; ++row) {
    const int64_t in_head = row % head_dim;
    const int64_t source = row - in_head + in_head / 2 + (in_head % 2) * head_dim / 2;
    paired += tensor.bytes.substr(static_cast<size_t>(source) * row_bytes, row_bytes);
  }
  tensor.bytes = std::move(paired);
}

OwnFiles to_own(const StoredModel& model) {
  const Json& config = model.config;
  OwnFiles own;
  own.params = {{"dim", config["hidden_size"]},
                {"n_layers", config["num_hidden_layers"]},
                {"head_dim", config["head_dim"]},
                {"hidden_dim", config["intermediate_size"]},
                {"n_heads", config["num_attention_heads"]},
                {"n_kv_heads", config["num_key_value_heads"]},
                {"norm_eps", config["rms_norm_eps"]},
                {"vocab_size", config["vocab_size"]},
                {"rope_theta", config["rope_parameters"]["rope_theta"]},
                {"max_seq_len", config["max_position_embeddings"]},
                {"sliding_window", config["sliding_window"]},
                {"vision_encoder", {{"hidden_size", 32}}}};
  own.tensors = model.tensors;
  for (StoredTensor& tensor : own.tensors) {
    const bool turns = tensor.name.ends_with("q_proj.weight") || tensor.name.ends_with("k_proj.weight");
    if (turns) pair_rows(tensor, config["head_dim"]);
    rename_as_own(tensor);
  }
  own.tensors.push_back({"vision_encoder.ln_pre.weight", "BF16", {2}, std::string(4, '\0')});
  return own;
}

MemoryFileSystem written(const OwnFiles& own) {
  MemoryFileSystem files;
  files.write("model/params.json", own.params.dump());
  files.write("model/consolidated.safetensors", file_of(own.tensors));
  return files;
}

void expect_twin(const StoredModel& model, const OwnFiles& own) {
  EXPECT_LE(relative_rms(logits_by(load_files(written(own))), logits_by(load_stored_model(model))),
            tolerance(1e-5, 2e-3));
}

TEST(MistralLayout, LogitsAreThoseOfTheTwin) {
  const StoredModel model = small_mistral();
  expect_twin(model, to_own(model));
}

TEST(MistralLayout, LogitsDependOnThePairs) {
  const StoredModel model = small_mistral();
  OwnFiles own = to_own(model);
  for (StoredTensor& tensor : own.tensors)
    if (tensor.name.ends_with("wq.weight")) pair_rows(tensor, own.params["head_dim"]);
  EXPECT_GT(relative_rms(logits_by(load_files(written(own))), logits_by(load_stored_model(model))), 1e-2);
}

TEST(MistralLayout, AWindowOfAllLayersIsANumber) {
  StoredModel model = small_mistral();
  model.config["sliding_window"] = 6;
  OwnFiles own = to_own(model);
  expect_twin(model, own);
  own.params["sliding_window"] = "6";
  expect_twin(model, own);
}

TEST(MistralLayout, AListOfWindowsRepeats) {
  StoredModel model = small_mistral();
  OwnFiles own = to_own(model);
  model.config["architectures"] = {"MinistralForCausalLM"};
  model.config["layer_types"] = {"full_attention", "sliding_attention"};
  model.config["sliding_window"] = 6;
  own.params["sliding_window"] = {nullptr, 6};
  expect_twin(model, own);
}

TEST(MistralLayout, TiedEmbeddingsNeedNoOutput) {
  StoredModel model = small_mistral();
  model.config["tie_word_embeddings"] = true;
  std::erase_if(model.tensors, [](const StoredTensor& tensor) { return tensor.name == "lm_head.weight"; });
  OwnFiles own = to_own(model);
  own.params["tied_embeddings"] = true;
  expect_twin(model, own);
}

TEST(MistralLayout, YarnAndScaledQueriesAreThoseOfMinistral3) {
  StoredModel model = small_mistral();
  model.config["architectures"] = {"Ministral3ForCausalLM"};
  model.config["rope_parameters"] = {{"rope_type", "yarn"},
                                     {"rope_theta", 10000.0},
                                     {"factor", 16.0},
                                     {"original_max_position_embeddings", 8},
                                     {"beta_fast", 32.0},
                                     {"beta_slow", 1.0},
                                     {"mscale", 1.0},
                                     {"mscale_all_dim", 1.0},
                                     {"llama_4_scaling_beta", 0.1}};
  OwnFiles own = to_own(model);
  own.params["yarn"] = {{"original_max_position_embeddings", 8},
                        {"factor", 16},
                        {"apply_scale", false},
                        {"beta", 32},
                        {"alpha", 1}};
  own.params["llama_4_scaling"] = {{"original_max_position_embeddings", 8}, {"beta", 0.1}};
  expect_twin(model, own);
  const std::vector<float> scaled = logits_by(load_files(written(own)));
  own.params["llama_4_scaling"]["beta"] = 0.0;
  EXPECT_GT(relative_rms(logits_by(load_files(written(own))), scaled), 1e-4);
  own.params["yarn"].erase("apply_scale");
  model.config["rope_parameters"].erase("mscale");
  model.config["rope_parameters"].erase("mscale_all_dim");
  model.config["rope_parameters"]["llama_4_scaling_beta"] = 0.0;
  expect_twin(model, own);
}

// Adds experts whose matrices are those of the layer with their columns of bytes moved.
void add_experts(StoredModel& model, int num_experts) {
  model.config["architectures"] = {"MixtralForCausalLM"};
  model.config["num_local_experts"] = num_experts;
  model.config["num_experts_per_tok"] = 2;
  for (int layer = 0; layer < model.config["num_hidden_layers"].get<int>(); ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (const auto& [dense, expert] :
         {std::pair{"gate_proj", "w1"}, std::pair{"down_proj", "w2"}, std::pair{"up_proj", "w3"}}) {
      const std::string dense_name = prefix + "mlp." + dense + ".weight";
      StoredTensor tensor = model.tensor(dense_name);
      for (int i = 0; i < num_experts; ++i) {
        std::rotate(tensor.bytes.begin(), tensor.bytes.begin() + 2 * (i + 3), tensor.bytes.end());
        tensor.name = prefix + "block_sparse_moe.experts." + std::to_string(i) + "." + expert + ".weight";
        model.tensors.push_back(tensor);
      }
      std::erase_if(model.tensors, [&](const StoredTensor& t) { return t.name == dense_name; });
    }
    StoredTensor router = model.tensor(prefix + "self_attn.q_proj.weight");
    router.shape[0] = num_experts;
    router.bytes.resize(static_cast<size_t>(num_experts * router.shape[1] * 2));
    router.name = prefix + "block_sparse_moe.gate.weight";
    model.tensors.push_back(router);
  }
}

TEST(MistralLayout, ExpertsAreThoseOfMixtral) {
  StoredModel model = small_mistral();
  add_experts(model, 4);
  OwnFiles own = to_own(model);
  own.params["moe"] = {{"num_experts", 4}, {"num_experts_per_tok", 2}};
  expect_twin(model, own);
}

// Adds the matrices of each expert of a stack. Each is cut into parts of equal height, which `parts` names.
void add_unstacked(const StoredTensor& stack, const std::vector<std::string>& parts, OwnFiles& own) {
  const std::string prefix = stack.name.substr(0, stack.name.rfind('.'));
  const auto num_parts = static_cast<int64_t>(parts.size());
  const size_t num_bytes = stack.bytes.size() / static_cast<size_t>(stack.shape[0] * num_parts);
  size_t begin = 0;
  for (int64_t i = 0; i < stack.shape[0]; ++i) {
    for (const std::string& part : parts) {
      own.tensors.push_back({prefix + "." + std::to_string(i) + "." + part + ".weight",
                             stack.dtype,
                             {stack.shape[1] / num_parts, stack.shape[2]},
                             stack.bytes.substr(begin, num_bytes)});
      begin += num_bytes;
    }
  }
}

void rename_latent_as_own(StoredTensor& tensor) {
  static const auto* const kNames = new std::vector<std::pair<std::string, std::string>>{
      {"language_model.", ""},
      {"mlp.", ""},
      {"self_attn.q_a_proj", "attention.wq_a"},
      {"self_attn.q_a_layernorm", "attention.q_a_norm"},
      {"self_attn.q_b_proj", "attention.wq_b"},
      {"self_attn.kv_a_proj_with_mqa", "attention.wkv_a_with_mqa"},
      {"self_attn.kv_a_layernorm", "attention.kv_a_norm"},
      {"self_attn.kv_b_proj", "attention.wkv_b"},
      {"shared_experts.gate_proj", "shared_experts.w1"},
      {"shared_experts.down_proj", "shared_experts.w2"},
      {"shared_experts.up_proj", "shared_experts.w3"},
  };
  for (const auto& [from, to] : *kNames) replace_in_name(tensor, from, to);
  rename_as_own(tensor);
}

Json own_latent_params(const Json& config) {
  Json params = {{"dim", config["hidden_size"]},
                 {"n_layers", config["num_hidden_layers"]},
                 {"hidden_dim", config["intermediate_size"]},
                 {"n_heads", config["num_attention_heads"]},
                 {"n_kv_heads", config["num_key_value_heads"]},
                 {"norm_eps", config["rms_norm_eps"]},
                 {"vocab_size", config["vocab_size"]}};
  for (const char* const name :
       {"head_dim", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"})
    params[name] = config[name];
  const Json& rope = config["rope_parameters"];
  const Json& context = rope["original_max_position_embeddings"];
  params["rope_theta"] = rope["rope_theta"];
  params["yarn"] = {{"original_max_position_embeddings", context},
                    {"factor", rope["factor"]},
                    {"apply_scale", false},
                    {"beta", rope["beta_fast"]},
                    {"alpha", rope["beta_slow"]}};
  params["llama_4_scaling"] = {{"original_max_position_embeddings", context},
                               {"beta", rope["llama_4_scaling_beta"]}};
  params["moe"] = {{"num_experts", config["n_routed_experts"]},
                   {"num_experts_per_tok", config["num_experts_per_tok"]},
                   {"expert_hidden_dim", config["moe_intermediate_size"]},
                   {"num_shared_experts", config["n_shared_experts"]},
                   {"num_expert_groups", config["n_group"]},
                   {"num_expert_groups_per_tok", config["topk_group"]},
                   {"first_k_dense_replace", config["first_k_dense_replace"]},
                   {"route_every_n", 1},
                   {"routed_scale", config["routed_scaling_factor"]}};
  return params;
}

TEST(MistralLayout, LatentModelsHaveSeparateExperts) {
  StoredModel model = read_stored_model(FamilyDirectory("mistral4").path());
  Json& config = model.config["text_config"];
  config["rope_parameters"]["original_max_position_embeddings"] = 8;
  OwnFiles own;
  own.params = own_latent_params(config);
  for (StoredTensor tensor : model.tensors) {
    if (!tensor.name.starts_with("language_model.")) continue;
    rename_latent_as_own(tensor);
    if (tensor.name.ends_with("experts.gate_up_proj")) {
      add_unstacked(tensor, {"w1", "w3"}, own);
    } else if (tensor.name.ends_with("experts.down_proj")) {
      add_unstacked(tensor, {"w2"}, own);
    } else {
      own.tensors.push_back(std::move(tensor));
    }
  }
  expect_twin(model, own);
}

// Replaces the matrices of the layers by E4M3 codes with one scale each.
void quantize_to_fp8(StoredModel& model) {
  model.config["quantization_config"] = {{"quant_method", "fp8"}, {"activation_scheme", "static"}};
  std::vector<StoredTensor> scales;
  for (StoredTensor& tensor : model.tensors) {
    if (tensor.name.find("_proj.weight") == std::string::npos) continue;
    std::string codes;
    for (size_t i = 0; i < tensor.bytes.size(); i += 2) {
      const auto bits = static_cast<unsigned>(static_cast<uint8_t>(tensor.bytes[i]) * 7U);
      codes += static_cast<char>((bits & 0x80U) | (bits % 0x7fU));
    }
    tensor.dtype = "F8_E4M3";
    tensor.bytes = std::move(codes);
    const float scale = 0.001f;
    const std::string base = tensor.name.substr(0, tensor.name.size() - std::string("weight").size());
    const std::string bytes(reinterpret_cast<const char*>(&scale), sizeof(scale));
    scales.push_back({base + "weight_scale_inv", "F32", {}, bytes});
    scales.push_back({base + "activation_scale", "F32", {}, bytes});
  }
  model.tensors.insert(model.tensors.end(), scales.begin(), scales.end());
}

TEST(MistralLayout, Fp8HasItsScalesUnderOtherNames) {
  StoredModel model = small_mistral();
  quantize_to_fp8(model);
  OwnFiles own = to_own(model);
  own.params["quantization"] = {{"qformat_weight", "fp8_e4m3"}, {"qscheme_act", "TENSOR"}};
  expect_twin(model, own);
}

TEST(MistralLayout, SeveralFilesHoldOneModel) {
  const StoredModel model = small_mistral();
  const OwnFiles own = to_own(model);
  MemoryFileSystem files;
  files.write("model/params.json", own.params.dump());
  const auto middle = own.tensors.begin() + static_cast<ptrdiff_t>(own.tensors.size() / 2);
  files.write("model/consolidated-00001-of-00002.safetensors", file_of({own.tensors.begin(), middle}));
  files.write("model/consolidated-00002-of-00002.safetensors", file_of({middle, own.tensors.end()}));
  EXPECT_EQ(logits_by(load_files(files)), logits_by(load_files(written(own))));
  const auto loaded = load_files(files);
  EXPECT_EQ(loaded->config().eos_ids, TokenIds{2});
  for (const TensorDescription& tensor : loaded->tensors())
    EXPECT_EQ(tensor.layer >= 0, tensor.name.starts_with("layers.")) << tensor.name;
}

TEST(MistralLayout, ConfigJsonDecidesIfItsWeightsAreThere) {
  const StoredModel model = small_mistral();
  OwnFiles own = to_own(model);
  own.params["rope_theta"] = 500.0;
  MemoryFileSystem files = written(own);
  files.write("model/config.json", model.config.dump());
  const std::vector<float> alone = logits_by(load_files(files));
  EXPECT_GT(relative_rms(alone, logits_by(load_stored_model(model))), 1e-3);
  files.write("model/model.safetensors", file_of(model.tensors));
  EXPECT_EQ(logits_by(load_files(files)), logits_by(load_stored_model(model)));
}

TEST(MistralLayout, OtherFilesDoNotCountWithoutAConfigJson) {
  const OwnFiles own = to_own(small_mistral());
  MemoryFileSystem files = written(own);
  files.write("model/golden.safetensors", SafetensorsBuilder().build());
  EXPECT_EQ(logits_by(load_files(files)), logits_by(load_files(written(own))));
}

TEST(MistralLayout, AMissingTensorHasItsOwnName) {
  OwnFiles own = to_own(small_mistral());
  std::erase_if(own.tensors,
                [](const StoredTensor& tensor) { return tensor.name == "layers.1.attention.wk.weight"; });
  expect_error(ErrorCode::format, {"layers.1.attention.wk"}, [&] { load_files(written(own)); });
}

TEST(MistralLayout, WeightsOfAnotherKindAreRefused) {
  const OwnFiles own = to_own(small_mistral());
  MemoryFileSystem files;
  files.write("model/params.json", own.params.dump());
  files.write("model/consolidated.00.pth", "PK");
  expect_error(ErrorCode::unsupported, {"consolidated.00.pth"}, [&] { load_files(files); });
}

}  // namespace
}  // namespace quire::testing
