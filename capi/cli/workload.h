// What clients do to a service: jobs that arrive one after another, with prompts and answers of many lengths.
// Pure: the same settings make the same jobs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire::cli {

struct WorkloadJob {
  double arrival_seconds = 0;
  int32_t prefix = -1;        // of those that several jobs share; -1: none
  int32_t prefix_tokens = 0;  // before the job's own
  int32_t prompt_tokens = 0;  // of its own
  int32_t new_tokens = 0;
};

// "128/128", "1000/1000", "2048/128" (every job of the same lengths), "chat": one of four long beginnings,
// then turns and answers of log-normal lengths.
const std::vector<std::string>& workload_names();

// Arrivals are random and independent, `rate` a second on average; 0: all at once.
std::vector<WorkloadJob> make_workload(const std::string& name, int32_t num_jobs, double rate);

// The smallest value that at least this share (0 to 1) of them reach; 0 where there are none.
double percentile(std::vector<double> values, double share);

}  // namespace quire::cli
