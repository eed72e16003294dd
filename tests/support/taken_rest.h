// A card without free memory.
#pragma once

#include <vector>

#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

// Takes what a device has left, to the last piece, and gives it back when it goes, before the device.
class TakenRest {
 public:
  TakenRest(const KernelTable& table, Device* device) : table_(table), device_(device) {
    for (size_t bytes = size_t{1} << 40; bytes >= 4096;) {
      void* memory = nullptr;
      if (table.allocate(device, bytes, &memory) == Status::ok)
        memory_.push_back(memory);
      else
        bytes /= 2;
    }
  }
  TakenRest(const TakenRest&) = delete;
  TakenRest& operator=(const TakenRest&) = delete;
  ~TakenRest() {
    for (void* memory : memory_) table_.release(device_, memory);
  }

 private:
  const KernelTable& table_;
  Device* device_;
  std::vector<void*> memory_;
};

}  // namespace quire::kernels
