#include "core/layers/mechanisms.h"

#include <array>
#include <string_view>

#include "kernels/interface/specs.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, kernels::kNumMechanisms> kNames = {
    "layer norms",
    "norms without weights",
    "norms of query and key heads",
    "norms over all query or key heads",
    "norms after a block",
    "norms within a block",
    "parallel attention and feed-forward",
    "soft caps of attention",
    "attention in chunks",
    "attention sinks",
    "values of other dimensions than keys",
    "keys shared between values or layers",
    "queries scaled by position or clipped",
    "the activation of the feed-forward part",
    "experts",
    "latent attention",
    "a selection of keys",
    "learned positions",
    "a norm of the embedding",
    "several residual streams or embeddings of layers",
    "experts of attention heads",
    "differential attention",
    "a scale at the end of a layer",
    "activations of 8 bits",
    "FP8 activations",
    "scores that fall with the distance of keys (ALiBi)",
    "the gated delta rule",
    "state space layers (Mamba-2)",
    "lightning attention",
    "selective scans (Mamba)",
    "convolutions over tokens",
};

}  // namespace

std::string mechanism_names(uint64_t mechanisms) {
  std::string names;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if ((mechanisms >> i & 1) == 0) continue;
    if (!names.empty()) names += ", ";
    names += kNames[i];
  }
  return names;
}

}  // namespace quire
