// Spellings of the configs of families with recurrent layers, as published files have them, defaults of
// fields that they leave out, and configs that are refused.
#include <cmath>

#include <gtest/gtest.h>

#include "core/config/model_config.h"
#include "tests/core/config/config_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_families.h"
#include "tests/support/json_text.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::Json;
using testing::mixer_of;

// Returns the config of a tiny model with other fields; a field whose new value is the string "-" is removed.
Json bent(const std::string& family, const Json& fields) {
  Json config = Json::parse(testing::golden_family_config(family));
  for (const auto& [name, value] : fields.items()) {
    if (value == "-") {
      config.erase(name);
    } else {
      config[name] = value;
    }
  }
  return config;
}

ModelConfig read(const std::string& family, const Json& fields) {
  return parse_model_config(bent(family, fields).dump());
}

// Returns a letter for each layer: the first of its mixer's name and, in upper case, E for experts.
std::string letters(const ModelConfig& config) {
  const std::string_view mixers = "a-dmMlcbgz";
  const std::string_view feed_forwards = "mEx-";
  std::string out;
  for (const LayerSpec& layer : config.spec.layers) {
    out += out.empty() ? "" : " ";
    out += mixers[layer.mixer.index()];
    out += feed_forwards[layer.feed_forward.index()];
  }
  return out;
}

TEST(HybridSpellings, EveryNthLayerOfQwenHasAttention) {
  const Json fields = {{"layer_types", "-"}, {"num_hidden_layers", 8}};
  EXPECT_EQ(letters(read("qwen3_5", fields)), "dm dm dm am dm dm dm am");
  Json third = fields;
  third["full_attention_interval"] = 3;
  EXPECT_EQ(letters(read("qwen3_5", third)), "dm dm am dm dm am dm dm");
}

// Files of models with images leave out what is the default of the class.
TEST(HybridSpellings, TextPartsOfQwen35HaveTheDefaultsOfTheirClass) {
  const Json text = {{"model_type", "qwen3_5_moe_text"}};
  const ModelConfig config = parse_model_config(
      Json({{"architectures", {"Qwen3_5MoeForConditionalGeneration"}}, {"text_config", text}}).dump());
  EXPECT_EQ(config.architecture->name, "Qwen3_5MoeForCausalLM");
  EXPECT_EQ(config.num_layers, 40);
  EXPECT_EQ(config.hidden_size, 2048);
  const DeltaPart& part = mixer_of<DeltaPart>(config);
  EXPECT_EQ(part.num_key_heads, 16);
  EXPECT_EQ(part.num_value_heads, 32);
  EXPECT_EQ(part.key_dim, 128);
  EXPECT_EQ(part.conv.num_taps, 4);
  const AttentionPart& attention = mixer_of<AttentionPart>(config, 3);
  EXPECT_EQ(attention.heads.num_kv_heads, 2);
  EXPECT_EQ(attention.heads.head_dim, 256);
  EXPECT_EQ(attention.rotary_dim, 64);
  EXPECT_EQ(config.spec.layers[0].experts()->num_experts, 256);
  EXPECT_EQ(config.spec.layers[0].experts()->num_chosen, 8);
  EXPECT_EQ(config.spec.layers[0].experts()->shared->intermediate, 512);
}

TEST(HybridSpellings, OutputGateOfQwen) {
  const auto gate = [](const Json& word) {
    return mixer_of<DeltaPart>(read("qwen3_5", {{"output_gate_type", word}})).gate_form;
  };
  EXPECT_EQ(gate(nullptr), kernels::StateGate::silu);
  EXPECT_EQ(gate("swish"), kernels::StateGate::silu);
  EXPECT_EQ(gate("sigmoid"), kernels::StateGate::sigmoid);
  expect_error(ErrorCode::unsupported, {"output_gate_type", "\"tanh\"", "silu, swish and sigmoid"},
               [&] { gate("tanh"); });
}

