// cuBLASLt, opened at run time so that the backend loads without it. Used for large products only, and never
// in deterministic mode: its algorithms change with the number of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

namespace quire::kernels {

// output[t][n] (+)= sum over k of input[t][k] * weights[n][k].
struct Product {
  const __half* weights = nullptr;  // [columns, weight_stride]
  int32_t weight_stride = 0;
  const __half* input = nullptr;  // [rows, input_stride]
  int32_t input_stride = 0;
  void* output = nullptr;  // f16 or f32, [rows, output_stride]
  int32_t output_stride = 0;
  bool output_f32 = false;
  bool accumulate = false;
  int32_t rows = 0;
  int32_t columns = 0;
  int32_t depth = 0;
};

class MatrixLibrary {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  // Returns null and writes the reason to `why` if the library is not available.
  static std::unique_ptr<MatrixLibrary> open(std::string& why);
  ~MatrixLibrary();
  MatrixLibrary(const MatrixLibrary&) = delete;
  MatrixLibrary& operator=(const MatrixLibrary&) = delete;

  // Returns false if the library refuses; nothing was issued then. Thread-safe.
  bool multiply(const Product& product, void* workspace, cudaStream_t stream);

 private:
  struct Functions;
  struct Plan;
  MatrixLibrary();
  const Plan* plan_for(const Product& product);

  void* library_ = nullptr;
  std::unique_ptr<Functions> call_;
  void* handle_ = nullptr;
  std::mutex mutex_;
  std::map<std::tuple<int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, bool>, std::unique_ptr<Plan>>
      plans_;
};

}  // namespace quire::kernels
