// Schemas of tests/golden/json_schema and, if they are available, of the shared folder.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/case_stride.h"
#include "tests/support/golden_folders.h"

namespace quire::testing {

// Returns the paths of the JSON files of a folder of golden schemas, in the order of their names: the
// committed ones, and all others if they are available; under a sanitizer every tenth.
inline std::vector<std::string> golden_schemas(const std::string& folder) {
  std::map<std::string, std::string> by_name;
  for (const std::string& golden : golden_folders("json_schema")) {
    for (const auto& entry : std::filesystem::directory_iterator(golden + "/" + folder)) {
      if (entry.path().extension() == ".json") by_name.emplace(entry.path().filename(), entry.path());
    }
  }
  std::vector<std::string> paths;
  for (const auto& [name, path] : by_name) paths.push_back(path);
  return thin_if_sanitized(std::move(paths), 10);
}

}  // namespace quire::testing
