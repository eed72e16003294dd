// How fast this machine's processors read memory: the limit of a decoding step, which reads every weight
// once.
#pragma once

#include <cstddef>

namespace quire::cli {

// Threads that the process may run at once.
int num_available_cpus();

// Bytes per second that num_threads threads together read from a buffer of num_bytes, each over and over its
// own part; the best of a few short runs. A buffer as large as the weights stays in the same caches as they
// do.
double measure_read_bandwidth(size_t num_bytes, int num_threads);

}  // namespace quire::cli
