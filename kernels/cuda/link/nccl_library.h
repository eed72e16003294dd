// NCCL, opened at run time so that the backend loads without it: the functions and types that links use, as
// nccl.h declares them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <mutex>
#include <string>

#include <climits>

#include "kernels/interface/status.h"

namespace quire::kernels {

struct NcclComm;  // ncclComm

enum NcclResult : int {
  kNcclSuccess = 0,
  kNcclInProgress = 7,
};

constexpr int kNcclFloat32 = 7;  // ncclFloat32 of ncclDataType_t

struct NcclUniqueId {
  char internal[128];  // NCCL_UNIQUE_ID_BYTES
};

// ncclConfig_v21700 of NCCL 2.18. Later versions take it too: they read as many bytes as `size` names, and
// treat what follows as undefined.
struct NcclConfig {
  static constexpr int kUndefined = INT_MIN;
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21801;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};
static_assert(sizeof(NcclConfig) == 48);

struct NcclFunctions {
  NcclResult (*get_version)(int* version) = nullptr;
  NcclResult (*get_unique_id)(NcclUniqueId* id) = nullptr;
  NcclResult (*init_rank)(NcclComm** comm, int num_ranks, NcclUniqueId id, int rank,
                          NcclConfig* config) = nullptr;
  NcclResult (*get_async_error)(NcclComm* comm, NcclResult* error) = nullptr;
  NcclResult (*abort)(NcclComm* comm) = nullptr;
  NcclResult (*group_start)() = nullptr;
  NcclResult (*group_end)() = nullptr;
  NcclResult (*send)(const void* from, size_t count, int type, int peer, NcclComm* comm,
                     cudaStream_t stream) = nullptr;
  NcclResult (*receive)(void* to, size_t count, int type, int peer, NcclComm* comm,
                        cudaStream_t stream) = nullptr;
  const char* (*error_string)(NcclResult result) = nullptr;
  const char* (*last_error)(NcclComm* comm) = nullptr;
};

// Thread-safe.
class NcclLibrary {
 public:
  // Opens the library at the first call. Fails with unsupported and the reason, each time the same.
  Status open();
  // These need a successful open.
  const NcclFunctions& call() const { return call_; }
  const std::string& name() const { return name_; }  // "NCCL 2.27.3"
  // Returns ok for a call that succeeded or goes on in the background, otherwise a failure with the words of
  // the library.
  Status check(NcclResult result, Status::Code code, const char* doing) const;

 private:
  // Returns why the library cannot be used; empty if it can.
  std::string load();

  std::mutex mutex_;
  bool was_tried_ = false;  // guarded by mutex_
  std::string why_;         // guarded by mutex_
  NcclFunctions call_;
  std::string name_;
};

}  // namespace quire::kernels
