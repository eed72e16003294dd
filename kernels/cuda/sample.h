// Sampling of rows of logits on the card.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/pointwise.h"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

constexpr int kSampleBlocks = 64;  // rows in work at once; each has scratch for a vocabulary

struct SampleResult {
  int32_t token = -1;
  float log_prob = 0.0f;
  int32_t fault = 0;
};

// Where the blocks of a row meet; zero before and after.
struct RowScan {
  unsigned long long best = 0;
  uint32_t suspect = 0;
  uint32_t arrived = 0;
};

struct SampleArguments {
  const float* logits = nullptr;  // [rows, vocab_size]
  int32_t rows = 0;
  int32_t vocab_size = 0;
  const SampleRow* settings = nullptr;  // [rows] device memory
  SampleResult* results = nullptr;      // [rows] pinned memory
  RowScan* scans = nullptr;             // [rows]
  float* adjusted = nullptr;            // [kSampleBlocks or rows, vocab_size]
  uint32_t* counts = nullptr;           // likewise, zero before and after
  bool wants_log_probs = false;
};

// Whether the largest logit of each row is all that is asked for; `settings` in host memory.
bool takes_largest_only(const SampleArguments& arguments, const SampleRow* settings);
// `largest_only`: takes_largest_only said so; `settings` of the arguments are not read then.
cudaError_t launch_sample(const SampleArguments& arguments, bool largest_only, Launch launch);

}  // namespace quire::kernels
