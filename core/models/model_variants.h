// One model in several precisions: a directory that contains directories of models which differ only in their
// weights.
#pragma once

#include <string>
#include <vector>

#include "core/base/file_system.h"

namespace quire {

// Returns the directories of the variants, those with more bytes of weights first. Returns only `path` if it
// is not a directory of variants. Reads the configurations and the headers of the weights, and throws the
// errors of reading them. Throws ErrorCode::unsupported if two variants have different shapes; the message
// names both.
std::vector<std::string> model_variants(const FileSystem& files, const std::string& path);

}  // namespace quire
