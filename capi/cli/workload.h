// Simulated load of a service: jobs that arrive one after another, with prompts and answers of many lengths.
// Deterministic: the same settings give the same jobs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire::cli {

struct WorkloadJob {
  double arrival_seconds = 0;
  int32_t prefix = -1;        // index of a prefix that several jobs share; -1 means none
  int32_t prefix_tokens = 0;  // length of the shared prefix
  int32_t prompt_tokens = 0;  // without the prefix
  int32_t new_tokens = 0;
};

// Returns the names: "128/128", "1000/1000", "2048/128" (prompt and new tokens, equal for every job), and
// "chat": one of four long prefixes, then prompts and answers of log-normal lengths.
const std::vector<std::string>& workload_names();

// Creates the jobs. Arrivals are random and independent, `rate` per second on average; 0 means all at once.
std::vector<WorkloadJob> make_workload(const std::string& name, int32_t num_jobs, double rate);

// Returns the smallest value such that at least this share (0 to 1) of the values do not exceed it; 0 if
// there are no values.
double percentile(std::vector<double> values, double share);

}  // namespace quire::cli
