// A stage process for the tests. Arguments: key file, directory of the models, bytes of memory, and the
// address if it is not a free port of this machine. Writes its address as one line.
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "core/stages/stage_server.h"
#include "kernels/cpu/cpu_backend.h"

int main(int count, char** arguments) {
  using namespace quire;
  try {
    StageServerOptions options;
    options.address = parse_address(count > 4 ? arguments[4] : "127.0.0.1:0", true);
    options.key = read_key_file(posix_file_system(), arguments[1]);
    options.models = arguments[2];
    options.memory_bytes = std::strtoull(arguments[3], nullptr, 10);
    kernels::DeviceOptions device;
    device.num_threads = 2;
    options.device = Device::open(kernels::cpu_backend(), 0, device);
    StageServer server(std::move(options));
    std::printf("%s\n", server.address().text().c_str());
    std::fflush(stdout);
    server.run_until(TimePoint::max(), nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
