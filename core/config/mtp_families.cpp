#include "core/config/mtp_families.h"

#include <algorithm>
#include <array>

#include "core/config/families/families.h"

namespace quire {
namespace {

constexpr MtpNames kDeepseekNames = {"model.layers.{}.",        "",
                                     "model.layers.{}.enorm",   "model.layers.{}.hnorm",
                                     "model.layers.{}.eh_proj", "model.layers.{}.shared_head.norm"};
// Ling and Hy3.
constexpr MtpNames kLingNames = {"model.layers.{}.",        "",
                                 "model.layers.{}.enorm",   "model.layers.{}.hnorm",
                                 "model.layers.{}.eh_proj", "model.layers.{}.final_layernorm"};
// Qwen and EXAONE.
constexpr MtpNames kQwenNames = {"mtp.layers.0.",          "",       "mtp.pre_fc_norm_embedding",
                                 "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.norm"};
constexpr MtpNames kMimoNames = {"model.mtp_layers.0.",
                                 "",
                                 "model.mtp_layers.0.token_layernorm",
                                 "model.mtp_layers.0.hidden_layernorm",
                                 "model.mtp_layers.0.input_proj",
                                 "model.mtp_layers.0.final_layernorm",
                                 true};
constexpr MtpNames kMimoV2Names = {.layer = "model.mtp.layers.0.",
                                   .feed_forward = "",
                                   .embedding_norm = "model.mtp.layers.0.enorm",
                                   .state_norm = "model.mtp.layers.0.hnorm",
                                   .projection = "model.mtp.layers.0.eh_proj",
                                   .last_norm = "model.mtp.layers.0.final_layernorm",
                                   .feed_forward_norm = "model.mtp.layers.0.pre_mlp_layernorm"};
constexpr MtpNames kNemotronNames = {"mtp.layers.0.",        "mtp.layers.1.",
                                     "mtp.layers.0.enorm",   "mtp.layers.0.hnorm",
                                     "mtp.layers.0.eh_proj", "mtp.layers.1.final_layernorm"};
// The module has no last norm. Baidu's FastDeploy applies the target's, which others measured to propose
// better than vLLM's ernie_mtp, which applies none.
constexpr MtpNames kErnieNames = {"model.mtp_block.0.",      "",
                                  "model.mtp_emb_norm.0",    "model.mtp_hidden_norm.0",
                                  "model.mtp_linear_proj.0", ""};
constexpr MtpNames kStepNames = {.layer = "model.layers.{}.",
                                 .feed_forward = "",
                                 .embedding_norm = "model.layers.{}.enorm",
                                 .state_norm = "model.layers.{}.hnorm",
                                 .projection = "model.layers.{}.eh_proj",
                                 .last_norm = "model.layers.{}.transformer.shared_head.norm",
                                 .head = "model.layers.{}.transformer.shared_head.output"};

// The row of Qwen2 is that of MiMo as well.
const std::array<MtpFamily, 17> kFamilies = {{
    {&families::kDeepseekV3, &kDeepseekNames},
    {&families::kDeepseekV32, &kDeepseekNames},
    {&families::kGlm4Moe, &kDeepseekNames},
    {&families::kGlm4MoeLite, &kDeepseekNames},
    {&families::kGlmMoeDsa, &kDeepseekNames},
    {&families::kBailingHybrid, &kLingNames},
    {&families::kHyV3, &kLingNames},
    {.architecture = &families::kQwen3Next, .names = &kQwenNames, .is_unannounced = true},
    {&families::kQwen35, &kQwenNames},
    {&families::kQwen35Moe, &kQwenNames},
    {&families::kQwen2, &kMimoNames},
    {&families::kNemotronH, &kNemotronNames},
    {.architecture = &families::kErnie45, .names = &kErnieNames, .is_dense = true},
    {.architecture = &families::kErnie45Moe, .names = &kErnieNames, .is_dense = true},
    {.architecture = &families::kExaoneMoe,
     .names = &kQwenNames,
     .attention = MtpAttention::listed,
     .is_dense = true},
    {.architecture = &families::kMiMoV2Flash,
     .names = &kMimoV2Names,
     .attention = MtpAttention::windowed,
     .is_dense = true,
     .is_unannounced = true},
    {.architecture = &families::kStep,
     .names = &kStepNames,
     .attention = MtpAttention::listed,
     .is_dense = true,
     .reads_normed = false},
}};

}  // namespace

const MtpFamily* find_mtp_family(const ArchitectureSpec* architecture) {
  const auto* const family = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const MtpFamily& row) {
    return row.architecture == architecture;
  });
  return family == kFamilies.end() ? nullptr : family;
}

}  // namespace quire
