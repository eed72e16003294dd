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
};

StoredModel read_stored_model(const std::string& directory);

// Loads the model on the device under test. Throws the errors of the load.
std::shared_ptr<const Model> load_stored_model(const StoredModel& model);

}  // namespace quire::testing
