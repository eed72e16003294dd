// All element types that a safetensors file may name, with their sizes, and the block types of GGUF files.
// Tensors of some types can only be skipped.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/tensor/dtype.h"
#include "kernels/interface/block_types.h"

namespace quire {

struct StoredType {
  std::string_view name;       // as written in the file
  uint32_t bits = 0;           // of one element; elements of less than 8 bits share bytes; 0 for blocks
  std::optional<DType> dtype;  // type it is read as; none: tensors of this type cannot be read
  // Blocks are read as the bytes of their rows, u8; the shape of the tensor counts weights.
  kernels::BlockType blocks = kernels::BlockType::none;

  bool has_blocks() const { return blocks != kernels::BlockType::none; }
};

// Returns the element type of that name, or nullptr. It has static lifetime.
const StoredType* find_stored_type(std::string_view name);

// Returns the type of tensors of such blocks, which is not none. It has static lifetime.
const StoredType& stored_type_of(kernels::BlockType blocks);

}  // namespace quire
