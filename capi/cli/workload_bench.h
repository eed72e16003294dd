// quire bench --workload: measures what clients observe while jobs arrive, for each of several rates.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "capi/cli/session.h"

namespace quire::cli {

struct WorkloadOptions {
  std::string name;  // empty means none
  std::vector<double> rates{0};
  int32_t num_jobs = 64;
  int32_t max_batch = 64;
  int32_t cache_tokens = 65536;
  std::optional<double> step_stretch;  // empty means the default of caches
  double first_token_limit_ms = 1000;
  double token_limit_ms = 50;
  std::string svg_path;
};

void add_workload_options(CLI::App& app, WorkloadOptions& options);
// Runs the benchmark; kv_format is one of QUIRE_KV_*.
int run_workload_bench(const ModelChoice& model, int32_t kv_format, const WorkloadOptions& options,
                       Interrupt& interrupt);

}  // namespace quire::cli
