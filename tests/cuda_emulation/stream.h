// Streams that execute their work when it is issued, or record it.
#pragma once

#include <cuda_runtime.h>
#include <functional>

namespace emulation {

void issue_work(cudaStream_t stream, std::function<void()> work);

}  // namespace emulation
