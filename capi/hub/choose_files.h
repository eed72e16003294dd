// Files of a repository that one model consists of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire::hub {

struct ModelFiles {
  std::string folder;              // of a model directory, with a slash at its end; empty for the root
  std::string gguf;                // the file to open, the first one of a split model; empty for a directory
  std::string index;               // the file that lists the weight files, if the directory has one
  std::vector<std::string> files;  // everything to bring, in order of the listing

  // Returns the path to open, relative to the snapshot; empty for its root.
  std::string path() const {
    return !gguf.empty() || folder.empty() ? gguf : folder.substr(0, folder.size() - 1);
  }
};

// Chooses by the names of all files of a repository. `choice` is empty, a GGUF file, a quantization such as
// Q4_K_M, or a folder with a model directory. Throws HubError with Problem::failed that lists the
// possibilities.
ModelFiles choose_model_files(const std::vector<std::string>& names, std::string_view choice);

// Replaces the weight files by those that the index lists, if the repository has all of them. `index` is the
// text of the index file; a malformed one changes nothing, as it is the loader that reports it.
void follow_index(ModelFiles& model, const std::vector<std::string>& names, std::string_view index);

// Returns the choices, one for each model of a repository; "" is the model directory at the root.
std::vector<std::string> list_choices(const std::vector<std::string>& names);

}  // namespace quire::hub
