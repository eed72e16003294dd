#include "core/loader/mistral_names.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace quire {
namespace {

struct Renamed {
  std::string_view from;
  std::string_view to;
};
// The words between dots that differ.
constexpr std::array<Renamed, 19> kWords = {{
    {"embed_tokens", "tok_embeddings"},
    {"lm_head", "output"},
    {"input_layernorm", "attention_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn", "attention"},
    {"q_proj", "wq"},
    {"k_proj", "wk"},
    {"v_proj", "wv"},
    {"o_proj", "wo"},
    {"q_a_proj", "wq_a"},
    {"q_a_layernorm", "q_a_norm"},
    {"q_b_proj", "wq_b"},
    {"kv_a_proj_with_mqa", "wkv_a_with_mqa"},
    {"kv_a_layernorm", "kv_a_norm"},
    {"kv_b_proj", "wkv_b"},
    {"block_sparse_moe", "feed_forward"},
    {"gate_proj", "w1"},
    {"down_proj", "w2"},
    {"up_proj", "w3"},
}};
// Parts of a layer with experts that lie beside its feed-forward part, not within it.
constexpr std::array<std::string_view, 3> kBesideMlp = {"gate", "experts", "shared_experts"};

std::string_view first_word(std::string_view text) {
  return text.substr(0, text.find('.'));
}

std::string_view renamed(std::string_view word) {
  const auto* const found =
      std::find_if(kWords.begin(), kWords.end(), [&](const Renamed& row) { return row.from == word; });
  return found == kWords.end() ? word : found->to;
}

bool lies_beside_mlp(std::string_view word) {
  return std::find(kBesideMlp.begin(), kBesideMlp.end(), word) != kBesideMlp.end();
}

}  // namespace

std::string mistral_name(const std::string& name) {
  std::string result;
  for (std::string_view rest = name; !rest.empty();) {
    const std::string_view word = first_word(rest);
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (word == "model" || (word == "mlp" && lies_beside_mlp(first_word(rest)))) continue;
    if (!result.empty()) result += '.';
    result += word == "mlp" ? "feed_forward" : renamed(word);
  }
  return result;
}

}  // namespace quire
