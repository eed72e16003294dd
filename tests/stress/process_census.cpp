#include "tests/stress/process_census.h"

#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <unistd.h>

#include "tests/support/allocation_faults.h"

namespace quire::testing {
namespace {

int64_t num_entries(const char* directory) {
  const std::filesystem::directory_iterator entries(directory);
  return std::distance(begin(entries), end(entries));
}

int64_t resident_pages() {
  std::ifstream statm("/proc/self/statm");
  int64_t all = 0;
  int64_t resident = 0;
  statm >> all >> resident;
  return resident;
}

}  // namespace

ProcessCensus take_census() {
  ::malloc_trim(0);
  ProcessCensus census;
  census.threads = num_entries("/proc/self/task");
  census.descriptors = num_entries("/proc/self/fd") - 1;  // without the descriptor that reads the directory
  census.resident_bytes = resident_pages() * ::sysconf(_SC_PAGESIZE);
  census.blocks = num_live_allocations();
  return census;
}

}  // namespace quire::testing
