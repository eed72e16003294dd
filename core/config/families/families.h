// The rows of all families. To add a family, add its file, declare its row here and list it in
// architecture.cpp.
#pragma once

#include "core/base/error.h"
#include "core/config/architecture.h"
#include "core/config/model_reader.h"

namespace quire::families {

inline constexpr BiasSwitch kAlways = {BiasSwitch::Kind::always, "", false};
inline constexpr BiasSwitch kNever = {};
constexpr BiasSwitch by_flag(std::string_view flag, bool fallback = false) {
  return {BiasSwitch::Kind::flag, flag, fallback};
}

// Returns a copy of a row under other names.
constexpr ArchitectureSpec renamed(ArchitectureSpec row, std::string_view name, std::string_view model_type) {
  row.name = name;
  row.model_type = model_type;
  return row;
}

extern const ArchitectureSpec kLlama, kYi, kIndex, kCwm, kHelium, kArcee, kSeedOss, kSmolLm3;
extern const ArchitectureSpec kMistral, kMinistral, kMinistral3, kMixtral, kMistral4;
extern const ArchitectureSpec kQwen1, kQwen2, kQwen3, kQwen2Moe, kQwen3Moe;
extern const ArchitectureSpec kQwen2Vl, kQwen25Vl, kQwen3Vl, kQwen3VlMoe;
extern const ArchitectureSpec kGemma, kGemma2, kGemma3, kVaultGemma, kGemmoe, kRecurrentGemma, kGemma3n,
    kGemma4;
extern const ArchitectureSpec kGemma4Unified;
extern const ArchitectureSpec kPhi, kPhi3, kPhiMoe;
extern const ArchitectureSpec kOlmo, kOlmo2, kOlmo3, kOlmoe, kFlexOlmo;
extern const ArchitectureSpec kCohere, kCohere2, kCohere2Moe;
extern const ArchitectureSpec kGlm, kChatGlm, kGlm4, kGlm4v, kGlm4Moe, kGlm4vMoe, kGlm4MoeLite, kGlmMoeDsa;
extern const ArchitectureSpec kGranite, kGraniteMoe, kGraniteMoeShared, kGraniteSwa, kGraniteMoeSwa;
extern const ArchitectureSpec kHyperClovaX;
extern const ArchitectureSpec kGpt2, kGptBigCode, kGptNeoX, kGptOss, kStarcoder2;
extern const ArchitectureSpec kGptJ, kGptNeo, kOpt, kFalcon, kBloom, kMpt, kPersimmon;
extern const ArchitectureSpec kStableLm, kNemotron, kOrion, kInternLm2, kInternLm3, kMiniCpm, kMiniCpm3,
    kJais2;
extern const ArchitectureSpec kErnie45, kErnie45Moe, kHunYuanDense, kHunYuanMoe, kHyV3;
extern const ArchitectureSpec kExaone, kExaone4, kExaoneMoe;
extern const ArchitectureSpec kApertus, kApertus1p5, kBitNet, kNanoChat, kDiffLlama, kJetMoe, kDbrx;
extern const ArchitectureSpec kDeepseekV2, kDeepseekV3, kDeepseekV32, kAxK1, kYoutu;
extern const ArchitectureSpec kAfmoe, kLaguna, kMuseGlimmer;
// Families with recurrent layers.
extern const ArchitectureSpec kQwen3Next, kQwen35, kQwen35Moe, kKimiLinear, kBailingHybrid, kGlm5Next,
    kZamba2, kStep, kOlmoHybrid;
extern const ArchitectureSpec kMamba, kFalconMamba, kMamba2, kBamba, kFalconH1, kGraniteMoeHybrid, kNemotronH;
extern const ArchitectureSpec kJamba, kMiniMax, kLfm2, kLfm2Moe, kLfm3;
extern const ArchitectureSpec kDots1, kSolarOpen, kMiMoV2Flash, kMiniMaxM2, kLlama4;

}  // namespace quire::families
