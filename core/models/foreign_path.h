// Paths that no model can be loaded from: what they are, what would load, and where models come from.
#pragma once

#include <string>

#include "core/base/file_system.h"

namespace quire {

// Whether the file may be a tokenizer.json: JSON and nothing that another format begins with.
bool is_tokenizer_file(const FileSystem& files, const std::string& path);

// Of a file that is no directory, and of what is not there at all (a hub's name, say): ErrorCode::unsupported
// or ErrorCode::not_found.
[[noreturn]] void refuse_foreign_file(const FileSystem& files, const std::string& path);

// Of a directory without a config.json: ErrorCode::unsupported where it holds weights of another format,
// ErrorCode::not_found naming config.json where it does not.
[[noreturn]] void refuse_foreign_directory(const FileSystem& files, const std::string& path);

}  // namespace quire
