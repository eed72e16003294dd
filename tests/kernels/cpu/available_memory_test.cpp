#include "kernels/cpu/available_memory.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/temp_directory.h"

namespace quire::kernels {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A simulated system: 1,000 MiB available, 100 MiB of swap, and a process with 300 MiB of addresses, 50 MiB
// of them written.
class AvailableMemoryTest : public ::testing::Test {
 protected:
  AvailableMemoryTest() {
    put("/proc/meminfo",
        "MemTotal:  4096000 kB\nMemAvailable:  1024000 kB\nSwapTotal: 204800 kB\nSwapFree:   102400 kB\n");
    put("/proc/self/status",
        "Name:\tquire\nVmSize:\t  307200 kB\nVmData:\t  204800 kB\nRssAnon:\t   51200 kB\n");
    put("/proc/self/cgroup", "0::/\n");
  }

  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = root_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  void remove(const std::string& path) { std::filesystem::remove(root_ + path); }

  MemorySources sources() const {
    MemorySources sources;
    sources.root = root_.c_str();
    return sources;
  }
  uint64_t room(uint64_t taken = 0) const { return available_memory(sources(), taken); }

 private:
  testing::TempDirectory directory_;
  const std::string root_ = directory_.path();
};

TEST_F(AvailableMemoryTest, IncludesSwap) {
  EXPECT_EQ(room(), 1100 * kMiB);
}

TEST_F(AvailableMemoryTest, SubtractsAllocatedButUnwrittenMemory) {
  EXPECT_EQ(room(50 * kMiB), 1100 * kMiB);
  EXPECT_EQ(room(250 * kMiB), 900 * kMiB);
  EXPECT_EQ(room(5000 * kMiB), 0U);
}

TEST_F(AvailableMemoryTest, IsBoundedByProcessLimits) {
  MemorySources limited = sources();
  limited.address_bytes = 400 * kMiB;
  EXPECT_EQ(available_memory(limited, 0), 100 * kMiB);
  // Addresses count as soon as they are allocated.
  EXPECT_EQ(available_memory(limited, 250 * kMiB), 100 * kMiB);
  limited.writable_bytes = 210 * kMiB;
  EXPECT_EQ(available_memory(limited, 0), 10 * kMiB);
  limited.address_bytes = 200 * kMiB;
  EXPECT_EQ(available_memory(limited, 0), 0U);
}

TEST_F(AvailableMemoryTest, IsBoundedByTheTightestGroupOfVersion2) {
  put("/proc/self/cgroup", "0::/service/engine\n");
  put("/sys/fs/cgroup/service/engine/memory.max", "max\n");
  put("/sys/fs/cgroup/service/engine/memory.current", "1000\n");
  EXPECT_EQ(room(), 1100 * kMiB);
  put("/sys/fs/cgroup/service/memory.max", std::to_string(500 * kMiB) + "\n");
  put("/sys/fs/cgroup/service/memory.current", std::to_string(200 * kMiB) + "\n");
  EXPECT_EQ(room(), 300 * kMiB);
  put("/sys/fs/cgroup/service/memory.stat",
      "anon 1\ninactive_anon 7\ninactive_file " + std::to_string(20 * kMiB) + "\n");
  EXPECT_EQ(room(), 320 * kMiB);
  EXPECT_EQ(room(150 * kMiB), 220 * kMiB);
  put("/sys/fs/cgroup/service/engine/memory.high", std::to_string(64 * kMiB) + "\n");
  EXPECT_EQ(room(), 64 * kMiB - 1000);
}

TEST_F(AvailableMemoryTest, IsBoundedByAGroupOfVersion1) {
  put("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/abc\n3:cpuset:/docker/abc\n0::/\n");
  // In a container the group's own path does not exist, only its root.
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(256 * kMiB) + "\n");
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(56 * kMiB) + "\n");
  put("/sys/fs/cgroup/memory/memory.stat",
      "inactive_file 1\ntotal_inactive_file " + std::to_string(6 * kMiB) + "\n");
  EXPECT_EQ(room(), 206 * kMiB);
  put("/proc/self/cgroup", "4:cpu,memory:/docker/abc\n");
  EXPECT_EQ(room(), 206 * kMiB);
  put("/proc/self/cgroup", "4:cpu,memory2,:/docker/abc\n");
  EXPECT_EQ(room(), 1100 * kMiB);
  put("/proc/self/cgroup", "4:memory:/docker/abc\n");
  put("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "4096\n");
  EXPECT_EQ(room(), 206 * kMiB);
}

TEST_F(AvailableMemoryTest, IsZeroInAGroupOverItsLimit) {
  put("/sys/fs/cgroup/memory.max", "1000\n");
  put("/sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(room(), 0U);
  put("/sys/fs/cgroup/memory.stat", "inactive_file 99999999999999999999999999\n");  // more than it uses
  EXPECT_EQ(room(), 1000U);
}

TEST_F(AvailableMemoryTest, IgnoresFilesWithoutANumber) {
  for (const char* text : {"", "\n", "max\n", "-5\n", "none at all", " \t\n"}) {
    put("/sys/fs/cgroup/memory.max", text);
    put("/sys/fs/cgroup/memory.current", text);
    EXPECT_EQ(room(), 1100 * kMiB) << text;
  }
  put("/sys/fs/cgroup/memory.max", "5\n");
  EXPECT_EQ(room(), 1100 * kMiB) << "the usage is unknown";
  for (const char* text :
       {"", "::\n", "0:\n", "0::relative\n", ":::::\n", "4:memory\n", "4:memory:\n", "no colon"}) {
    put("/proc/self/cgroup", text);
    EXPECT_EQ(room(), 1100 * kMiB) << text;
  }
}

TEST_F(AvailableMemoryTest, ClampsNumbersAbove64Bits) {
  put("/proc/meminfo",
      "MemAvailable: 99999999999999999999999999 kB\nSwapFree: 99999999999999999999999999 kB\n");
  EXPECT_EQ(room(), kNoMemoryLimit);
}

TEST_F(AvailableMemoryTest, IgnoresGroupsWithTooLongPaths) {
  put("/proc/self/cgroup", "0::/" + std::string(20000, 'a') + "\n");
  EXPECT_EQ(room(), 1100 * kMiB);
}

TEST_F(AvailableMemoryTest, UsesFreePhysicalMemoryWithoutFiles) {
  remove("/proc/meminfo");
  remove("/proc/self/status");
  remove("/proc/self/cgroup");
  EXPECT_GT(room(), 0U);
  EXPECT_LT(room(), kNoMemoryLimit);
}

TEST(AvailableMemoryHereTest, IsBetweenZeroAndTheWholeMachine) {
  const uint64_t room = available_memory(memory_sources(), 0);
  EXPECT_GT(room, 0U);
  EXPECT_LT(room, uint64_t{1} << 50);
}

}  // namespace
}  // namespace quire::kernels
