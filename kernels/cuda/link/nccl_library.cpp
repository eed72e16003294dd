#include "kernels/cuda/link/nccl_library.h"

#include <algorithm>
#include <dlfcn.h>
#include <type_traits>

namespace quire::kernels {
namespace {

// First version with the layout of NcclConfig: 2.18.1.
constexpr int kLeastVersion = 21801;

bool find_all(void* library, NcclFunctions& call) {
  const auto find = [library](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
  return find(call.get_version, "ncclGetVersion") && find(call.get_unique_id, "ncclGetUniqueId") &&
         find(call.init_rank, "ncclCommInitRankConfig") &&
         find(call.get_async_error, "ncclCommGetAsyncError") && find(call.abort, "ncclCommAbort") &&
         find(call.group_start, "ncclGroupStart") && find(call.group_end, "ncclGroupEnd") &&
         find(call.send, "ncclSend") && find(call.receive, "ncclRecv") &&
         find(call.error_string, "ncclGetErrorString") && find(call.last_error, "ncclGetLastError");
}

// Versions before 2.9 are numbers of four digits.
std::string name_of(int version) {
  const int unit = version < 10000 ? 1000 : 10000;
  return "NCCL " + std::to_string(version / unit) + "." + std::to_string(version % unit / 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

// The library is never closed: threads of its own may still run.
std::string NcclLibrary::load() {
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "libnccl.so.2 was not found";
  NcclFunctions found;
  if (!find_all(library, found)) return "libnccl.so.2 lacks a function";
  int version = 0;
  if (found.get_version(&version) != kNcclSuccess) return "ncclGetVersion failed";
  if (version < kLeastVersion) return name_of(version) + " is too old; 2.18.1 or newer is needed";
  call_ = found;
  name_ = name_of(version);
  return {};
}

Status NcclLibrary::open() {
  const std::scoped_lock lock(mutex_);
  if (!was_tried_) why_ = load();
  was_tried_ = true;
  return why_.empty() ? Status(Status::ok) : failed(Status::unsupported, "%s", why_.c_str());
}

// The words of the last error may be of several lines.
Status NcclLibrary::check(NcclResult result, Status::Code code, const char* doing) const {
  if (result == kNcclSuccess || result == kNcclInProgress) return Status::ok;
  std::string words = std::string(doing) + ": " + name_ + ": " + call_.error_string(result) + " (" +
                      std::to_string(result) + ")";
  const char* const last = call_.last_error(nullptr);
  if (last != nullptr && *last != '\0') words += std::string(", ") + last;
  std::replace(words.begin(), words.end(), '\n', ' ');
  return failed(code, "%s", words.c_str());
}

}  // namespace quire::kernels