// Kimi's own files count layers from one and have the sizes in an object.
Json kimi_config(const Json& full, const Json& kda) {
  return {{"layer_types", "-"},
          {"mlp_layer_types", "-"},
          {"first_k_dense_replace", 1},
          {"linear_head_dim", "-"},
          {"linear_num_heads", "-"},
          {"linear_conv_kernel_dim", "-"},
          {"linear_attn_config",
           {{"full_attn_layers", full},
            {"kda_layers", kda},
            {"head_dim", 8},
            {"num_heads", 6},
            {"short_conv_kernel_size", 3}}}};
}

TEST(HybridSpellings, KimiCountsLayersFromOne) {
  const ModelConfig config = read("kimi_linear", kimi_config({2}, {1, 3}));
  EXPECT_EQ(letters(config), "dm aE dE");
  const DeltaPart& part = mixer_of<DeltaPart>(config);
  EXPECT_EQ(part.num_value_heads, 6);
  EXPECT_EQ(part.key_dim, 8);
  EXPECT_EQ(part.conv.num_taps, 3);
  EXPECT_EQ(part.decay_path->down.num_out, 8);
  for (const Json& lists : {Json{{2}, {1}}, Json{{2, 3}, {1, 3}}}) {
    expect_error(ErrorCode::format, {"linear_attn_config", "layer 3 must be in one of"},
                 [&] { read("kimi_linear", kimi_config(lists[0], lists[1])); });
  }
  expect_error(ErrorCode::format, {"linear_attn_config.kda_layers[1]"}, [&] {
    read("kimi_linear", kimi_config({2}, {1, 4}));
  });
  expect_error(ErrorCode::format, {"linear_attn_config.full_attn_layers[0]"}, [&] {
    read("kimi_linear", kimi_config({0}, {1, 3}));
  });
}

TEST(HybridSpellings, RoutingOfKimiIsBySigmoid) {
  expect_error(ErrorCode::unsupported, {"moe_router_activation_func", "\"softmax\""}, [] {
    read("kimi_linear", {{"moe_router_activation_func", "softmax"}});
  });
  expect_error(ErrorCode::unsupported, {"mla_use_nope"}, [] {
    read("kimi_linear", {{"mla_use_nope", false}});
  });
  EXPECT_FALSE(read("kimi_linear", {{"moe_renormalize", false}}).spec.layers[1].experts()->normalised);
}

TEST(HybridSpellings, GroupsOfExpertsHaveTwoNames) {
  for (const char* name : {"num_expert_group", "n_group"}) {
    const ModelConfig config =
        read("bailing_hybrid", {{"num_expert_group", name[0] == 'n' && name[1] == 'u' ? Json(4) : Json("-")},
                                {"n_group", name[1] == '_' ? Json(4) : Json("-")},
                                {"topk_group", 3}});
    EXPECT_EQ(config.spec.layers[1].experts()->num_groups, 4) << name;
    EXPECT_EQ(config.spec.layers[1].experts()->chosen_groups, 3) << name;
  }
}

// transformers writes the rotary dimensions as head_dim; published files have KDA's there.
TEST(HybridSpellings, LingHasGroupsOfLayers) {
  Json fields = {{"layer_types", "-"},     {"mlp_layer_types", "-"}, {"layer_group_size", 3},
                 {"num_hidden_layers", 6}, {"linear_head_dim", "-"}, {"linear_num_heads", "-"},
                 {"head_dim", 24},         {"kda_safe_gate", false}};
  const ModelConfig config = read("bailing_hybrid", fields);
  EXPECT_EQ(letters(config), "dm dE aE dE dE aE");
  EXPECT_EQ(mixer_of<DeltaPart>(config).key_dim, 24);
  EXPECT_EQ(mixer_of<DeltaPart>(config).num_key_heads, 4);
  EXPECT_EQ(mixer_of<DeltaPart>(config).decay_form, kernels::DeltaDecay::softplus);
  fields["linear_head_dim"] = 16;
  EXPECT_EQ(mixer_of<DeltaPart>(read("bailing_hybrid", fields)).key_dim, 16);
}

