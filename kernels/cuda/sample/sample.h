// Sampling of rows of logits on the card.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

constexpr int kSampleBlocks = 64;  // rows in work at once; each has scratch for a vocabulary

// What a draw leaves for the host. A log-probability is made of these there, by the arithmetic of the CPU's
// sampler.
struct SampleResult {
  int32_t token = -1;
  SampleStatus status = SampleStatus::drawn;
  float logit = 0.0f;    // of the token, in the unchanged row
  float largest = 0.0f;  // of the unchanged row
  uint64_t total = 0;    // of its weights; 0 where no log-probability is wanted
};

float log_prob_of(const SampleResult& result);

// Where the blocks of a row meet; zero before and after.
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
  // Pinned memory, so that nothing is copied between a step and its draws: each is read or written once.
  const SampleRow* rows = nullptr;   // [num_rows]
  const LogitEdit* edits = nullptr;  // of all rows
  SampleResult* results = nullptr;   // [num_rows]
  int32_t* tokens = nullptr;  // [num_rows] of the card's memory: what a following step takes, never below 0
  RowScan* scans = nullptr;   // [num_rows]
  float* adjusted = nullptr;  // [kSampleBlocks or num_rows, vocab_size rounded up to 4]
};

// Whether the largest logit of each row is all that is asked for; `rows` in host memory.
bool takes_largest_only(const SampleRow* rows, int32_t num_rows);
// `largest_only`: takes_largest_only said so.
cudaError_t launch_sample(const SampleArguments& arguments, bool largest_only, Launch launch);

// Once per device, with the device current: the kernels go to the card.
cudaError_t setup_sample();

}  // namespace quire::kernels
