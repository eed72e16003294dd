// Streams that execute their work when it is issued, or record it, and the memory that they may access.
#pragma once

#include <cuda_runtime.h>
#include <functional>

namespace emulation {

void issue_work(cudaStream_t stream, std::function<void()> work);

// Returns the card of a stream.
int device_of(cudaStream_t stream);
// Returns whether kernels of a card may access memory: its own, host memory, and that of peers with access.
bool may_access(int device, const void* place);

}  // namespace emulation