TEST(HybridSpellings, PatternOfNemotron) {
  const Json fields = {{"layers_block_type", "-"}, {"hybrid_override_pattern", "MEM*-E"}};
  EXPECT_EQ(letters(read("nemotron_h", fields)), "m- -E m- a- -m -E") << "the pattern gives the number";
  const Json words = {"mamba", "moe", "attention", "mlp"};
  EXPECT_EQ(letters(read("nemotron_h", {{"layers_block_type", words}})), "m- -E a- -m");
  EXPECT_EQ(letters(read("nemotron_h", {{"layers_block_type", "-"}, {"layer_types", words}})), "m- -E a- -m");
}

TEST(HybridSpellings, PatternsAndListsAreChecked) {
  const auto pattern = [](const Json& value, const Json& layers) {
    return read(
        "nemotron_h",
        {{"layers_block_type", "-"}, {"hybrid_override_pattern", value}, {"num_hidden_layers", layers}});
  };
  expect_error(ErrorCode::unsupported, {"hybrid_override_pattern", "\"X\"", "M, *, - and E"},
               [&] { pattern("MX", 2); });
  expect_error(ErrorCode::format, {"hybrid_override_pattern", "3 letters"}, [&] { pattern("ME", 3); });
  expect_error(ErrorCode::format, {"num_hidden_layers"}, [&] { pattern("", "-"); });
  expect_error(ErrorCode::unsupported, {"layers_block_type[0]", "\"rwkv\"", "linear_attention"}, [] {
    read("nemotron_h", {{"layers_block_type", {"rwkv"}}});
  });
  expect_error(ErrorCode::unsupported, {"layer_types[0]", "\"moe\""}, [] {
    read("qwen3_next", {{"layer_types", {"moe", "full_attention"}}});
  });
  expect_error(ErrorCode::unsupported, {"layer_types[1]", "\"sliding_attention\""}, [] {
    read("qwen3_next", {{"layer_types", {"conv", "sliding_attention"}}});
  });
  EXPECT_LE(
      read("nemotron_h", {{"layers_block_type", "-"}, {"hybrid_override_pattern", std::string(1024, 'M')}})
          .num_layers,
      1024);
  expect_error(ErrorCode::format, {"hybrid_override_pattern"}, [&] { pattern(std::string(5000, 'M'), "-"); });
}

TEST(HybridSpellings, TimeStepLimits) {
  const auto limit = [](const std::string& text) {
    const std::string config = bent("mamba2", {{"time_step_limit", "-"}}).dump();
    const ModelConfig read = parse_model_config("{\"time_step_limit\": " + text + ", " + config.substr(1));
    return mixer_of<Mamba2Part>(read);
  };
  for (const char* none : {"[0.0, Infinity]", "[0, 1e308]", R"([0.0, {"__float__": "Infinity"}])", "null"}) {
    EXPECT_EQ(limit(none).least_step, 0.0f) << none;
    EXPECT_TRUE(std::isinf(limit(none).largest_step)) << none;
  }
  EXPECT_EQ(limit("[0.5, 2]").least_step, 0.5f);
  EXPECT_EQ(limit("[0.5, 2]").largest_step, 2.0f);
  for (const char* wrong : {"[0.0]", "[2.0, 1.0]", "[-1.0, 1.0]", "[NaN, 1.0]", "[\"a\", 1.0]", "3",
                            R"([0.0, {"__float__": "NaN"}])", R"([0.0, {}])"})
    expect_error(ErrorCode::format, {"time_step_limit"}, [&] { limit(wrong); });
}

