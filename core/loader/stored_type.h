// All element types that a safetensors file may name, with their sizes. Tensors of some types can only be
// skipped.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/tensor/dtype.h"

namespace quire {

struct StoredType {
  std::string_view name;       // as written in the file
  uint32_t bits = 0;           // of one element; elements of less than 8 bits share bytes
  std::optional<DType> dtype;  // type it is read as; none: tensors of this type cannot be read
};

// Returns the type of that name, or nullptr. It has static lifetime.
const StoredType* find_stored_type(std::string_view name);

}  // namespace quire
