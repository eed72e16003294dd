#include "kernels/cpu/available_memory.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

namespace quire::kernels {
namespace {

constexpr size_t kPathBytes = 4096;

uint64_t minus(uint64_t a, uint64_t b) {
  return a - std::min(a, b);
}

uint64_t plus(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

struct Path {
  char text[kPathBytes];

  template <typename... Parts>
  static std::optional<Path> of(const char* format, Parts... parts) {
    Path path;
    const int length = std::snprintf(path.text, sizeof path.text, format, parts...);
    if (length < 0 || static_cast<size_t>(length) >= sizeof path.text) return std::nullopt;
    return path;
  }
};

// Calls `use` with each line, without its end; a line that is too long arrives in pieces.
template <typename Use>
void for_each_line(const std::optional<Path>& path, const Use& use) {
  std::FILE* const file = path ? std::fopen(path->text, "re") : nullptr;
  if (file == nullptr) return;
  char line[kPathBytes];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    std::string_view text = line;
    if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    use(text);
  }
  static_cast<void>(std::fclose(file));
}

// Parses the number at the beginning of a text; none for "max" and similar. Numbers above 64 bits become the
// largest.
std::optional<uint64_t> number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') break;
    const auto digit = static_cast<uint64_t>(c - '0');
    if (value > (UINT64_MAX - digit) / 10) return UINT64_MAX;
    value = value * 10 + digit;
  }
  return value;
}

std::optional<uint64_t> only_number(const std::optional<Path>& path) {
  std::optional<uint64_t> found;
  for_each_line(path, [&](std::string_view line) {
    if (!found) found = number(line);
  });
  return found;
}

// Finds a number in a file of lines like "VmSize:   3060 kB" or "inactive_file 4096".
std::optional<uint64_t> named_number(const std::optional<Path>& path, std::string_view name) {
  std::optional<uint64_t> found;
  for_each_line(path, [&](std::string_view line) {
    if (!found && line.substr(0, name.size()) == name) found = number(line.substr(name.size()));
  });
  return found;
}

std::optional<uint64_t> kilobytes(const std::optional<Path>& path, std::string_view name) {
  const std::optional<uint64_t> value = named_number(path, name);
  if (!value) return std::nullopt;
  return *value > UINT64_MAX / 1024 ? UINT64_MAX : *value * 1024;
}

uint64_t memory_of_machine(const char* root) {
  const auto path = Path::of("%s/proc/meminfo", root);
  const std::optional<uint64_t> available = kilobytes(path, "MemAvailable:");
  if (available) return plus(*available, kilobytes(path, "SwapFree:").value_or(0));
  return static_cast<uint64_t>(::sysconf(_SC_AVPHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// File names of a version of control groups.
struct GroupFiles {
  const char* mount;
  const char* limits[2];
  const char* usage;
  std::string_view reclaimable;  // key in memory.stat
};
constexpr GroupFiles kVersion1 = {"/sys/fs/cgroup/memory",
                                  {"memory.limit_in_bytes", nullptr},
                                  "memory.usage_in_bytes",
                                  "total_inactive_file "};
constexpr GroupFiles kVersion2 = {
    "/sys/fs/cgroup", {"memory.max", "memory.high"}, "memory.current", "inactive_file "};

uint64_t memory_of_group(const char* root, const GroupFiles& files, std::string_view group) {
  const auto path_of = [&](const char* name) {
    return Path::of("%s%s%.*s/%s", root, files.mount, static_cast<int>(group.size()), group.data(), name);
  };
  uint64_t limit = kNoMemoryLimit;
  for (const char* name : files.limits)
    if (name != nullptr) limit = std::min(limit, only_number(path_of(name)).value_or(kNoMemoryLimit));
  const std::optional<uint64_t> usage = only_number(path_of(files.usage));
  if (limit == kNoMemoryLimit || !usage) return kNoMemoryLimit;
  const uint64_t reclaimable = named_number(path_of("memory.stat"), files.reclaimable).value_or(0);
  return minus(limit, minus(*usage, std::min(reclaimable, *usage)));
}

// Returns the minimum over the group and all of its parents. In a container the path may be that of the
// machine, although only the root of the mount exists.
uint64_t memory_of_groups(const char* root, const GroupFiles& files, std::string_view group) {
  uint64_t room = kNoMemoryLimit;
  for (;;) {
    while (!group.empty() && group.back() == '/') group.remove_suffix(1);
    room = std::min(room, memory_of_group(root, files, group));
    if (group.empty()) return room;
    group = group.substr(0, group.rfind('/'));
  }
}

// Returns true if a list such as "cpu,memory" contains "memory".
bool names_memory(std::string_view controllers) {
  constexpr std::string_view kName = "memory";
  for (size_t begin = 0; begin <= controllers.size();) {
    const size_t end = std::min(controllers.find(',', begin), controllers.size());
    if (controllers.substr(begin, end - begin) == kName) return true;
    begin = end + 1;
  }
  return false;
}

// Parses lines of cgroups(7): "4:memory:/a/b" of version 1, "0::/a/b" of version 2.
uint64_t memory_of_all_groups(const char* root) {
  uint64_t room = kNoMemoryLimit;
  for_each_line(Path::of("%s/proc/self/cgroup", root), [&](std::string_view line) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos || second + 1 >= line.size() || line[second + 1] != '/') return;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = line.substr(second + 1);
    if (controllers.empty()) room = std::min(room, memory_of_groups(root, kVersion2, group));
    if (names_memory(controllers)) room = std::min(room, memory_of_groups(root, kVersion1, group));
  });
  return room;
}

uint64_t soft_limit(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return kNoMemoryLimit;
  return limit.rlim_cur == RLIM_INFINITY ? kNoMemoryLimit : static_cast<uint64_t>(limit.rlim_cur);
}

uint64_t memory_of_process(const MemorySources& sources) {
  const auto path = Path::of("%s/proc/self/status", sources.root);
  uint64_t room = kNoMemoryLimit;
  if (sources.address_bytes != kNoMemoryLimit)
    room = std::min(room, minus(sources.address_bytes, kilobytes(path, "VmSize:").value_or(0)));
  if (sources.writable_bytes != kNoMemoryLimit)
    room = std::min(room, minus(sources.writable_bytes, kilobytes(path, "VmData:").value_or(0)));
  return room;
}

}  // namespace

MemorySources memory_sources() noexcept {
  MemorySources sources;
  sources.address_bytes = soft_limit(RLIMIT_AS);
  sources.writable_bytes = soft_limit(RLIMIT_DATA);
  return sources;
}

uint64_t available_memory(const MemorySources& sources, uint64_t taken_bytes) noexcept {
  const auto status = Path::of("%s/proc/self/status", sources.root);
  const uint64_t written = kilobytes(status, "RssAnon:").value_or(taken_bytes);
  const uint64_t of_pages = std::min(memory_of_machine(sources.root), memory_of_all_groups(sources.root));
  return std::min(minus(of_pages, minus(taken_bytes, written)), memory_of_process(sources));
}

}  // namespace quire::kernels
