// Source of a model in one GGUF file, or in several.
#pragma once

#include <memory>
#include <string>

#include "core/models/model_source.h"

namespace quire {

// Opens the files. `path` is a file that begins as GGUF files do. Throws the errors of open_gguf_files;
// others come with the parts that have them.
std::shared_ptr<ModelSource> open_gguf_model(const FileSystem& files, const std::string& path);

}  // namespace quire
