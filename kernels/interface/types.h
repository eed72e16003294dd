// Types shared by every backend: element types, and opaque types that each backend defines.
//
// Conventions of this folder. Structs are plain, so that they can cross a shared-library boundary. "Device
// memory" is memory from the backend's `allocate`; on the CPU it is host memory. Activations have the type
// KernelTable::activation_dtype. Shapes are written [rows, columns] and are row-major unless a comment states
// another order. No function throws; failures are returned as a Status with a message.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/interface/status.h"

namespace quire::kernels {

enum class DType : uint8_t { f32, f16, bf16, f64, i8, u8, i16, i32, i64, f8_e4m3, f8_e8m0 };

constexpr size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::i8:
    case DType::u8:
    case DType::f8_e4m3:
    case DType::f8_e8m0:
      return 1;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 2;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f64:
    case DType::i64:
      return 8;
  }
  return 0;
}

// Memory of one device, in use or planned.
struct MemoryUse {
  uint64_t num_taken = 0;     // number of allocations since the device was opened
  uint64_t held_bytes = 0;    // device memory
  uint64_t pinned_bytes = 0;  // pinned host memory for copies
};

// Objects owned by a backend. Each backend defines its own.
struct Device;        // one card, or the CPU with its threads; any thread may use it
struct Context;       // one ordered stream of work with its scratch memory; one thread at a time
struct Weight;        // a prepared matrix; immutable, shared by contexts of its device
struct Communicator;  // connects the contexts of the tensor-parallel shards of a stage

}  // namespace quire::kernels
