// The GPTQ tensors of one layer, 4 bits only: docs/formats.md, "GPTQ".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/loader/load_linear.h"

namespace quire {

LinearWeight load_gptq(WeightReader& reader, const LinearRequest& request);

// The group of each row where no g_idx says it: k / group size. `group_size` is what the configuration says
// (-1: one group, 0: nothing said, then the smallest power of two that makes num_groups groups suffice).
// Throws ErrorCode::format beginning with `where` where the rows do not make exactly num_groups groups.
std::vector<int32_t> consecutive_groups(int32_t num_in, int32_t num_groups, int32_t group_size,
                                        std::string_view where);

}  // namespace quire
