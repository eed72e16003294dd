// Makes a GPU run out of free memory.
#pragma once

#include <vector>

#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

// Allocates all free memory of a device, and frees it on destruction. The device must outlive it.
class ExhaustedMemory {
 public:
  ExhaustedMemory(const KernelTable& table, Device* device) : table_(table), device_(device) {
    for (size_t bytes = size_t{1} << 40; bytes >= 4096;) {
      void* memory = nullptr;
      if (table.allocate(device, bytes, &memory) == Status::ok)
        memory_.push_back(memory);
      else
        bytes /= 2;
    }
  }
  ExhaustedMemory(const ExhaustedMemory&) = delete;
  ExhaustedMemory& operator=(const ExhaustedMemory&) = delete;
  ~ExhaustedMemory() {
    for (void* memory : memory_) table_.release(device_, memory);
  }

 private:
  const KernelTable& table_;
  Device* device_;
  std::vector<void*> memory_;
};

}  // namespace quire::kernels
