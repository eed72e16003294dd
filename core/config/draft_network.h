// Configuration of draft networks, which propose tokens for a target model (speculative decoding): a model of
// its own, the heads for multi-token prediction (MTP) in a checkpoint, or an EAGLE-3 network.
//
// Sources: vLLM's deepseek_mtp, qwen3_next_mtp, qwen3_5_mtp, mimo_mtp, mimo_v2_mtp, nemotron_h_mtp,
// ernie_mtp, exaone_moe_mtp, hy_v3_mtp, step3p5_mtp and llama_eagle3, FastDeploy's ernie4_5_mtp, and
// transformers' candidate generator.
#pragma once

#include <cstdint>
#include <functional>
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

// A draft network. Its layers have attention only, and keep the keys of all tokens also with a window.
struct DraftNetworkConfig {
  DraftNetworkKind kind = DraftNetworkKind::model;
  ModelConfig network;
  // Layers of the target before which the states of a token are read, ascending, each 0 to its number of
  // layers; that number means the stream after the last layer. Empty: the network reads no states.
  std::vector<int32_t> state_layers;
  bool feeds_normed = false;         // the next token reads the state after the network's last norm
  bool borrows_embedding = false;    // it has none of its own: the target's
  bool borrows_head = false;         // likewise
  std::string token_map;             // tensor that has token - column for each column of the logits; empty:
                                     // the token is the column
  std::vector<NamePrefix> prefixes;  // from the names in `network` to those in the files
};

// Returns the network for multi-token prediction in a checkpoint. `config_text` is its config.json and
// `target` what was read from it; `where` names the text in messages. If there are several modules, it is the
// first. Throws ErrorCode::unsupported if its family has none that can be used, or if the configuration
// announces none. A configuration of Qwen3-Next or MiMo-V2 announces none in any case: only the tensors show
// it.
DraftNetworkConfig parse_mtp_network(std::string_view config_text, const ModelConfig& target,
                                     const std::string& where);

// Returns the network of a directory with this config.json: EAGLE-3 if it is one, otherwise a model of its
// own. Throws like parse_model_config; ErrorCode::unsupported naming the field of a variant that is not
// known, and naming the mechanism of a model whose layers have recurrent states; ErrorCode::format if
// the network does not fit the target. EAGLE-3: call fit_to_tensors before the network is used.
DraftNetworkConfig parse_draft_network(std::string_view config_text, const ModelConfig& target,
                                       const std::string& directory = {});

// Returns whether this config.json is that of an EAGLE-3 network.
bool is_eagle3_config(std::string_view config_text, const std::string& directory = {});

// Returns a model as a draft network. `where` names it in messages. Throws ErrorCode::unsupported naming what
// its layers have other than attention.
DraftNetworkConfig as_draft_model(ModelConfig model, const std::string& where);

// Returns whether the files of a network have a tensor, or a matrix, by its name in the spec or, if there
// are prefixes, by the name that they make of it.
using HasTensor = std::function<bool(const std::string& name)>;

// Decides what only the files of an EAGLE-3 network show: the names of its first layer, and whether the
// embedding, the head and the token map are its own. `where` names the files in messages. Throws
// ErrorCode::format naming a tensor that must be there, ErrorCode::unsupported naming one of a variant that
// is not known.
void fit_to_tensors(const HasTensor& has, const ModelConfig& target, const std::string& where,
                    DraftNetworkConfig& config);

// Returns the name in the files of a tensor of the network's spec. Does not change a name that it returned.
std::string name_in_files(const std::vector<NamePrefix>& prefixes, const std::string& name);

}  // namespace quire
