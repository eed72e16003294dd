// The bytes of a matrix as it lies on disk, in memory or still in a file.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/interface/host_memory.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

// Of dense.data, exl2.q_weight, or coded.codes where these lie without gaps.
size_t stored_bytes(const WeightSource& source);

// A source with its bytes in memory: where they are, or read for as long as this lives.
class SourceInMemory {
 public:
  // Borrows all else. Status::unreadable, or out_of_memory of the host.
  Status open(const WeightSource& source);
  const WeightSource& source() const { return source_; }

 private:
  WeightSource source_;
  std::unique_ptr<void, HostMemoryDeleter> memory_;
};

}  // namespace quire::kernels
