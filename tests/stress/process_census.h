// What a process holds at a moment when nothing should be under way.
#pragma once

#include <cstdint>

namespace quire::testing {

struct ProcessCensus {
  int64_t threads = 0;
  int64_t descriptors = 0;
  int64_t resident_bytes = 0;
  int64_t blocks = 0;  // handed out by operator new and not given back
};

// Gives free memory back to the system first. The process may start and end nothing meanwhile.
ProcessCensus take_census();

}  // namespace quire::testing
