// The bytes of a matrix as stored, in memory or still in a file.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/interface/host_memory.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

// Returns the size of dense.data, exl2.q_weight, coded.codes, blocks.data or trellis.tiles. Codes must lie
// without gaps.
size_t stored_bytes(const WeightSource& source);

// A source whose bytes are in memory: those it already had there, or a copy read from the file, which this
// object owns.
class SourceInMemory {
 public:
  // Borrows everything except a copy. Fails with Status::unreadable, or with out_of_memory when host memory
  // runs out.
  Status open(const WeightSource& source);
  const WeightSource& source() const { return source_; }

 private:
  WeightSource source_;
  std::unique_ptr<void, HostMemoryDeleter> memory_;
};

}  // namespace quire::kernels
