// Errors for paths that no model can be loaded from. They describe what was found and what can be loaded.
#pragma once

#include <string>

#include "core/base/file_system.h"

namespace quire {

// True if the file may be a tokenizer.json: it does not begin like a file of another known format.
bool is_tokenizer_file(const FileSystem& files, const std::string& path);

// Throws ErrorCode::unsupported for a file, and ErrorCode::not_found for a path that does not exist, such as
// the name of a model on a hub.
[[noreturn]] void refuse_foreign_file(const FileSystem& files, const std::string& path);

// Throws the error for a directory without config.json: ErrorCode::unsupported if it contains weights of
// another format, otherwise ErrorCode::not_found, which names config.json.
[[noreturn]] void refuse_foreign_directory(const FileSystem& files, const std::string& path);

}  // namespace quire
