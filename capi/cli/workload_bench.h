// quire bench --workload: what clients see while jobs arrive, at one rate after another.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "capi/cli/session.h"

namespace quire::cli {

struct WorkloadOptions {
  std::string name;  // empty: none
  std::vector<double> rates{0};
  int32_t num_jobs = 64;
  int32_t max_batch = 64;
  int32_t cache_tokens = 65536;
  std::optional<double> step_stretch;  // as caches have it by default
  double first_token_limit_ms = 1000;
  double token_limit_ms = 50;
  std::string svg_path;
};

void add_workload_options(CLI::App& app, WorkloadOptions& options);
// kv_format: QUIRE_KV_*.
int run_workload_bench(const ModelChoice& model, int32_t kv_format, const WorkloadOptions& options,
                       Interrupt& interrupt);

}  // namespace quire::cli
