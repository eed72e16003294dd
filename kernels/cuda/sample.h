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

struct SampleArguments {
  const float* logits = nullptr;  // [rows, vocab_size]
  int32_t rows = 0;
  int32_t vocab_size = 0;
  const SampleRow* settings = nullptr;  // [rows] device memory
  SampleResult* results = nullptr;      // [rows]
  float* adjusted = nullptr;            // [kSampleBlocks or rows, vocab_size]
  uint32_t* counts = nullptr;           // likewise, zero before and after
};

cudaError_t launch_sample(const SampleArguments& arguments, Launch launch);

}  // namespace quire::kernels
