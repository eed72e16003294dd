// Large blocks of host memory return to the system, not to the heap.
#include "kernels/interface/host_memory.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
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
  for (const size_t bytes : {size_t{1} << 20, size_t{3000000}, (size_t{4} << 20) + 1, size_t{9} << 20}) {
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
TEST(HostMemory, LargeBlocksReturnToTheSystem) {
  constexpr size_t kBytes = 3000000, kPieces = 16, kThreads = 3;
  // After this, a heap serves smaller requests than this from its arenas.
  give_host_memory(take_host_memory(size_t{24} << 20), size_t{24} << 20);
  std::vector<std::vector<void*>> pieces(kThreads);
  std::vector<std::vector<std::unique_ptr<char[]>>> between(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kPieces; ++i) {
        pieces[t].push_back(take_host_memory(kBytes));
        std::memset(pieces[t].back(), 7, kBytes);
        between[t].push_back(std::make_unique<char[]>(1000));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  size_t before = 0, after = 0;
  for (const auto& of_thread : pieces)
    for (void* piece : of_thread)
      before += num_resident(reinterpret_cast<uintptr_t>(piece), reinterpret_cast<uintptr_t>(piece) + kBytes);
  EXPECT_GE(before, kThreads * kPieces * (kBytes / kPage - 1));
  std::vector<uintptr_t> places;
  for (const auto& of_thread : pieces) {
    for (void* piece : of_thread) {
      places.push_back(reinterpret_cast<uintptr_t>(piece));
      give_host_memory(piece, kBytes);
    }
  }
  for (const uintptr_t place : places) after += num_resident(place, place + kBytes);
  EXPECT_LE(after, before / 20);
}

}  // namespace
}  // namespace quire::kernels
