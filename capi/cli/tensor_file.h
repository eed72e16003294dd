// Writes one tensor as a safetensors file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire::cli {

// `values` row by row, [num_rows, num_columns], as F32. The file appears whole or not at all: it is written
// beside its place and renamed. Throws Failure naming the path.
void write_tensor_file(const std::string& path, const std::string& tensor_name, int64_t num_rows,
                       int64_t num_columns, const std::vector<float>& values);

}  // namespace quire::cli
