// A stage process for the tests. Arguments: key file, directory of the models, limit of the memory in bytes,
// address (port 0 takes a free one), device, library to open before the device (empty: none), and number of
// shards. Writes its address as one line.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>

#include <fmt/core.h>

#include "core/engine/model/backends.h"
#include "core/stages/stage_server.h"

namespace {

std::shared_ptr<quire::Device> open_device(const std::string& name) {
  quire::kernels::DeviceOptions options;
  options.num_threads = 2;
  for (const quire::BackendReport& report : quire::find_backends())
    for (int32_t i = 0; i < report.num_devices; ++i)
      if (name == fmt::format("{}:{}", report.name, i))
        return quire::Device::open(*report.backend, i, options);
  throw std::runtime_error("no device " + name);
}

}  // namespace

int main(int, char** arguments) {
  using namespace quire;
  try {
    StageServerOptions options;
    options.address = parse_address(arguments[4], true);
    options.key = read_key_file(posix_file_system(), arguments[1]);
    options.models = arguments[2];
    options.memory_bytes = std::strtoull(arguments[3], nullptr, 10);
    const std::string library = arguments[6];
    if (!library.empty() && ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
      throw std::runtime_error(::dlerror());
    options.num_shards = std::atoi(arguments[7]);
    options.devices = {open_device(arguments[5])};
    StageServer server(std::move(options));
    std::printf("%s\n", server.address().text().c_str());
    std::fflush(stdout);
    server.run_until(TimePoint::max(), nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
