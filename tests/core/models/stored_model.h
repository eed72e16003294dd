// The files of a tiny model, taken apart so that a test may bend them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/models/model.h"
#include "tests/support/json_text.h"

namespace quire::testing {

struct StoredTensor {
  std::string name;
  std::string dtype;  // as safetensors spells it
  std::vector<int64_t> shape;
  std::string bytes;
};

struct StoredModel {
  Json config;
  std::vector<StoredTensor> tensors;

  StoredTensor& tensor(const std::string& name);  // must be there
};

StoredModel read_stored_model(const std::string& directory);

// On the device under test. Throws what the load throws.
std::shared_ptr<const Model> load_stored_model(const StoredModel& model);

}  // namespace quire::testing
