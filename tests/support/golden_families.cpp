#include "tests/support/golden_families.h"

#include <algorithm>
#include <filesystem>

#include "tests/support/derived_weights.h"
#include "tests/support/file_text.h"

namespace quire::testing {
namespace {

const char* const kFolder = QUIRE_TEST_DATA "/derived/";

std::string family_file(const std::string& family, const char* name) {
  return file_text(kFolder + family + "/" + name);
}

}  // namespace

std::vector<std::string> golden_families() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string golden_family_config(const std::string& family) {
  return family_file(family, "config.json");
}

std::string golden_family_tensors(const std::string& family) {
  return family_file(family, "tensors.json");
}

FamilyDirectory::FamilyDirectory(const std::string& family) {
  for (const char* const name : {"config.json", "golden.safetensors"})
    directory_.write(name, family_file(family, name));
  directory_.write("model.safetensors", derived_safetensors(golden_family_tensors(family)));
}

}  // namespace quire::testing
