// Families whose code is distributed with their checkpoints. Each is another family with other names, another
// order of its matrices or other settings. So a model of the other family, converted to it, must give the
// logits that transformers computes for the original.
#include <cmath>
#include <cstring>
#include <functional>

#include <gtest/gtest.h>

#include "tests/core/models/golden_file.h"
#include "tests/core/models/stored_model.h"
#include "tests/core/models/transformer_runner.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

struct Conversion {
  const char* architecture;
  const char* model_type;
  const char* from;  // family that has the reference outputs
  std::function<void(StoredModel&)> apply;
};

void rename(StoredModel& model, const std::string& from, const std::string& to) {
  for (StoredTensor& tensor : model.tensors) {
    const size_t at = tensor.name.find(from);
    if (at != std::string::npos) tensor.name.replace(at, from.size(), to);
  }
}

// Concatenates for each KV head its queries, its key and its value, one matrix after another.
void fuse_by_kv_head(StoredModel& model) {
  const int64_t kv_heads = model.config["num_key_value_heads"];
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    std::vector<StoredTensor> parts;
    for (const char* part : {"q_proj", "k_proj", "v_proj"})
      parts.push_back(model.take(layer_name(layer, std::string("self_attn.") + part + ".weight")));
    StoredTensor fused = {
        layer_name(layer, "attention.wqkv.weight"), parts[0].dtype, {0, parts[0].shape[1]}, ""};
    for (int64_t head = 0; head < kv_heads; ++head) {
      for (const StoredTensor& part : parts) {
        const size_t bytes = part.bytes.size() / static_cast<size_t>(kv_heads);
        fused.bytes += part.bytes.substr(static_cast<size_t>(head) * bytes, bytes);
        fused.shape[0] += part.shape[0] / kv_heads;
      }
    }
    model.tensors.push_back(std::move(fused));
  }
}

void to_internlm2(StoredModel& model) {
  fuse_by_kv_head(model);
  rename(model, "self_attn.o_proj", "attention.wo");
  rename(model, "mlp.gate_proj", "feed_forward.w1");
  rename(model, "mlp.up_proj", "feed_forward.w3");
  rename(model, "mlp.down_proj", "feed_forward.w2");
  rename(model, "input_layernorm", "attention_norm");
  rename(model, "post_attention_layernorm", "ffn_norm");
  rename(model, "model.embed_tokens", "model.tok_embeddings");
  rename(model, "lm_head", "output");
}

float from_bf16(const char* at) {
  uint16_t half = 0;
  std::memcpy(&half, at, sizeof(half));
  const uint32_t bits = uint32_t{half} << 16;
  float value = 0.0f;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

void scale_as_f32(StoredTensor& tensor, float factor) {
  std::string bytes;
  for (size_t i = 0; i < tensor.bytes.size(); i += 2) {
    const float value = from_bf16(tensor.bytes.data() + i) * factor;
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  tensor.dtype = "F32";
  tensor.bytes = std::move(bytes);
}

// Uses Granite's multipliers under MiniCPM's names. MiniCPM has no attention multiplier, so the queries are
// scaled by it.
void to_minicpm(StoredModel& model) {
  Json& config = model.config;
  const float head_dim = config["hidden_size"].get<float>() / config["num_attention_heads"].get<float>();
  const float of_queries = config["attention_multiplier"].get<float>() * std::sqrt(head_dim);
  config["scale_emb"] = config["embedding_multiplier"];
  config["scale_depth"] =
      config["residual_multiplier"].get<double>() * std::sqrt(config["num_hidden_layers"].get<double>());
  config["dim_model_base"] = config["hidden_size"].get<double>() / config["logits_scaling"].get<double>();
  for (const char* gone :
       {"attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling"})
    config.erase(gone);
  for (int layer = 0; layer < model.num_layers(); ++layer)
    scale_as_f32(model.tensor(layer_name(layer, "self_attn.q_proj.weight")), of_queries);
}

// OLMo's norms have neither weights nor biases.
void to_orion(StoredModel& model) {
  const size_t columns = model.config["hidden_size"];
  std::vector<std::string> norms = {"model.norm"};
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    norms.push_back(layer_name(layer, "input_layernorm"));
    norms.push_back(layer_name(layer, "post_attention_layernorm"));
  }
  std::string ones;
  for (size_t i = 0; i < columns; ++i) ones += std::string("\x80\x3f", 2);
  const std::vector<int64_t> shape = {static_cast<int64_t>(columns)};
  for (const std::string& norm : norms) {
    model.tensors.push_back({norm + ".weight", "BF16", shape, ones});
    model.tensors.push_back({norm + ".bias", "BF16", shape, std::string(2 * columns, '\0')});
  }
  model.config["rms_norm_eps"] = 1e-5;
}

// Identical experts whose weights add up to one are equivalent to one feed-forward layer.
void to_gemmoe(StoredModel& model) {
  constexpr int kExperts = 4;
  const int64_t columns = model.config["hidden_size"];
  model.config["num_local_experts"] = kExperts;
  model.config["num_experts_per_tok"] = 2;
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    const std::string block = layer_name(layer, "block_sparse_moe.");
    for (const auto& [from, to] : {std::pair("gate_proj", "w1"), {"up_proj", "w3"}, {"down_proj", "w2"}}) {
      StoredTensor matrix = model.take(layer_name(layer, std::string("mlp.") + from + ".weight"));
      for (int expert = 0; expert < kExperts; ++expert) {
        matrix.name = block + "experts." + std::to_string(expert) + "." + to + ".weight";
        model.tensors.push_back(matrix);
      }
    }
    const std::string& router = model.tensors.back().bytes;
    model.tensors.push_back({block + "gate.weight",
                             "BF16",
                             {kExperts, columns},
                             router.substr(0, static_cast<size_t>(2 * kExperts * columns))});
  }
}

