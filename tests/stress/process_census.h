// Resources of a process while it is idle, to detect leaks.
#pragma once

#include <cstdint>

namespace quire::testing {

struct ProcessCensus {
  int64_t threads = 0;
  int64_t descriptors = 0;
  int64_t resident_bytes = 0;
  int64_t blocks = 0;  // allocated by operator new and not freed
};

// Returns free memory to the system first. The process must start and end no thread meanwhile.
ProcessCensus take_census();

}  // namespace quire::testing
