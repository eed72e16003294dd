#include "core/config/model_spec.h"

#include <array>

namespace quire {

std::string_view mixer_name(const MixerSpec& mixer) {
  constexpr std::array<std::string_view, std::variant_size_v<MixerSpec>> kNames = {
      "attention",
      "no mixer",
      "the gated delta rule",
      "Mamba-2",
      "Mamba-1",
      "lightning attention",
      "short convolutions",
      "attention beside Mamba-2",
      "the RG-LRU",
      "Mamba-2 after attention",
      "attention that reads the embedding"};
  return kNames[mixer.index()];
}

MatrixPart* output_of(MixerSpec& mixer) {
  return std::visit(
      []<typename Part>(Part& part) -> MatrixPart* {
        if constexpr (requires { part.output; }) return &part.output;
        if constexpr (requires { part.out; }) return &part.out;
        return nullptr;
      },
      mixer);
}

AttentionPart* LayerSpec::find_attention() {
  if (auto* const both = std::get_if<AttentionAndMambaPart>(&mixer)) return &both->attention;
  if (auto* const block = std::get_if<SharedBlockPart>(&mixer)) return &block->attention;
  if (auto* const pair = std::get_if<PairAttentionPart>(&mixer)) return &pair->attention;
  return std::get_if<AttentionPart>(&mixer);
}

MlpPart* LayerSpec::dense() {
  if (auto* const both = std::get_if<MlpAndExpertsPart>(&feed_forward)) return &both->dense;
  return std::get_if<MlpPart>(&feed_forward);
}

ExpertsPart* LayerSpec::experts() {
  if (auto* const both = std::get_if<MlpAndExpertsPart>(&feed_forward)) return &both->experts;
  return std::get_if<ExpertsPart>(&feed_forward);
}

}  // namespace quire
