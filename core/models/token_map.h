// Map of the columns of a draft network's logits to tokens of its target.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/loader/weight_directory.h"

namespace quire {

// Reads a tensor of `columns` integers, I64 or I32: token - column for each column. Returns the tokens.
// Throws ErrorCode::format naming the file, the tensor and the first column whose token is not one of the
// num_tokens of the target.
std::vector<TokenId> read_token_map(const WeightDirectory& files, const std::string& name, int32_t columns,
                                    int32_t num_tokens);

}  // namespace quire
