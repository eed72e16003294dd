// Marks functions that kernels for a card call as well as the host.
#pragma once

#if defined(__CUDACC__)
#define QUIRE_HOST_AND_DEVICE __host__ __device__
#else
#define QUIRE_HOST_AND_DEVICE
#endif
