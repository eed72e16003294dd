// Every element type that a safetensors file may name, with its size; some can be skipped over only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/tensor/dtype.h"

namespace quire {

struct StoredType {
  std::string_view name;       // as the file spells it
  uint32_t bits = 0;           // of one element; below 8 elements share bytes
  std::optional<DType> dtype;  // what it is read as; nothing: no tensor of it can be read
};

// The type of that name, or nullptr. Lives as long as the process.
const StoredType* find_stored_type(std::string_view name);

}  // namespace quire
