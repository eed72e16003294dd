#include "core/config/architecture.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "core/config/families/families.h"

namespace quire {
namespace {

using namespace families;

const ArchitectureSpec* const kRows[] = {
    &kLlama,      &kMistral,     &kQwen2,      &kQwen3,        &kQwen2Moe,    &kQwen3Moe,  &kMixtral,
    &kMinistral,  &kMinistral3,  &kGemma,      &kGemma2,       &kGemma3,      &kGemma3n,   &kGemma4,
    &kVaultGemma, &kGemmoe,      &kPhi,        &kPhi3,         &kPhiMoe,      &kOlmo,      &kOlmo2,
    &kOlmo3,      &kOlmoe,       &kFlexOlmo,   &kCohere,       &kCohere2,     &kGlm,       &kGlm4,
    &kGlm4Moe,    &kGlm4MoeLite, &kGlmMoeDsa,  &kGranite,      &kGraniteMoe,  &kGpt2,      &kGptBigCode,
    &kGptNeoX,    &kGptOss,      &kStarcoder2, &kStableLm,     &kNemotron,    &kOrion,     &kInternLm2,
    &kMiniCpm,    &kErnie45,     &kErnie45Moe, &kHunYuanDense, &kHunYuanMoe,  &kExaone4,   &kExaoneMoe,
    &kApertus,    &kBitNet,      &kNanoChat,   &kDiffLlama,    &kJetMoe,      &kDbrx,      &kDeepseekV2,
    &kDeepseekV3, &kDeepseekV32, &kDots1,      &kSolarOpen,    &kMiMoV2Flash, &kMiniMaxM2, &kLlama4,
    &kYi,         &kIndex,       &kCwm,        &kHelium,       &kArcee,       &kSeedOss,   &kSmolLm3,
};

// Families with recurrent state in their layers; recognized, but not supported yet.
constexpr std::array<std::string_view, 20> kRecurrent = {
    "Qwen3NextForCausalLM",
    "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForCausalLM",
    "KimiLinearForCausalLM",
    "BailingMoeV2_5ForCausalLM",
    "BailingHybridForCausalLM",
    "MambaForCausalLM",
    "Mamba2ForCausalLM",
    "BambaForCausalLM",
    "FalconMambaForCausalLM",
    "GraniteMoeHybridForCausalLM",
    "NemotronHForCausalLM",
    "FalconH1ForCausalLM",
    "JambaForCausalLM",
    "MiniMaxForCausalLM",
    "MiniMaxText01ForCausalLM",
    "Lfm2ForCausalLM",
    "Lfm2MoeForCausalLM",
    "Zamba2ForCausalLM",
    "RecurrentGemmaForCausalLM",
};

const ArchitectureSpec* find_row(std::string_view ArchitectureSpec::*column, std::string_view value) {
  for (const ArchitectureSpec* spec : kRows) {
    if (spec->*column == value) return spec;
  }
  return nullptr;
}

// Returns the edit distance of two names (Levenshtein).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

gsl::span<const ArchitectureSpec* const> supported_architectures() {
  return kRows;
}

const ArchitectureSpec* find_architecture(std::string_view name) {
  return find_row(&ArchitectureSpec::name, name);
}

const ArchitectureSpec* find_architecture_by_model_type(std::string_view model_type) {
  return find_row(&ArchitectureSpec::model_type, model_type);
}

std::string supported_architecture_names() {
  std::string names;
  for (const ArchitectureSpec* spec : kRows) {
    if (!names.empty()) names += ", ";
    names += spec->name;
  }
  return names;
}

std::string unknown_architecture_hint(std::string_view name) {
  if (std::find(kRecurrent.begin(), kRecurrent.end(), name) != kRecurrent.end()) {
    return "its layers have a recurrent state, which this version does not support";
  }
  const std::string_view start = name.substr(0, 128);
  const auto nearest = std::min_element(
      std::begin(kRows), std::end(kRows),
      [&](const auto* a, const auto* b) { return distance(start, a->name) < distance(start, b->name); });
  return fmt::format("the most similar name is {}", (*nearest)->name);
}

std::string layer_key(const ArchitectureSpec& spec, int32_t layer, std::string_view part) {
  return fmt::format("{}{}.{}", spec.keys.layers, layer, part);
}

}  // namespace quire
