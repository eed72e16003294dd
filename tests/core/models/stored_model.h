// Files of a tiny model, parsed so that a test may modify them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/models/model.h"
#include "tests/support/json_text.h"

namespace quire::testing {

struct StoredTensor {
  std::string name;
  std::string dtype;  // as written in safetensors files
  std::vector<int64_t> shape;
  std::string bytes;
};

struct StoredModel {
  Json config;
  std::vector<StoredTensor> tensors;

  StoredTensor& tensor(const std::string& name);  // must exist
  // Removes a tensor, which must exist, and returns it.
  StoredTensor take(const std::string& name);
  int num_layers() const { return config["num_hidden_layers"].get<int>(); }
};

// Returns the name of a part of a layer as most families have it: model.layers.2.mlp.up_proj.weight.
std::string layer_name(int layer, const std::string& part);

// Replaces matrices of each layer, and their biases if they have some, by one: one below the other.
void fuse(StoredModel& model, const std::vector<std::string>& parts, const std::string& fused);

StoredModel read_stored_model(const std::string& directory);

// Loads the model on the device under test. Throws the errors of the load.
std::shared_ptr<const Model> load_stored_model(const StoredModel& model);

}  // namespace quire::testing