TEST(HybridSpellings, AutomaticSizesOfMamba) {
  EXPECT_EQ(mixer_of<Mamba2Part>(read("bamba", {{"mamba_d_head", "auto"}})).head_dim, 16);
  EXPECT_EQ(mixer_of<Mamba2Part>(read("granitemoehybrid", {{"mamba_d_head", "-"}})).head_dim, 16);
  EXPECT_EQ(mixer_of<Mamba1Part>(read("jamba", {{"mamba_dt_rank", "auto"}})).step_rank, 4) << "64 / 16";
  EXPECT_EQ(mixer_of<Mamba1Part>(read("mamba", {{"time_step_rank", "-"}})).step_rank, 4);
  const auto falcon = [](const Json& channels, int32_t heads) {
    return mixer_of<AttentionAndMambaPart>(
               read("falcon_h1",
                    {{"mamba_d_ssm", channels}, {"mamba_d_head", "auto"}, {"mamba_n_heads", heads}}))
        .mamba.head_dim;
  };
  EXPECT_EQ(falcon(nullptr, 8), 16) << "expand * hidden_size";
  EXPECT_EQ(falcon(48, 6), 8);
  expect_error(ErrorCode::format, {"mamba_n_heads: 10 times mamba_d_head 9 is not mamba_d_ssm 96"},
               [&] { falcon(96, 10); });
}

TEST(HybridSpellings, SizesOfMambaAreChecked) {
  expect_error(ErrorCode::format, {"num_heads: 8 times head_dim 8 is not expand 2 times hidden_size 64"}, [] {
    read("mamba2", {{"head_dim", 8}});
  });
  expect_error(ErrorCode::format, {"n_groups: 3 does not divide num_heads 8"}, [] {
    read("mamba2", {{"n_groups", 3}});
  });
  EXPECT_EQ(mixer_of<Mamba2Part>(read("nemotron_h", {{"mamba_head_dim", 8}})).in.front().num_out,
            2 * 64 + 2 * 2 * 16 + 8)
      << "the heads decide, not `expand`";
  expect_error(ErrorCode::format, {"linear_num_key_heads: 3 does not divide linear_num_value_heads 4"}, [] {
    read("qwen3_5", {{"linear_num_key_heads", 3}});
  });
  expect_error(ErrorCode::unsupported, {"mamba_hidden_act", "\"gelu\"", "silu"}, [] {
    read("nemotron_h", {{"mamba_hidden_act", "gelu"}});
  });
}

TEST(HybridSpellings, BiasesOfMamba) {
  const Mamba2Part with = mixer_of<Mamba2Part>(read("bamba", {{"mamba_proj_bias", true}}));
  EXPECT_EQ(with.in.front().bias, BiasRule::required);
  EXPECT_EQ(with.out.bias, BiasRule::required);
  EXPECT_TRUE(mixer_of<Mamba2Part>(read("bamba", {{"mamba_conv_bias", false}})).conv.bias.name.empty());
  // The multiplier of the input does not apply to the bias.
  expect_error(ErrorCode::unsupported, {"mamba_proj_bias", "ssm_in_multiplier"}, [] {
    read("falcon_h1", {{"mamba_proj_bias", true}});
  });
  const auto both = mixer_of<AttentionAndMambaPart>(
      read("falcon_h1", {{"mamba_proj_bias", true}, {"ssm_in_multiplier", 1.0}}));
  EXPECT_EQ(both.mamba.in.front().bias, BiasRule::required);
  EXPECT_EQ(both.mamba.out.bias, BiasRule::none) << "projectors_bias decides";
}

