// One model in several precisions: a directory whose directories are models that differ in their weights
// alone.
#pragma once

#include <string>
#include <vector>

#include "core/base/file_system.h"

namespace quire {

// The directories of one model's precisions, that with the most bytes of weights first: `path` itself where
// it is no such directory. Reads their configurations and the headers of their weights, and throws what that
// throws; ErrorCode::unsupported where they are not of one shape, naming two.
std::vector<std::string> model_variants(const FileSystem& files, const std::string& path);

}  // namespace quire
