// Source of a draft network: the module in the target's own checkpoint, or a directory or a file of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_system.h"
#include "core/base/ids.h"
#include "core/config/draft_network.h"
#include "core/loader/weight_directory.h"
#include "core/models/model_source.h"

namespace quire {

// Drafter that is in the checkpoint of its target.
inline constexpr std::string_view kMtpDrafter = "mtp";

struct DraftSource {
  std::string path;  // kMtpDrafter, or that of its files
  DraftNetworkConfig config;
  // Token of the target for each column of the network's logits; empty: the column itself.
  std::vector<TokenId> token_of;
  std::shared_ptr<ModelSource> source;           // that of MTP is the target's; nullptr: EAGLE-3
  std::shared_ptr<const WeightDirectory> files;  // nullptr: the weights are those of `source`

  // Returns the weights by the names in `config.network`. It borrows from this object.
  std::unique_ptr<WeightProvider> weights(ReadScope scope, const LoadMonitor& monitor) const;
  // Returns what it is, such as "EAGLE-3 network PATH".
  std::string name() const;
};

// Opens a draft network for a target. `drafter` is "mtp" or a path as for open_model_source; a directory may
// have an EAGLE-3 network. Checks that it fits the target, except that the tokens of a model of its own mean
// the same and are within its vocabulary. Throws the errors of draft_network.h and open_model_source; those
// of tensors name the file.
DraftSource open_draft_source(const FileSystem& files, const std::string& drafter,
                              std::shared_ptr<ModelSource> target);

}  // namespace quire
