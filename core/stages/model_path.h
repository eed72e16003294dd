// Where a stage looks for a model that a host names.
#pragma once

#include <string>
#include <string_view>

#include "core/base/file_system.h"

namespace quire {

// Returns the path of the model below `directory`: the longest end of `path` that exists there, so that
// /models/org/name is found as DIRECTORY/models/org/name, DIRECTORY/org/name or DIRECTORY/name. Names of
// synthetic models are returned unchanged. Throws ErrorCode::not_found if there is none, and
// ErrorCode::invalid_argument for a path with "..", of more than 4,096 bytes, or without a name.
std::string find_model(const FileSystem& files, const std::string& directory, std::string_view path);

}  // namespace quire