TEST(HybridSpellings, MultipliersOfFalconH1) {
  const auto plain = mixer_of<AttentionAndMambaPart>(read(
      "falcon_h1", {{"ssm_multipliers", nullptr}, {"ssm_in_multiplier", "-"}, {"mlp_multipliers", "-"}}));
  for (const MatrixPart& section : plain.mamba.in) EXPECT_EQ(section.prescale, 1.0f);
  EXPECT_EQ(
      mixer_of<AttentionAndMambaPart>(read("falcon_h1_norm", {{"mamba_norm_before_gate", "-"}})).mamba.norm,
      kernels::GatedNorm::before_gate);
  expect_error(ErrorCode::format, {"ssm_multipliers", "5 numbers"}, [] {
    read("falcon_h1", {{"ssm_multipliers", {1.0, 2.0}}});
  });
  expect_error(ErrorCode::format, {"mlp_multipliers[1]"}, [] {
    read("falcon_h1", {{"mlp_multipliers", {1.0, "x"}}});
  });
}

TEST(HybridSpellings, LayersOfBambaGraniteAndJamba) {
  EXPECT_EQ(letters(read("bamba", {{"attn_layer_indices", "-"}})), "mm mm");
  expect_error(ErrorCode::format, {"attn_layer_indices[0]"}, [] {
    read("bamba", {{"attn_layer_indices", {2}}});
  });
  EXPECT_EQ(letters(read("granitemoehybrid", {{"layer_types", {"mamba", "attention"}}})), "mE aE");
  EXPECT_EQ(letters(read("granitemoehybrid", {{"layer_types", "-"}})), "mE mE");
  EXPECT_EQ(
      letters(
          read("jamba", {{"num_hidden_layers", 10}, {"attn_layer_period", "-"}, {"attn_layer_offset", "-"}})),
      "Mm ME Mm ME am ME Mm ME Mm ME");
  EXPECT_EQ(letters(read("jamba", {{"num_experts", 1}})), "Mm Mm am");
  expect_error(ErrorCode::format, {"attn_layer_offset"}, [] { read("jamba", {{"attn_layer_offset", 3}}); });
}

TEST(HybridSpellings, GraniteMayBeDenseOrHaveRope) {
  const ModelConfig dense = read("granitemoehybrid", {{"num_local_experts", 0}});
  EXPECT_EQ(letters(dense), "mm am");
  EXPECT_EQ(dense.spec.layers[0].dense()->intermediate, 64);
  EXPECT_EQ(dense.spec.layers[0].dense()->down.key, "model.layers.0.shared_mlp.output_linear");
  const ModelConfig turning = read("granitemoehybrid", {{"position_embedding_type", "rope"}});
  EXPECT_EQ(mixer_of<AttentionPart>(turning, 1).rotary_dim, 16);
  expect_error(ErrorCode::unsupported, {"position_embedding_type", "\"alibi\""}, [] {
    read("granitemoehybrid", {{"position_embedding_type", "alibi"}});
  });
}

TEST(HybridSpellings, LayersOfLfm) {
  EXPECT_EQ(letters(read("lfm2", {{"layer_types", "-"}, {"full_attn_idxs", {0}}})), "am cm");
  EXPECT_EQ(letters(read("lfm2", {{"layer_types", "-"}})), "am am") << "as the class has it";
  EXPECT_EQ(letters(read("lfm2_moe", {{"num_dense_layers", 0}})), "cE aE cE");
  const ModelConfig lfm3 = read("lfm3", {{"layer_types", "-"},
                                         {"num_hidden_layers", 6},
                                         {"rope_parameters", "-"},
                                         {"use_sandwich_norm", false},
                                         {"use_attention_gate", false}});
  EXPECT_EQ(letters(lfm3), "cm cm am cm am cm");
  EXPECT_EQ(mixer_of<AttentionPart>(lfm3, 4).sliding_window, 16);
  EXPECT_FALSE(mixer_of<AttentionPart>(lfm3, 4).gate.has_value());
  EXPECT_FALSE(lfm3.spec.layers[0].attention_post_norm.has_value());
  const auto& full = mixer_of<AttentionPart>(lfm3, 2);
  EXPECT_EQ(lfm3.spec.ropes.at(static_cast<size_t>(full.rope_idx)).config.kind, RopeKind::proportional);
}

