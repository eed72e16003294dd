// What distinguishes the files of one model from those of another, without reading all of them.
#pragma once

#include <string_view>

#include "core/base/sha256.h"
#include "core/loader/weight_directory.h"

namespace quire {

// Returns a digest of the configuration, of name, type, shape and size of each tensor, and of the first and
// last bytes of each tensor. Files with the same digest were made from the same weights, unless the
// middle of a tensor was changed. Throws the errors of reading.
Sha256 identity_of(std::string_view config, const WeightDirectory& directory);

}  // namespace quire
