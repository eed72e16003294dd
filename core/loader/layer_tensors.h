// Tensors of one layer: those that a directory has under the layer's key with the suffixes of a format.
#pragma once

#include <string>
#include <string_view>

#include "core/loader/weight_directory.h"

namespace quire {

// Tensors of a layer, looked up by suffix. Borrows the directory.
class LayerTensors {
 public:
  LayerTensors(const WeightDirectory& directory, std::string_view key) : directory_(directory), key_(key) {}

  const WeightDirectory& directory() const { return directory_; }
  const std::string& key() const { return key_; }
  std::string name(std::string_view suffix) const { return key_ + std::string(suffix); }
  bool has(std::string_view suffix) const { return find(suffix) != nullptr; }
  const WeightDirectory::Entry* find(std::string_view suffix) const { return directory_.find(name(suffix)); }
  // Throws ErrorCode::format naming the tensor if it is missing.
  const WeightDirectory::Entry& at(std::string_view suffix) const { return directory_.at(name(suffix)); }
  // Returns whether the tensor exists and is stored as that safetensors type ("I32").
  bool is(std::string_view suffix, std::string_view type) const {
    const WeightDirectory::Entry* entry = find(suffix);
    return entry != nullptr && entry->tensor->type->name == type;
  }
  // Returns 0 if there is no such tensor or axis; negative axes count from the last.
  int64_t extent(std::string_view suffix, int axis) const {
    const WeightDirectory::Entry* entry = find(suffix);
    const int rank = entry == nullptr ? 0 : static_cast<int>(entry->tensor->shape.size());
    const int index = axis < 0 ? rank + axis : axis;
    return index < 0 || index >= rank ? 0 : entry->tensor->shape[static_cast<size_t>(index)];
  }

 private:
  const WeightDirectory& directory_;
  const std::string key_;
};

}  // namespace quire
