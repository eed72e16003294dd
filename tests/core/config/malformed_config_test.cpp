// Replaces every field of every family's config.json by invalid values: no field is ignored, and each error
// names its field.
#include <set>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/config/model_config.h"
#include "tests/support/case_stride.h"
#include "tests/support/golden_families.h"
#include "tests/support/json_text.h"

namespace quire {
namespace {

using testing::Json;

struct Family {
  std::string name;  // of its directory
  Json config;
};

// The position of a field in a family's config.json.
struct Place {
  Json::json_pointer at;
  std::string field;  // the last name on the path that is not a list index
};

// Fields that do not affect the model's output: training, implementation choices, and settings that the
// engine determines itself.
const std::set<std::string> kIrrelevant = {"LABEL_0",
                                           "LABEL_1",
                                           "_name_or_path",
                                           "add_cross_attention",
                                           "altup_coef_clip",
                                           "attention_dropout",
                                           "attention_softmax_in_fp32",
                                           "attn_impl",
                                           "attn_pdrop",
                                           "audio_token_id",
                                           "aux_loss_coef",
                                           "block_size",
                                           "boa_token_id",
                                           "boi_token_id",
                                           "chunk_size",
                                           "chunk_size_feed_forward",
                                           "classifier_dropout",
                                           "dropout",
                                           "dtype",
                                           "emb_pdrop",
                                           "embd_pdrop",
                                           "embed_dropout",
                                           "embedding_dropout",
                                           "embedding_fraction",
                                           "embedding_initializer_range",
                                           "enable_moe_fp32_combine",
                                           "eoa_token_index",
                                           "eod_token_id",
                                           "eoi_token_id",
                                           "expansion_ratio",
                                           "hidden_dropout",
                                           "id2label",
                                           "image_end_token_id",
                                           "image_start_token_id",
                                           "image_token_id",
                                           "image_token_index",
                                           "init_device",
                                           "init_std",
                                           "initializer_range",
                                           "input_jitter_noise",
                                           "final_w_init_variance_scale",
                                           "is_decoder",
                                           "is_encoder_decoder",
                                           "label2id",
                                           "lambda_std_dev",
                                           "layerdrop",
                                           "learned_pos_emb",
                                           "linear_a_log_max",
                                           "linear_a_log_min",
                                           "linear_dt_init_floor",
                                           "linear_dt_max",
                                           "linear_dt_min",
                                           "mamba_chunk_size",
                                           "mamba_ssm_cache_dtype",
                                           "model_type",
                                           "moe_jitter_eps",
                                           "moe_loss_weight",
                                           "moe_shared_expert_overlap",
                                           "mrope_interleaved",
                                           "mrope_section",
                                           "mtp_layer_types",
                                           "mtp_layers_block_type",
                                           "mtp_mlp_layer_types",
                                           "mtp_loss_scaling_factor",
                                           "multimodal_projector_bias",
                                           "num_logits_to_keep",
                                           "num_nextn_predict_layers",
                                           "out_hidden_size",
                                           "output_attentions",
                                           "output_hidden_states",
                                           "output_router_logits",
                                           "pretraining_tp",
                                           "problem_type",
                                           "projection_hidden_size",
                                           "projection_layer_norm_eps",
                                           "projector_bias",
                                           "projector_hidden_act",
                                           "projector_hidden_size",
                                           "qk_head_dim",
                                           "reorder_and_upcast_attn",
                                           "rescale_prenorm_residual",
                                           "resid_dropout",
                                           "resid_pdrop",
                                           "residual_dropout",
                                           "residual_in_fp32",
                                           "return_dict",
                                           "router_aux_loss_coef",
                                           "router_jitter_noise",
                                           "scale_attention_softmax_in_fp32",
                                           "sep_token_id",
                                           "slow_but_exact",
                                           "spatial_merge_size",
                                           "summary_activation",
                                           "summary_first_dropout",
                                           "summary_proj_to_labels",
                                           "summary_type",
                                           "summary_use_proj",
                                           "time_step_floor",
                                           "time_step_init_scheme",
                                           "time_step_max",
                                           "time_step_min",
                                           "time_step_scale",
                                           "transformers_version",
                                           "use_associative_scan",
                                           "use_cache",
                                           "use_mamba_kernels",
                                           "use_mem_eff_path",
                                           "use_mambapy",
                                           "video_end_token_id",
                                           "video_start_token_id",
                                           "video_token_id",
                                           "vision_end_token_id",
                                           "vision_feature_layer",
                                           "vision_start_token_id",
                                           "w_init_variance_scale",
                                           "z_loss_coefficient"};

// Parts of a checkpoint that are not read.
const std::set<std::string> kOtherParts = {"audio_config", "vision_config"};

// FAMILY/FIELD for fields that another field overrides or disables.
const std::set<std::string> kOverriddenFields = {"afmoe/global_attn_every_n_layers",
                                                 "bailing_hybrid/first_k_dense_replace",
                                                 "bailing_hybrid/layer_group_size",
                                                 "bailing_hybrid/linear_conv_kernel_dim",
                                                 "cohere2_moe/norm_topk_prob",
                                                 "cohere2_moe/rope_scaling",
                                                 "cohere2_moe/sliding_window_pattern",
                                                 "cwm/mlp_bias",
                                                 "dbrx/hidden_size",
                                                 "dbrx/kv_n_heads",
                                                 "deepseek_v32/first_k_dense_replace",
                                                 "deepseek_v32/mlp_bias",
                                                 "dots1/max_window_layers",
                                                 "exaone4/sliding_window_pattern",
                                                 "exaone_moe/first_k_dense_replace",
                                                 "exaone_moe/sliding_window_pattern",
                                                 "falcon_h1/mamba_expand",
                                                 "falcon_h1/mamba_norm_before_gate",
                                                 "falcon_h1_norm/mamba_expand",
                                                 "falcon_mamba/intermediate_size",
                                                 "gemma/hidden_act",
                                                 "gemma3/_sliding_window_pattern",
                                                 "gemma3_sliding_last/_sliding_window_pattern",
                                                 "gemma4_e/moe_intermediate_size",
                                                 "gemma4_e/num_experts",
                                                 "gemma4_e/top_k_experts",
                                                 "gemma4_moe/vocab_size_per_layer_input",
                                                 "gemma4_unified/tie_word_embeddings",
                                                 "glm4v_moe/tie_word_embeddings",
                                                 "glm5_next/head_dim",
                                                 "glm5_next/tie_word_embeddings",
                                                 "glm_moe_dsa/first_k_dense_replace",
                                                 "glm_moe_dsa/mlp_bias",
                                                 "gpt_neo/attention_layers",
                                                 "hunyuan_v1_moe/beta_fast",
                                                 "hunyuan_v1_moe/beta_slow",
                                                 "hunyuan_v1_moe/factor",
                                                 "hunyuan_v1_moe/mscale",
                                                 "hunyuan_v1_moe/mscale_all_dim",
                                                 "hy_v3/mlp_bias",
                                                 "kimi_k25/tie_word_embeddings",
                                                 "lfm2/full_attn_idxs",
                                                 "llama4/interleave_moe_layer_step",
                                                 "mamba/intermediate_size",
                                                 "mamba2/time_step_rank",
                                                 "minimax/sliding_window",
                                                 "ministral3/max_position_embeddings",
                                                 "mistral4/max_position_embeddings",
                                                 "mistral4/tie_word_embeddings",
                                                 "mpt/architectures",
                                                 "nemotron_h/mamba_proj_bias",
                                                 "nemotron_h/sliding_window",
                                                 "nemotron_h_latent/intermediate_size",
                                                 "nemotron_h_latent/mamba_proj_bias",
                                                 "nemotron_h_latent/sliding_window",
                                                 "qwen2/max_window_layers",
                                                 "qwen2/sliding_window",
                                                 "qwen2_5_vl/max_window_layers",
                                                 "qwen2_5_vl/sliding_window",
                                                 "qwen2_moe/max_window_layers",
                                                 "qwen2_moe/sliding_window",
                                                 "qwen2_vl/max_window_layers",
                                                 "qwen2_vl/sliding_window",
                                                 "qwen2_vl/tie_word_embeddings",
                                                 "qwen2_yarn/max_window_layers",
                                                 "qwen2_yarn/sliding_window",
                                                 "qwen3/max_window_layers",
                                                 "qwen3/sliding_window",
                                                 "qwen3_moe/sliding_window",
                                                 "qwen3_vl/tie_word_embeddings",
                                                 "qwen3_vl_moe/sliding_window",
                                                 "qwen3_vl_moe/tie_word_embeddings",
                                                 "smollm3/sliding_window",
                                                 "zamba2/hybrid_layer_ids",
                                                 "zamba2/kv_channels",
                                                 "zamba2/num_query_groups",
                                                 "zamba2_adapters/hybrid_layer_ids",
                                                 "zamba2_adapters/kv_channels",
                                                 "zamba2_adapters/num_query_groups"};

std::vector<Family> families() {
  std::vector<Family> found;
  for (const std::string& name : testing::golden_families())
    found.push_back({name, Json::parse(testing::golden_family_config(name))});
  return found;
}

bool is_index(const std::string& name) {
  return name.find_first_not_of("0123456789") == std::string::npos;
}

// Adds the positions of all scalars within `value`.
void add_places(const Json& value, const Place& place, std::vector<Place>& places) {
  if (!value.is_structured()) return places.push_back(place);
  for (const auto& [key, item] : value.items()) {
    if (kOtherParts.count(key) > 0) continue;
    const bool in_list = value.is_array();
    add_places(item,
               {in_list ? place.at / std::stoul(key) : place.at / key, is_index(key) ? place.field : key},
               places);
  }
}

std::vector<Place> places_of(const Family& family) {
  std::vector<Place> places;
  add_places(family.config, Place(), places);
  return places;
}

Json bent(const Family& family, const Place& place, const Json& value) {
  Json config = family.config;
  config[place.at] = value;
  return config;
}

// Returns the error message; empty if the configuration is accepted.
std::string refusal(const Json& config) {
  try {
    parse_model_config(config.dump());
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::format || error.code() == ErrorCode::unsupported) << error.what();
    return error.what();
  }
  return {};
}

// Enabling a part can require fields that are absent.
bool names_missing_field(const std::string& words) {
  return words.find(" is missing") != std::string::npos;
}

TEST(MalformedConfig, ErrorsNameTheField) {
  const Json kNonsense[] = {-1,
                            0,
                            1000000000000LL,
                            UINT64_MAX,
                            1e300,
                            "nonsense",
                            true,
                            "nonsense",
                            Json::array({"nonsense"}),
                            Json::object({{"nonsense", 1}})};
  size_t idx = 0;
  for (const Family& family : families()) {
    for (const Place& place : places_of(family)) {
      for (const Json& value : kNonsense) {
        if (idx++ % testing::stride_if_sanitized(7) != 0) continue;
        const std::string words = refusal(bent(family, place, value));
        if (words.empty()) continue;
        const bool is_named = words.find(place.field) != std::string::npos || names_missing_field(words);
        EXPECT_TRUE(is_named) << family.name << place.at.to_string() << " = " << value << ": " << words;
      }
    }
  }
}

TEST(MalformedConfig, NoFieldIsIgnored) {
  size_t idx = 0;
  for (const Family& family : families()) {
    for (const Place& place : places_of(family)) {
      if (idx++ % testing::stride_if_sanitized(3) != 0) continue;
      if (kIrrelevant.count(place.field) > 0) continue;
      if (kOverriddenFields.count(family.name + "/" + place.field) > 0) continue;
      EXPECT_NE(refusal(bent(family, place, Json::object({{"nonsense", 1}}))), "")
          << family.name << place.at.to_string();
    }
  }
}

}  // namespace
}  // namespace quire