TEST(HybridSpellings, WidthOfLfm2) {
  const auto width = [](const Json& fields) {
    return read("lfm2", fields).spec.layers[0].dense()->intermediate;
  };
  EXPECT_EQ(width({{"block_auto_adjust_ff_dim", false}}), 96);
  EXPECT_EQ(width({{"block_ff_dim", 100}}), 80) << "66 to a multiple of 16";
  EXPECT_EQ(width({{"block_ffn_dim_multiplier", 1.5}}), 96);
  expect_error(ErrorCode::format, {"block_multiple_of"}, [&] { width({{"block_multiple_of", 0}}); });
  EXPECT_EQ(read("lfm2", {{"tie_embedding", false}}).spec.head.tied, false);
  const auto with_bias = mixer_of<ShortConvPart>(read("lfm2", {{"conv_bias", true}}));
  EXPECT_EQ(with_bias.conv.bias.name, "model.layers.0.conv.conv.bias");
  EXPECT_EQ(with_bias.in.bias, BiasRule::required);
}

TEST(HybridSpellings, LayersOfMiniMaxAndOlmoHybrid) {
  EXPECT_EQ(letters(read("minimax", {{"layer_types", "-"}})), "aE lE aE");
  const ModelConfig scaled = read("minimax", {{"linear_attn_beta_factor", 0.5}, {"mlp_beta_factor", 2}});
  EXPECT_EQ(mixer_of<LightningPart>(scaled).out.prescale, 0.5f);
  EXPECT_EQ(scaled.spec.layers[1].experts()->expert.down.prescale, 2.0f);
  EXPECT_EQ(letters(read("olmo_hybrid", {{"layer_types", "-"}, {"num_hidden_layers", 5}})), "dm dm dm am dm");
  EXPECT_EQ(letters(read("olmo_hybrid", {{"layer_types", "-"}})), "dm am");
  const ModelConfig still = read("olmo_hybrid", {{"rope_parameters", nullptr}});
  EXPECT_EQ(mixer_of<AttentionPart>(still, 1).rope, kernels::RopeStyle::none);
  EXPECT_TRUE(still.spec.ropes.empty());
  const ModelConfig defaults = read("olmo_hybrid", {{"linear_num_key_heads", "-"},
                                                    {"linear_num_value_heads", "-"},
                                                    {"linear_key_head_dim", "-"},
                                                    {"linear_value_head_dim", "-"},
                                                    {"linear_allow_neg_eigval", false}});
  const DeltaPart& part = mixer_of<DeltaPart>(defaults);
  EXPECT_EQ(part.num_key_heads, 4);
  EXPECT_EQ(part.key_dim, 12) << "three quarters of 64, divided by 4 heads";
  EXPECT_EQ(part.value_dim, 24);
  EXPECT_EQ(part.beta_scale, 1.0f);
}

// Families whose layers have a mechanism of their own.
TEST(HybridSpellings, KindsOfLayersOfRecurrentGemmaRepeat) {
  EXPECT_EQ(letters(read("recurrent_gemma", {{"num_hidden_layers", 5}})), "gm gm am gm gm");
  EXPECT_EQ(letters(read("recurrent_gemma", {{"block_types", "-"}, {"num_hidden_layers", 4}})),
            "gm gm am gm");
  EXPECT_EQ(letters(read("recurrent_gemma", {{"block_types", {"attention", "recurrent"}}})), "am gm am");
  expect_error(ErrorCode::unsupported, {"block_types[0]", "\"mamba\""}, [] {
    read("recurrent_gemma", {{"block_types", {"mamba"}}});
  });
  expect_error(ErrorCode::format, {"lru_width", "65", "4 heads"}, [] {
    read("recurrent_gemma", {{"lru_width", 65}});
  });
  expect_error(ErrorCode::unsupported, {"hidden_activation"}, [] {
    read("recurrent_gemma", {{"hidden_activation", "relu"}});
  });
}

