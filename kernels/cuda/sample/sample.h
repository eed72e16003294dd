// Sampling of rows of logits on the card.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

constexpr int kSampleBlocks = 64;  // rows processed at once; each has scratch for a vocabulary

// Result of a draw for the host, which computes the log-probability from it with the arithmetic of the CPU
// sampler.
struct SampleResult {
  int32_t token = -1;
  SampleStatus status = SampleStatus::drawn;
  float logit = 0.0f;    // logit of the token in the unchanged row
  float largest = 0.0f;  // largest logit of the unchanged row
  uint64_t total = 0;    // sum of the row's weights; 0 if no log-probability is requested
};

float log_prob_of(const SampleResult& result);

// Combined result of the blocks of a row; zero before and after.
struct RowScan {
  unsigned long long best = 0;
  uint32_t suspect = 0;
  uint32_t arrived = 0;
};

struct SampleArguments {
  const float* logits = nullptr;  // [.., stride]
  int32_t stride = 0;
  int32_t vocab_size = 0;
  int32_t num_rows = 0;
  // Pinned memory, so that no copies are needed between a step and its draws: each element is read or written
  // once.
  const SampleRow* rows = nullptr;   // [num_rows]
  const LogitEdit* edits = nullptr;  // edits of all rows
  SampleResult* results = nullptr;   // [num_rows]
  int32_t* tokens = nullptr;         // [num_rows] device memory: input of a following step, never below 0
  RowScan* scans = nullptr;          // [num_rows]
  float* adjusted = nullptr;         // [kSampleBlocks or num_rows, vocab_size rounded up to 4]
};

// Returns true if only the largest logit of each row is needed; `rows` in host memory.
bool all_need_largest_only(const SampleRow* rows, int32_t num_rows);
// `largest_only` is the result of all_need_largest_only.
cudaError_t launch_sample(const SampleArguments& arguments, bool largest_only, Launch launch);

// Called once per device, with the device current: loads the kernels onto the card.
cudaError_t setup_sample();

}  // namespace quire::kernels
