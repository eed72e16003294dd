// Every number of a configuration has a range, and every error names its field.
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "core/config/model_config.h"
#include "tests/core/config/config_text.h"
#include "tests/support/case_stride.h"
#include "tests/support/expect_error.h"
#include "tests/support/quantized_fixture.h"

namespace quire {
namespace {

using testing::attention_of;
using testing::expect_error;
using testing::Json;
using testing::rope_of;
using testing::small_config;
using testing::windows_of;

struct IntRange {
  const char* field;
  int64_t min;
  int64_t max;
};

class ConfigRange : public ::testing::TestWithParam<IntRange> {};

const IntRange kRanges[] = {
    {"num_hidden_layers", 1, 1024},   {"hidden_size", 1, 65536},      {"intermediate_size", 1, 1 << 20},
    {"num_attention_heads", 1, 1024}, {"head_dim", 1, 1024},          {"num_key_value_heads", 1, 1024},
    {"vocab_size", 1, 1 << 22},       {"sliding_window", 1, 1 << 30}, {"max_position_embeddings", 1, 1 << 30},
};

TEST_P(ConfigRange, ValuesOutsideAreRefusedByName) {
  const IntRange& range = GetParam();
  const Json kNonsense[] = {range.min - 1,    range.max + 1, -1,    INT64_MIN, INT64_MAX, UINT64_MAX,
                            1000000000000LL,  1.5,           1e300, -1e300,    "7",       true,
                            Json::array({4}), Json::object()};
  for (const Json& value : kNonsense) {
    Json json = small_config("MistralForCausalLM");
    json[range.field] = value;
    expect_error(ErrorCode::format, {std::string("config.json.") + range.field + " must be"},
                 [&] { parse_model_config(json.dump()); });
  }
}

TEST_P(ConfigRange, BothEndsAreInRange) {
  for (const int64_t value : {GetParam().min, GetParam().max}) {
    Json json = small_config("MistralForCausalLM");
    json[GetParam().field] = value;
    try {
      parse_model_config(json.dump());
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("must be a whole number"), std::string::npos) << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fields, ConfigRange, ::testing::ValuesIn(kRanges),
                         [](const auto& param) { return std::string(param.param.field); });

struct ConfigChange {
  const char* name;
  const char* word;
  std::function<void(Json&)> apply;
  ErrorCode code = ErrorCode::format;
};

class ChangedConfig : public ::testing::TestWithParam<ConfigChange> {};

TEST_P(ChangedConfig, IsRefusedByName) {
  Json json = small_config("Qwen2ForCausalLM");
  GetParam().apply(json);
  expect_error(GetParam().code, {"config.json", GetParam().word}, [&] { parse_model_config(json.dump()); });
}

const ConfigChange kConfigChanges[] = {
    {"no_hidden_size", "config.json.hidden_size is missing", [](Json& j) { j.erase("hidden_size"); }},
    {"no_layers", "config.json.num_hidden_layers is missing", [](Json& j) { j.erase("num_hidden_layers"); }},
    {"no_heads", "config.json.num_attention_heads is missing",
     [](Json& j) { j.erase("num_attention_heads"); }},
    {"no_mlp", "config.json.intermediate_size is missing", [](Json& j) { j.erase("intermediate_size"); }},
    {"no_vocabulary", "config.json.vocab_size is missing", [](Json& j) { j["vocab_size"] = nullptr; }},
    {"architectures_empty", "architectures is missing", [](Json& j) { j["architectures"] = Json::array(); }},
    {"architectures_two", "at most one",
     [](Json& j) {
       j["architectures"] = {"LlamaForCausalLM", "MistralForCausalLM"};
     }},
    {"architectures_string", "must be a list", [](Json& j) { j["architectures"] = "LlamaForCausalLM"; }},
    {"architectures_number", "architectures[0] must be a string", [](Json& j) { j["architectures"] = {1}; }},
    {"text_config_list", "text_config must be an object", [](Json& j) { j["text_config"] = {1}; }},
    {"kv_heads_do_not_divide", "num_key_value_heads: 3 does not divide 4",
     [](Json& j) { j["num_key_value_heads"] = 3; }},
    {"kv_heads_above_heads", "num_key_value_heads: 8 does not divide 4",
     [](Json& j) { j["num_key_value_heads"] = 8; }},
    {"heads_do_not_divide", "num_attention_heads: 5 does not divide hidden_size 64",
     [](Json& j) { j["num_attention_heads"] = 5; }},
    {"head_dim_odd", "head_dim: rotary embedding of 15", [](Json& j) { j["head_dim"] = 15; }},
    {"head_dim_one", "rotary embedding of 1", [](Json& j) { j["head_dim"] = 1; }},
    {"head_dim_derived_too_large", "heads of 65536 dimensions",
     [](Json& j) {
       j["hidden_size"] = 65536;
       j["num_attention_heads"] = 1;
     }},
    {"epsilon_zero", "rms_norm_eps must be", [](Json& j) { j["rms_norm_eps"] = 0.0; }},
    {"epsilon_negative", "rms_norm_eps must be", [](Json& j) { j["rms_norm_eps"] = -1e-5; }},
    {"epsilon_one", "rms_norm_eps must be", [](Json& j) { j["rms_norm_eps"] = 1; }},
    {"epsilon_string", "rms_norm_eps must be", [](Json& j) { j["rms_norm_eps"] = "1e-5"; }},
    {"theta_zero", "rope_theta must be", [](Json& j) { j["rope_theta"] = 0; }},
    {"theta_negative", "rope_theta must be", [](Json& j) { j["rope_theta"] = -10000.0; }},
    {"theta_huge", "rope_theta must be", [](Json& j) { j["rope_theta"] = 1e300; }},
    {"activation_unknown", "hidden_act: \"mish\"", [](Json& j) { j["hidden_act"] = "mish"; },
     ErrorCode::unsupported},
    {"activation_number", "hidden_act must be a string", [](Json& j) { j["hidden_act"] = 1; }},
    {"tied_string", "tie_word_embeddings must be true or false",
     [](Json& j) { j["tie_word_embeddings"] = "yes"; }},
    {"switch_number", "use_sliding_window must be true or false",
     [](Json& j) { j["use_sliding_window"] = 1; }},
    {"layer_types_short", "layer_types must be a list of 2",
     [](Json& j) {
       j["use_sliding_window"] = true;
       j["layer_types"] = {"full_attention"};
     }},
    {"layer_types_unknown", "layer_types[1]: \"linear_attention\"",
     [](Json& j) {
       j["use_sliding_window"] = true;
       j["layer_types"] = {"full_attention", "linear_attention"};
     },
     ErrorCode::unsupported},
    {"eos_beyond_vocabulary", "eos_token_id must be", [](Json& j) { j["eos_token_id"] = 160; }},
    {"eos_negative", "eos_token_id must be", [](Json& j) { j["eos_token_id"] = -2; }},
    {"eos_string", "eos_token_id must be", [](Json& j) { j["eos_token_id"] = "</s>"; }},
    {"eos_list_of_strings", "eos_token_id[1] must be",
     [](Json& j) {
       j["eos_token_id"] = {1, "2"};
     }},
    {"eos_long", "eos_token_id has more than 1024",
     [](Json& j) { j["eos_token_id"] = std::vector<int>(1025, 1); }},
    {"bos_beyond_vocabulary", "bos_token_id must be", [](Json& j) { j["bos_token_id"] = 5000; }},
    {"gpt_neo_layers_short", "attention_types must name 2 layers",
     [](Json& j) {
       j["architectures"] = {"GPTNeoForCausalLM"};
       j["attention_types"] = Json::parse(R"([[["global", "local", "local"], 1024]])");
     }},
    {"gpt_neo_pair_flat", "attention_types[0] must be a list of kinds and a number",
     [](Json& j) {
       j["architectures"] = {"GPTNeoForCausalLM"};
       j["attention_types"] = Json::parse(R"([["global", 2]])");
     }},
    {"gpt_neo_kind_unknown", "\"sparse\" is not supported; supported are global and local",
     [](Json& j) {
       j["architectures"] = {"GPTNeoForCausalLM"};
       j["attention_types"] = Json::parse(R"([[["sparse"], 2]])");
     },
     ErrorCode::unsupported},
    {"bloom_residual_of_norm", "apply_residual_connection_post_layernorm: true",
     [](Json& j) {
       j["architectures"] = {"BloomForCausalLM"};
       j["apply_residual_connection_post_layernorm"] = true;
     },
     ErrorCode::unsupported},
    {"mpt_without_alibi", "alibi: false is not supported",
     [](Json& j) {
       j["architectures"] = {"MptForCausalLM"};
       j["attn_config"] = {{"alibi", false}};
     },
     ErrorCode::unsupported},
    {"mpt_scaled_logits", "logit_scale: only null is supported",
     [](Json& j) {
       j["architectures"] = {"MptForCausalLM"};
       j["logit_scale"] = "inv_sqrt_d_model";
     },
     ErrorCode::unsupported},
    {"pad_far_below", "pad_token_id must be", [](Json& j) { j["pad_token_id"] = -2; }},
};

INSTANTIATE_TEST_SUITE_P(Table, ChangedConfig, ::testing::ValuesIn(kConfigChanges),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(ConfigText, IsRefusedIfItIsNotValidJson) {
  const std::string good = small_config().dump();
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("null"), std::string("7"), good + "}",
        std::string("{\"a\":NaN,}"), std::string("{\"a\":-NaN}"), "{\"vocab_size\":1," + good.substr(1),
        "\xff" + good, good + '\0',
        "{\"x\":" + std::string(100, '[') + std::string(100, ']') + "," + good.substr(1)}) {
    expect_error(ErrorCode::format, {"config.json"}, [&] { parse_model_config(text); });
  }
  expect_error(ErrorCode::format, {"config.json", "more than the limit"},
               [&] { parse_model_config(good + std::string(5U << 20, ' ')); });
}

TEST(ConfigText, EveryTruncationIsRefused) {
  const std::string text = small_config().dump();
  for (size_t length = 0; length < text.size(); ++length) {
    expect_error(ErrorCode::format, {"config.json"}, [&] { parse_model_config(text.substr(0, length)); });
  }
}

// If any single byte changes, the text is either refused with a message or gives a valid configuration.
TEST(ConfigText, AnyChangedByteIsHandled) {
  Json json = small_config("MistralForCausalLM");
  json["rope_parameters"] = {{"rope_type", "llama3"},   {"rope_theta", 10000.0},
                             {"factor", 8.0},           {"low_freq_factor", 1.0},
                             {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 64}};
  json["eos_token_id"] = {1, 2};
  json["head_dim"] = 16;
  const std::string text = json.dump();
  size_t sound = 0;
  for (size_t position = 0; position < text.size(); ++position) {
    for (int value = 0; value < 256; value += testing::stride_if_sanitized(17)) {
      std::string changed = text;
      changed[position] = static_cast<char>(value);
      try {
        const ModelConfig config = parse_model_config(changed);
        ++sound;
        ASSERT_EQ(windows_of(config).size(), static_cast<size_t>(config.num_layers));
        ASSERT_EQ(config.heads.num_heads % config.heads.num_kv_heads, 0);
        for (const float frequency : inverse_frequencies(rope_of(config), attention_of(config).rotary_dim)) {
          ASSERT_TRUE(std::isfinite(frequency) && frequency > 0.0f);
        }
      } catch (const Error& error) {
        ASSERT_NE(std::string(error.what()).find("config.json"), std::string::npos) << error.what();
      }
    }
  }
  EXPECT_GT(sound, testing::kIsSanitized ? 0 : text.size());
}

}  // namespace
}  // namespace quire
