#include "core/engine/model/backends.h"

#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

#include <fmt/core.h>

#include "kernels/cpu/cpu_backend.h"

namespace quire {
namespace {

constexpr const char* kEntryName = "quire_backend_entry";

void count_devices(BackendReport& report) {
  std::array<char, 512> why{};
  report.num_devices = report.backend->num_devices(why.data(), why.size());
  if (report.num_devices > 0) return;
  report.num_devices = 0;
  report.why = why.data();
}

// Returns the directory of this library with a trailing slash; empty if it cannot be determined.
std::string own_directory() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&find_backends), &info) == 0 || info.dli_fname == nullptr)
    return {};
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

std::vector<std::string> candidate_paths(const std::string& file) {
  std::vector<std::string> paths;
  if (const char* directory = std::getenv("QUIRE_BACKEND_DIR"))
    paths.push_back(std::string(directory) + "/" + file);
  if (const std::string directory = own_directory(); !directory.empty()) paths.push_back(directory + file);
  paths.push_back(file);
  return paths;
}

// Returns the reason of a missing plug-in library, with the packages that contain it (docs/packages.md).
std::string not_installed(const std::string& name, const std::string& file) {
  return fmt::format(
      "{} is not installed; it is in the package libquire*-{} of Debian and quire-{} of RPM, or set "
      "QUIRE_BACKEND_DIR to its folder",
      file, name, name);
}

BackendReport open_plugin(const std::string& name, const std::string& file) {
  BackendReport report;
  report.name = name;
  void* library = nullptr;
  for (const std::string& path : candidate_paths(file)) {
    library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library != nullptr) break;
    // Keep the first reason of a file that exists: the later paths are fallbacks.
    const char* const reason = ::dlerror();
    if (report.why.empty() && reason != nullptr && ::access(path.c_str(), F_OK) == 0) report.why = reason;
  }
  if (library == nullptr) {
    if (report.why.empty()) report.why = not_installed(name, file);
    return report;
  }
  report.why.clear();

  const auto entry = reinterpret_cast<kernels::BackendEntry>(::dlsym(library, kEntryName));
  report.backend = entry == nullptr ? nullptr : entry(kernels::kBackendAbi);
  if (report.backend == nullptr || report.backend->abi != kernels::kBackendAbi) {
    report.backend = nullptr;
    report.why = fmt::format("{} belongs to another version of Quire; install both from one release", file);
    return report;
  }
  count_devices(report);
  return report;
}

}  // namespace

std::vector<BackendReport> find_backends() {
  BackendReport cpu;
  cpu.name = "cpu";
  cpu.backend = &kernels::cpu_backend();
  count_devices(cpu);
  return {cpu, open_plugin("cuda", "libquire_cuda.so")};
}

}  // namespace quire
