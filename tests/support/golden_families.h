// The tiny models of tests/golden/derived: one for each family, with outputs of transformers. To add a
// family, add its directory.
#pragma once

#include <string>
#include <vector>

#include "tests/support/temp_directory.h"

namespace quire::testing {

// Returns the names of all families, in alphabetical order.
std::vector<std::string> golden_families();

// Returns the text of the family's config.json.
std::string golden_family_config(const std::string& family);

// Returns the list of the family's tensors: a tensors.json (derived_weights.h).
std::string golden_family_tensors(const std::string& family);

// Model directory of a family with its weights; exists as long as the object.
class FamilyDirectory {
 public:
  explicit FamilyDirectory(const std::string& family);

  const std::string& path() const { return directory_.path(); }
  // Path of the outputs of transformers: `input_ids`, `logits` at `positions` of them, `greedy24` and
  // `greedy24_gap`.
  std::string golden() const { return directory_.file("golden.safetensors"); }

 private:
  TempDirectory directory_;
};

}  // namespace quire::testing
