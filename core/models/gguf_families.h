// The table of GGUF architectures: which class of config.json each is, and what differs in its tensors.
#pragma once

#include <string>
#include <string_view>

#include <gsl/gsl>

#include "core/config/architecture.h"
#include "core/models/gguf_model.h"
#include "core/models/json_object.h"

namespace quire {

// Name of a part of a layer in GGUF files, and within a layer of the class, both without ".weight". "{}" is
// the number of an expert: the tensor stacks all experts.
struct GgufPart {
  std::string_view stored;
  std::string_view name;
  // True if the class has the tensor under this name alone, without ".weight" or ".bias".
  bool is_bare = false;
  bool is_decay = false;  // true if the file has -e^x of the class's elements x
};

// Wide type: a row of a table of differences.
struct GgufFamily {
  std::string_view architecture;         // of the file
  std::string_view class_name;           // an entry of `architectures` in config.json
  gsl::span<const GgufPart> parts = {};  // beside those that most classes have, or in place of them
  // True if the file has the two elements of a rotary pair in neighbouring rows of q and k. The rows are
  // ordered anew for classes that have them half a head apart.
  bool has_rotary_pairs = false;
  bool norms_have_one = false;  // 1 was added to the weights of norms, except those in recurrent layers
  // Layers may lack attention or a dense feed-forward part: lists of their sizes have 0 there.
  bool is_hybrid = false;
  // A block after the layers is a module for multi-token prediction, which is read under the names that
  // DeepSeek gives it.
  bool has_module = false;
  // Adds fields of config.json that the common ones lack; nullptr if there are none.
  void (*configure)(const GgufModel& model, JsonObject& config) = nullptr;
  // Decides between rows of the same architecture; nullptr: always.
  bool (*matches)(const GgufModel& model) = nullptr;
};

// Throws ErrorCode::unsupported that names the architecture if no row matches.
const GgufFamily& gguf_family_of(const GgufModel& model);

// Returns the row of the class of a family.
const ArchitectureSpec& class_of(const GgufFamily& family);

}  // namespace quire
