// Large blocks of host memory return to the system, not to the heap.
#include "kernels/interface/host_memory.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace quire::kernels {
namespace {

constexpr uintptr_t kPage = 4096;

// Counts the pages of an address range that are resident, whatever the range is used for now.
size_t num_resident(uintptr_t begin, uintptr_t end) {
  size_t count = 0;
  for (uintptr_t page = (begin + kPage - 1) / kPage * kPage; page + kPage <= end; page += kPage) {
    unsigned char resident = 0;
    if (::mincore(reinterpret_cast<void*>(page), kPage, &resident) == 0) count += resident & 1;
  }
  return count;
}

TEST(HostMemory, IsAlignedAndRefusesImpossibleSizes) {
  for (const size_t bytes : {size_t{1}, size_t{1000}, size_t{5} << 20}) {
    void* memory = take_host_memory(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % kHostAlignment, 0U);
    std::memset(memory, 1, bytes);
    give_host_memory(memory, bytes);
  }
  EXPECT_EQ(take_host_memory(0), nullptr);
  EXPECT_EQ(take_host_memory(std::numeric_limits<size_t>::max()), nullptr);
  give_host_memory(nullptr, 0);
}

// The heap never reuses the addresses of a large block, which has huge-page advice: small blocks would take 2
// MiB each there.
TEST(HostMemory, LargeBlocksAreNotReusedByTheHeap) {
  for (const size_t bytes :
       {kHostMappedBytes, size_t{1} << 20, size_t{3000000}, (size_t{4} << 20) + 1, size_t{9} << 20}) {
    auto* memory = static_cast<unsigned char*>(take_host_memory(bytes));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(memory[0] | memory[bytes - 1], 0);  // zero, as from the system
    memory[0] = memory[bytes - 1] = 1;
    give_host_memory(memory, bytes);
    unsigned char resident = 0;
    for (const uintptr_t place :
         {reinterpret_cast<uintptr_t>(memory), reinterpret_cast<uintptr_t>(memory) + bytes - 1})
      EXPECT_NE(::mincore(reinterpret_cast<void*>(place / kPage * kPage), kPage, &resident), 0) << bytes;
  }
}

TEST(HostMemory, HugeBlocksBeginAtAHugePage) {
  constexpr size_t kBytes = (size_t{5} << 20) + 12345;
  void* memory = take_host_memory(kBytes);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % (size_t{2} << 20), 0U);
  give_host_memory(memory, kBytes);
}

// Allocates like the threads of a load: small blocks between large ones keep a heap from shrinking.
class HostMemoryOfALoad : public ::testing::TestWithParam<size_t> {
 protected:
  static constexpr size_t kPieces = 16, kThreads = 3;

  size_t num_resident_pages() const {
    size_t count = 0;
    for (const uintptr_t place : places_) count += num_resident(place, place + GetParam());
    return count;
  }
  void take_pieces() {
    std::mutex mutex;
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (size_t i = 0; i < kPieces; ++i) {
          void* const piece = take_host_memory(GetParam());
          std::memset(piece, 7, GetParam());
          const std::lock_guard lock(mutex);
          places_.push_back(reinterpret_cast<uintptr_t>(piece));
          between_.push_back(std::make_unique<char[]>(1000));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<uintptr_t> places_;
  std::vector<std::unique_ptr<char[]>> between_;
};

TEST_P(HostMemoryOfALoad, ReturnsToTheSystem) {
  // After this, a heap serves smaller requests than this from its arenas.
  give_host_memory(take_host_memory(size_t{24} << 20), size_t{24} << 20);
  take_pieces();
  const size_t before = num_resident_pages();
  EXPECT_GE(before, kThreads * kPieces * (GetParam() / kPage - 1));
  for (const uintptr_t place : places_) give_host_memory(reinterpret_cast<void*>(place), GetParam());
  EXPECT_LE(num_resident_pages(), before / 20);
}

INSTANTIATE_TEST_SUITE_P(Sizes, HostMemoryOfALoad,
                         ::testing::Values(kHostMappedBytes, 200'000, 700'000, 3'000'000));

}  // namespace
}  // namespace quire::kernels
