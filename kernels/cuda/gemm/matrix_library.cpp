#include "kernels/cuda/gemm/matrix_library.h"

#include <cublasLt.h>
#include <dlfcn.h>

namespace quire::kernels {

struct MatrixLibrary::Functions {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;

  bool load(void* library) {
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    return find(create, "cublasLtCreate") && find(destroy, "cublasLtDestroy") &&
           find(matmul, "cublasLtMatmul") && find(desc_create, "cublasLtMatmulDescCreate") &&
           find(desc_destroy, "cublasLtMatmulDescDestroy") &&
           find(desc_set, "cublasLtMatmulDescSetAttribute") &&
           find(layout_create, "cublasLtMatrixLayoutCreate") &&
           find(layout_destroy, "cublasLtMatrixLayoutDestroy") &&
           find(preference_create, "cublasLtMatmulPreferenceCreate") &&
           find(preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
           find(preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
           find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
  }
};

// Algorithm for one shape. In column-major terms: D [columns, rows] = W^T [columns, depth] X [depth, rows].
struct MatrixLibrary::Plan {
  const Functions* call = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weights = nullptr;
  cublasLtMatrixLayout_t input = nullptr;
  cublasLtMatrixLayout_t output = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
  bool usable = false;

  ~Plan() {
    if (operation != nullptr) call->desc_destroy(operation);
    if (weights != nullptr) call->layout_destroy(weights);
    if (input != nullptr) call->layout_destroy(input);
    if (output != nullptr) call->layout_destroy(output);
  }
};

MatrixLibrary::MatrixLibrary() : call_(std::make_unique<Functions>()) {}

std::unique_ptr<MatrixLibrary> MatrixLibrary::open(std::string& why) {
  std::unique_ptr<MatrixLibrary> made(new MatrixLibrary);
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
    made->library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (made->library_ != nullptr) break;
  }
  if (made->library_ == nullptr) {
    why = "libcublasLt.so.13 was not found";
    return nullptr;
  }
  if (!made->call_->load(made->library_)) {
    why = "libcublasLt lacks a function";
    return nullptr;
  }
  cublasLtHandle_t handle = nullptr;
  if (made->call_->create(&handle) != CUBLAS_STATUS_SUCCESS) {
    why = "cublasLtCreate failed";
    return nullptr;
  }
  made->handle_ = handle;
  return made;
}

MatrixLibrary::~MatrixLibrary() {
  plans_.clear();
  if (handle_ != nullptr) call_->destroy(static_cast<cublasLtHandle_t>(handle_));
  if (library_ != nullptr) dlclose(library_);
}

const MatrixLibrary::Plan* MatrixLibrary::plan_for(const Product& p) {
  const std::scoped_lock lock(mutex_);
  const auto key = std::make_tuple(p.rows, p.columns, p.depth, p.input_stride, p.output_stride,
                                   p.weight_stride, p.output_f32);
  auto& slot = plans_[key];
  if (slot != nullptr) return slot.get();
  slot = std::make_unique<Plan>();
  Plan& plan = *slot;
  plan.call = call_.get();
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const auto ok = [](cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; };
  const auto rows = static_cast<uint64_t>(p.rows), columns = static_cast<uint64_t>(p.columns),
             depth = static_cast<uint64_t>(p.depth);
  if (!ok(call_->desc_create(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F)) ||
      !ok(call_->desc_set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed))) ||
      !ok(call_->layout_create(&plan.weights, CUDA_R_16F, depth, columns, p.weight_stride)) ||
      !ok(call_->layout_create(&plan.input, CUDA_R_16F, depth, rows, p.input_stride)) ||
      !ok(call_->layout_create(&plan.output, p.output_f32 ? CUDA_R_32F : CUDA_R_16F, columns, rows,
                               p.output_stride)))
    return slot.get();
  cublasLtMatmulPreference_t preference = nullptr;
  if (!ok(call_->preference_create(&preference))) return slot.get();
  const size_t workspace = kWorkspaceBytes;
  call_->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace));
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  plan.usable = ok(call_->heuristic(static_cast<cublasLtHandle_t>(handle_), plan.operation, plan.weights,
                                    plan.input, plan.output, plan.output, preference, 1, &result, &found)) &&
                found == 1;
  if (plan.usable) plan.algorithm = result.algo;
  call_->preference_destroy(preference);
  return slot.get();
}

bool MatrixLibrary::multiply(const Product& p, void* workspace, cudaStream_t stream) {
  const Plan* plan = plan_for(p);
  if (!plan->usable) return false;
  const float one = 1.0f, beta = p.accumulate ? 1.0f : 0.0f;
  const cublasStatus_t status =
      call_->matmul(static_cast<cublasLtHandle_t>(handle_), plan->operation, &one, p.weights, plan->weights,
                    p.input, plan->input, &beta, p.output, plan->output, p.output, plan->output,
                    &plan->algorithm, workspace, kWorkspaceBytes, stream);
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  static_cast<void>(cudaGetLastError());  // clears the error of a kernel that could not be loaded onto the
                                          // card
  return false;
}

}  // namespace quire::kernels
