// Writer of one tensor as a safetensors file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire::cli {

// Writes `values` row by row, [num_rows, num_columns], as F32. Writes to a temporary file in the same
// directory and renames it, so the file is never incomplete. Throws Failure naming the path.
void write_tensor_file(const std::string& path, const std::string& tensor_name, int64_t num_rows,
                       int64_t num_columns, const std::vector<float>& values);

}  // namespace quire::cli
