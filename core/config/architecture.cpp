#include "core/config/architecture.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/config/families/families.h"

namespace quire {
namespace {

using namespace families;

const ArchitectureSpec* const kRows[] = {
    &kLlama,
    &kMistral,
    &kQwen2,
    &kQwen3,
    &kQwen2Moe,
    &kQwen3Moe,
    &kMixtral,
    &kMinistral,
    &kMinistral3,
    &kGemma,
    &kGemma2,
    &kGemma3,
    &kGemma3n,
    &kGemma4,
    &kVaultGemma,
    &kGemmoe,
    &kRecurrentGemma,
    &kPhi,
    &kPhi3,
    &kPhiMoe,
    &kOlmo,
    &kOlmo2,
    &kOlmo3,
    &kOlmoe,
    &kFlexOlmo,
    &kCohere,
    &kCohere2,
    &kGlm,
    &kGlm4,
    &kGlm4Moe,
    &kGlm4MoeLite,
    &kGlmMoeDsa,
    &kGranite,
    &kGraniteMoe,
    &kGpt2,
    &kGptBigCode,
    &kGptNeoX,
    &kGptOss,
    &kStarcoder2,
    &kStableLm,
    &kNemotron,
    &kOrion,
    &kInternLm2,
    &kMiniCpm,
    &kErnie45,
    &kErnie45Moe,
    &kHunYuanDense,
    &kHunYuanMoe,
    &kExaone4,
    &kExaoneMoe,
    &kApertus,
    &kBitNet,
    &kNanoChat,
    &kDiffLlama,
    &kJetMoe,
    &kDbrx,
    &kDeepseekV2,
    &kDeepseekV3,
    &kDeepseekV32,
    &kDots1,
    &kSolarOpen,
    &kMiMoV2Flash,
    &kMiniMaxM2,
    &kLlama4,
    &kChatGlm,
    &kQwen1,
    &kYi,
    &kIndex,
    &kCwm,
    &kHelium,
    &kArcee,
    &kSeedOss,
    &kSmolLm3,
    &kQwen2Vl,
    &kQwen25Vl,
    &kQwen3Vl,
    &kQwen3VlMoe,
    &kMistral4,
    &kGemma4Unified,
    &kGlm4v,
    &kGlm4vMoe,
    &kGraniteMoeShared,
    &kGraniteSwa,
    &kGraniteMoeSwa,
    &kHyperClovaX,
    &kMiniCpm3,
    &kHyV3,
    &kAxK1,
    &kYoutu,
    &kApertus1p5,
    &kCohere2Moe,
    &kAfmoe,
    &kLaguna,
    &kMuseGlimmer,
    &kGptJ,
    &kGptNeo,
    &kOpt,
    &kFalcon,
    &kBloom,
    &kMpt,
    &kPersimmon,
    &kInternLm3,
    &kJais2,
    &kExaone,
    &kQwen3Next,
    &kQwen35,
    &kQwen35Moe,
    &kKimiLinear,
    &kBailingHybrid,
    &kGlm5Next,
    &kStep,
    &kOlmoHybrid,
    &kMamba,
    &kFalconMamba,
    &kMamba2,
    &kBamba,
    &kZamba2,
    &kFalconH1,
    &kGraniteMoeHybrid,
    &kNemotronH,
    &kJamba,
    &kMiniMax,
    &kLfm2,
    &kLfm2Moe,
    &kLfm3,
};

// Families that are known, and what their layers have that is not supported (docs/models.md).
struct KnownFamily {
  std::string_view name;
  std::string_view mechanism;
};
constexpr std::array<KnownFamily, 8> kUnsupported = {{
    {"BailingMoeV2_5ForCausalLM", "a recurrent state by the lightning attention of Ling 2.5"},
    {"InklingForCausalLM", "attention scores by distance and convolutions after each block"},
    {"MiniMaxText01ForCausalLM", "the first names of MiniMax-Text-01, which MiniMaxForCausalLM replaced"},
    {"Qwen4ExpForConditionalGeneration", "mixed residual streams and n-gram embeddings"},
    {"RwkvForCausalLM", "a recurrent state by the time mixing of RWKV"},
    {"ZambaForCausalLM", "attention over the embedding, shared by layers"},
    {"ZayaForCausalLM", "convolutions within attention and a router with a state"},
    {"xLSTMForCausalLM", "a recurrent state by the mLSTM"},
}};

// Other names of a row. Their text parts have the fields and the tensors of the row.
struct Alias {
  std::string_view name;
  std::string_view model_type;
  const ArchitectureSpec* spec;
};
const Alias kAliases[] = {
    {"", "qwen2_vl", &kQwen2Vl},
    {"", "qwen2_5_vl", &kQwen25Vl},
    {"KimiK25ForConditionalGeneration", "kimi_k25", &kDeepseekV3},
    {"Kimi_K25ForConditionalGeneration", "", &kDeepseekV3},
    {"", "kimi_k2", &kDeepseekV3},
    {"ChatGLMForConditionalGeneration", "", &kChatGlm},
    {"RWForCausalLM", "RefinedWebModel", &kFalcon},
    {"", "RefinedWeb", &kFalcon},
    {"MPTForCausalLM", "", &kMpt},
    {"MiMoForCausalLM", "mimo", &kQwen2},
    {"Step3p5ForCausalLM", "step3p7", &kStep},
    {"Qwen3_5ForConditionalGeneration", "qwen3_5", &kQwen35},
    {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", &kQwen35Moe},
};

// Kinds of models that are no generators of text, by the end of the class name.
struct KindByEnding {
  std::string_view ending;
  std::string_view kind;
};
constexpr std::array<KindByEnding, 9> kKinds = {{
    {"ForSequenceClassification", "a classifier"},
    {"ForTokenClassification", "a classifier"},
    {"RewardModel", "a reward model"},
    {"ForQuestionAnswering", "a model that marks answers"},
    {"ForMaskedLM", "an encoder"},
    {"ForImageClassification", "an image classifier"},
    {"ForSpeechSeq2Seq", "a speech model"},
    {"ForConditionalGeneration", "a model with an encoder or with several kinds of input"},
    {"ForCTC", "a speech model"},
}};

// Ends of class names that do not belong to the name of the family; longer ones first.
constexpr std::array<std::string_view, 13> kEndings = {"ForSequenceClassification",
                                                       "ForConditionalGeneration",
                                                       "ForTokenClassification",
                                                       "ForQuestionAnswering",
                                                       "ForProcessRewardModel",
                                                       "ForRewardModel",
                                                       "ForMaskedLM",
                                                       "ForCausalLM",
                                                       "DecoderModel",
                                                       "LMHeadModel",
                                                       "TextModel",
                                                       "Model",
                                                       "Decoder"};

// Returns the name of the family in lower case: "qwen3" for "Qwen3ForCausalLM".
std::string family_of(std::string_view name) {
  std::string lower = ascii_lower(name);
  for (const std::string_view ending : kEndings) {
    if (lower.size() > ending.size() && lower.ends_with(ascii_lower(ending)))
      return lower.substr(0, lower.size() - ending.size());
  }
  return lower;
}

size_t common_start(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
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

// Returns the class whose family name begins like this one for at least four characters, or is spelled like
// it but for one or two characters; empty if there is none. Of several, the last one of least edit distance.
std::string_view nearest_class(std::string_view name) {
  constexpr size_t kLeastStart = 4;
  constexpr size_t kTypos = 2;
  const std::string family = family_of(name.substr(0, 128));
  std::string_view nearest;
  size_t least = SIZE_MAX;
  const auto compare = [&](std::string_view candidate) {
    const std::string other = family_of(candidate);
    const size_t apart = distance(family, other);
    const size_t needed = std::min({kLeastStart, family.size(), other.size()});
    const bool is_near = common_start(family, other) >= needed || (apart <= kTypos && family.size() > kTypos);
    if (!is_near || apart > least) return;
    nearest = candidate;
    least = apart;
  };
  for (const Alias& alias : kAliases)
    if (!alias.name.empty()) compare(alias.name);
  for (const ArchitectureSpec* row : kRows) compare(row->name);
  return nearest;
}

}  // namespace

gsl::span<const ArchitectureSpec* const> supported_architectures() {
  return kRows;
}

const ArchitectureSpec* find_architecture(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const ArchitectureSpec* spec : kRows)
    if (spec->name == name) return spec;
  for (const Alias& alias : kAliases)
    if (alias.name == name) return alias.spec;
  return nullptr;
}

const ArchitectureSpec* find_architecture_by_model_type(std::string_view model_type) {
  if (model_type.empty()) return nullptr;
  for (const ArchitectureSpec* spec : kRows)
    if (spec->model_type == model_type) return spec;
  for (const Alias& alias : kAliases)
    if (alias.model_type == model_type) return alias.spec;
  return nullptr;
}

bool is_class_without_head(const ArchitectureSpec& spec, std::string_view name) {
  if (name == spec.name) return false;
  const std::string family = family_of(spec.name);
  return ascii_lower(name) == family + "model" || ascii_lower(name) == family + "textmodel";
}

bool is_class_of(const ArchitectureSpec& spec, std::string_view name) {
  return is_class_without_head(spec, name) || ascii_lower(name) == ascii_lower(spec.name);
}

std::string describe_unsupported(std::string_view name) {
  const auto known = std::find_if(kUnsupported.begin(), kUnsupported.end(),
                                  [&](const KnownFamily& row) { return row.name == name; });
  if (known != kUnsupported.end()) return fmt::format("its layers have {}", known->mechanism);
  std::string text;
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                 [&](const KindByEnding& row) { return name.ends_with(row.ending); });
  if (kind != kKinds.end()) text = kind->kind;
  if (const std::string_view nearest = nearest_class(name); !nearest.empty())
    text += fmt::format("{}the nearest supported architecture is {}", text.empty() ? "" : "; ", nearest);
  return text;
}

std::string layer_key(const ArchitectureSpec& spec, int32_t layer, std::string_view part) {
  return fmt::format("{}{}.{}", spec.keys.layers, layer, part);
}

}  // namespace quire