const std::vector<std::string> kQkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};

// ChatGLM's config has other names, and counts the base of the rotary embedding in multiples of 10000.
void to_chatglm(StoredModel& model) {
  fuse(model, kQkv, "self_attention.query_key_value");
  const Json glm = model.config;
  model.config = {{"hidden_size", glm["hidden_size"]},
                  {"num_layers", glm["num_hidden_layers"]},
                  {"num_attention_heads", glm["num_attention_heads"]},
                  {"multi_query_attention", true},
                  {"multi_query_group_num", glm["num_key_value_heads"]},
                  {"kv_channels", glm["head_dim"]},
                  {"ffn_hidden_size", glm["intermediate_size"]},
                  {"layernorm_epsilon", glm["rms_norm_eps"]},
                  {"padded_vocab_size", glm["vocab_size"]},
                  {"seq_length", glm["max_position_embeddings"]},
                  {"add_bias_linear", false},
                  {"add_qkv_bias", true},
                  {"rope_ratio", 1}};
  rename(model, "self_attn.o_proj", "self_attention.dense");
  rename(model, "mlp.gate_up_proj", "mlp.dense_h_to_4h");
  rename(model, "mlp.down_proj", "mlp.dense_4h_to_h");
  rename(model, "model.layers", "transformer.encoder.layers");
  rename(model, "model.embed_tokens", "transformer.embedding.word_embeddings");
  rename(model, "model.norm", "transformer.encoder.final_layernorm");
  rename(model, "lm_head", "transformer.output_layer");
}

// Writes each KV head as often as there are queries that read it.
void repeat_kv_heads(StoredModel& model) {
  const auto kv_heads = model.config["num_key_value_heads"].get<size_t>();
  const size_t times = model.config["num_attention_heads"].get<size_t>() / kv_heads;
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    for (const char* part : {"k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias"}) {
      StoredTensor& tensor = model.tensor(layer_name(layer, std::string("self_attn.") + part));
      const size_t head_bytes = tensor.bytes.size() / kv_heads;
      std::string repeated;
      for (size_t head = 0; head < kv_heads; ++head)
        for (size_t i = 0; i < times; ++i) repeated += tensor.bytes.substr(head * head_bytes, head_bytes);
      tensor.bytes = std::move(repeated);
      tensor.shape[0] *= static_cast<int64_t>(times);
    }
  }
}

// The first Qwen has no GQA, no tied embedding, and counts gate and up in intermediate_size.
void to_qwen1(StoredModel& model) {
  repeat_kv_heads(model);
  fuse(model, kQkv, "attn.c_attn");
  StoredTensor head = model.tensor("model.embed_tokens.weight");
  head.name = "lm_head.weight";
  model.tensors.push_back(std::move(head));
  model.config["tie_word_embeddings"] = false;
  model.config["intermediate_size"] = 2 * model.config["intermediate_size"].get<int>();
  model.config["layer_norm_epsilon"] = model.config["rms_norm_eps"];
  for (const char* gone : {"num_key_value_heads", "rms_norm_eps", "layer_types", "rope_parameters"})
    model.config.erase(gone);
  rename(model, "self_attn.o_proj", "attn.c_proj");
  rename(model, "mlp.gate_proj", "mlp.w2");
  rename(model, "mlp.up_proj", "mlp.w1");
  rename(model, "mlp.down_proj", "mlp.c_proj");
  rename(model, "input_layernorm", "ln_1");
  rename(model, "post_attention_layernorm", "ln_2");
  rename(model, "model.layers", "transformer.h");
  rename(model, "model.embed_tokens", "transformer.wte");
  rename(model, "model.norm", "transformer.ln_f");
}

void unchanged(StoredModel&) {}

const Conversion kConversions[] = {
    {"ChatGLMModel", "chatglm", "glm", to_chatglm},
    {"QWenLMHeadModel", "qwen", "qwen2", to_qwen1},
    {"YiForCausalLM", "Yi", "llama3", unchanged},
    {"IndexForCausalLM", "index", "llama_tied", unchanged},
    {"InternLM2ForCausalLM", "internlm2", "llama3", to_internlm2},
    {"MiniCPMForCausalLM", "minicpm", "granite", to_minicpm},
    {"OrionForCausalLM", "orion", "olmo", to_orion},
    {"GemmoeForCausalLM", "gemmoe", "gemma", to_gemmoe},
};

class ConvertedFamily : public ::testing::TestWithParam<Conversion> {};

TEST_P(ConvertedFamily, GivesTheLogitsOfTheOriginalFamily) {
  const FamilyDirectory directory(GetParam().from);
  StoredModel model = read_stored_model(directory.path());
  GetParam().apply(model);
  model.config["architectures"] = {GetParam().architecture};
  model.config["model_type"] = GetParam().model_type;
  TransformerRunner runner(load_stored_model(model), {});
  const std::vector<float> logits = runner.logits(read_ids(directory.golden(), "input_ids"), 512);
  EXPECT_LE(golden_error(logits, directory.golden()), tolerance(2e-3, 1e-2));
}

INSTANTIATE_TEST_SUITE_P(Families, ConvertedFamily, ::testing::ValuesIn(kConversions),
                         [](const auto& param) { return std::string(param.param.model_type); });

}  // namespace
}  // namespace quire::testing
