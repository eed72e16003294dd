// Configuration of draft networks, which propose tokens for a target model (speculative decoding): a model of
// its own, the heads for multi-token prediction (MTP) in a checkpoint, or an EAGLE-3 network.
//
// Sources: vLLM's deepseek_mtp, qwen3_next_mtp, qwen3_5_mtp, mimo_mtp and llama_eagle3, and transformers'
// candidate generator.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/model_config.h"

namespace quire {

enum class DraftNetworkKind : int32_t { model, mtp, eagle3 };

// Renames the tensors whose names begin with `from`.
struct NamePrefix {
  std::string from;
  std::string to;
};

// A draft network. Its layers have attention only, over all tokens.
struct DraftNetworkConfig {
  DraftNetworkKind kind = DraftNetworkKind::model;
  ModelConfig network;
  // Layers of the target before which the states of a token are read, ascending, each 0 to its number of
  // layers, which stands for the stream after the last layer. Empty: the network reads no states.
  std::vector<int32_t> state_layers;
  bool feeds_normed = false;         // the next token reads the state after the network's last norm
  bool borrows_embedding = false;    // it has none of its own: the target's
  bool borrows_head = false;         // likewise
  std::string token_map;             // tensor of the token of each column of the logits, less the column;
                                     // empty: the column itself
  std::vector<NamePrefix> prefixes;  // from the names in `network` to those in the files
};

// Returns the network for multi-token prediction in a checkpoint. `config_text` is its config.json and
// `target` what was read from it. Throws ErrorCode::unsupported if its family has none that can be used, or
// if the configuration announces none.
DraftNetworkConfig parse_mtp_network(std::string_view config_text, const ModelConfig& target,
                                     const std::string& directory = {});

// Returns the network of a directory with this config.json: EAGLE-3 if it is one, otherwise a model of its
// own. Throws like parse_model_config; ErrorCode::unsupported naming the field of a variant that is not
// known, and naming the mechanism of a model whose layers have recurrent states; ErrorCode::format if
// the network does not fit the target.
DraftNetworkConfig parse_draft_network(std::string_view config_text, const ModelConfig& target,
                                       const std::string& directory = {});

}  // namespace quire
