// Streams whose work is done when it is issued, or recorded.
#pragma once

#include <cuda_runtime.h>
#include <functional>

namespace emulation {

void issue_work(cudaStream_t stream, std::function<void()> work);

}  // namespace emulation
