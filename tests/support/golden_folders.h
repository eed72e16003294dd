// Folders of golden data that is committed in part.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace quire::testing {

// Returns the folder with the committed selection, and the folder with all of the data if there is a shared
// folder. Tests run on each of them.
inline std::vector<std::string> golden_folders(const std::string& committed, const std::string& whole) {
  std::vector<std::string> folders = {QUIRE_TEST_DATA "/" + committed};
  const std::string shared = QUIRE_SHARED_DIR "/golden/" + whole;
  if (std::filesystem::is_directory(shared)) folders.push_back(shared);
  return folders;
}
inline std::vector<std::string> golden_folders(const std::string& name) {
  return golden_folders(name, name);
}

}  // namespace quire::testing