// The class of the family has the scale as bf16.
TEST(HybridSpellings, ScaleOfRecurrentGemmasEmbeddingIsRounded) {
  const Json fields = {{"hidden_size", 2560}, {"lru_width", 2560}};
  EXPECT_EQ(read("recurrent_gemma", fields).spec.embedding.scale, 50.5f);
}

// Files have the tensors of a block at the first layer that uses it, with an adapter for each use.
TEST(HybridSpellings, LayersOfZamba2UseBlocksInTurn) {
  const auto blocks = [](int num_blocks) {
    const Json types = {"hybrid", "mamba", "hybrid", "hybrid"};
    std::vector<std::string> out;
    for (const LayerSpec& layer :
         read("zamba2", {{"layers_block_type", types}, {"num_mem_blocks", num_blocks}}).spec.layers) {
      const auto* const block = std::get_if<SharedBlockPart>(&layer.mixer);
      if (block == nullptr) continue;
      EXPECT_EQ(block->attention.qkv.front().key.substr(0, 14), block->mlp.down.key.substr(0, 14));
      out.push_back(block->adapter.down.key);
    }
    return out;
  };
  const auto adapter = [](int layer, int use) {
    return fmt::format("model.layers.{}.shared_transformer.feed_forward.gate_up_proj_adapter_list.{}.0",
                       layer, use);
  };
  EXPECT_EQ(blocks(1), (std::vector<std::string>{adapter(0, 0), adapter(0, 1), adapter(0, 2)}));
  EXPECT_EQ(blocks(2), (std::vector<std::string>{adapter(0, 0), adapter(2, 1), adapter(0, 2)}));
}

TEST(HybridSpellings, Zamba2ReadsTheStreamBesideTheEmbedding) {
  const ModelConfig config = read("zamba2", {});
  EXPECT_EQ(letters(config), "m- z- m- z-");
  EXPECT_TRUE(config.spec.keeps_embedding);
  const auto& block = mixer_of<SharedBlockPart>(config, 1);
  EXPECT_EQ(block.norm.columns, 128);
  EXPECT_EQ(block.attention.qkv.front().num_in, 128);
  EXPECT_EQ(block.attention.heads.head_dim, 32);
  EXPECT_FLOAT_EQ(block.attention.scale, 0.25f) << "the root of half a head";
  EXPECT_EQ(block.attention.rotary_dim, 32);
  EXPECT_EQ(mixer_of<SharedBlockPart>(read("zamba2", {{"use_mem_rope", false}}), 1).attention.rope_idx, -1);
  EXPECT_EQ(block.mamba.in.front().key, "model.layers.1.mamba_decoder.mamba.in_proj");
  EXPECT_TRUE(block.attention.adapters.empty());
  const Json adapted = {{"use_shared_attention_adapter", true}};
  const AttentionPart with = mixer_of<SharedBlockPart>(read("zamba2", adapted), 3).attention;
  ASSERT_EQ(with.adapters.size(), 3U);
  EXPECT_EQ(with.adapters[2].up.key, "model.layers.1.shared_transformer.self_attn.linear_v_adapter_list.1.1");
  expect_error(ErrorCode::unsupported, {"use_long_context"}, [] {
    read("zamba2", {{"use_long_context", true}});
  });
}

TEST(HybridSpellings, OtherFamiliesAreRefusedByTheirMechanism) {
  const auto refusal = [](const char* name, std::initializer_list<std::string_view> words) {
    expect_error(ErrorCode::unsupported, words, [&] {
      parse_model_config(Json({{"architectures", {name}}, {"hidden_size", 64}}).dump());
    });
  };
  refusal("ZambaForCausalLM", {"\"ZambaForCausalLM\"", "shared by layers"});
  refusal("RwkvForCausalLM", {"time mixing of RWKV"});
  refusal("Qwen4ExpForConditionalGeneration", {"n-gram embeddings"});
  refusal("InklingForCausalLM", {"by distance"});
}

}  // namespace
}  // namespace quire
