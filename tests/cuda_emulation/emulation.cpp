// Blocks of threads as fibers.
#include "tests/cuda_emulation/emulation.h"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <vector>

#include "tests/cuda_emulation/stream.h"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

// void emulation_switch(void** save, void* load): the registers that a function keeps go to the stack, the
// stack's place to *save; then the same from `load`.
asm(R"(
.text
.globl emulation_switch
.hidden emulation_switch
.type emulation_switch,@function
emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulation_switch,.-emulation_switch
)");
extern "C" void emulation_switch(void** save, void* load);

namespace emulation {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;
constexpr size_t kMostThreads = 1024;
constexpr size_t kSharedBytes = size_t{232} << 10;
constexpr int kNumBarriers = 16;

alignas(1024) uint8_t shared_memory[kSharedBytes];

struct Fiber {
  void* stack_place = nullptr;
  uint3 thread = {};
  int number = 0;
  uint32_t meetings = 0;  // of its warp, that it has come to
};

struct Warp {
  LaneWords words[2][32];
  int arrived = 0;
  std::vector<Fiber*> waiting;
};

struct Barrier {
  int arrived = 0;
  std::vector<Fiber*> waiting;
};

// The block that runs. One at a time in the process.
struct Block {
  const std::function<void()>* kernel = nullptr;
  std::vector<Fiber> fibers = std::vector<Fiber>(kMostThreads);
  std::vector<Warp> warps = std::vector<Warp>(kMostThreads / 32);
  Barrier barriers[kNumBarriers];
  std::deque<Fiber*> ready;
  Fiber* current = nullptr;
  void* outside = nullptr;
  int num_threads = 0;
  int num_ended = 0;
  uint8_t* stacks = nullptr;
};

Block block;
std::mutex block_mutex;

void go_to(Fiber* next) {
  Fiber* from = block.current;
  if (next == from) return;
  block.current = next;
  threadIdx = next->thread;
  emulation_switch(&from->stack_place, next->stack_place);
}

[[noreturn]] void deadlock() {
  std::fprintf(stderr, "emulation: threads of block %u %u %u wait for what never comes: %d of %d ended\n",
               blockIdx.x, blockIdx.y, blockIdx.z, block.num_ended, block.num_threads);
  std::abort();
}

// The next thread that can run, this one left where it has been put.
void leave() {
  if (block.ready.empty()) deadlock();
  Fiber* next = block.ready.front();
  block.ready.pop_front();
  go_to(next);
}

void release_all(std::vector<Fiber*>& waiting) {
  for (Fiber* fiber : waiting) block.ready.push_back(fiber);
  waiting.clear();
}

bool is_complete(const Barrier& barrier, int threads) {
  return barrier.arrived >= (threads != 0 ? threads : block.num_threads - block.num_ended);
}

// Where a fiber begins.
void begin() {
  (*block.kernel)();
  ++block.num_ended;
  Barrier& all = block.barriers[0];
  if (all.arrived > 0 && is_complete(all, 0)) {
    all.arrived = 0;
    release_all(all.waiting);
  }
  if (block.num_ended == block.num_threads) {
    void* nowhere = nullptr;
    emulation_switch(&nowhere, block.outside);
  }
  leave();
  std::abort();
}

void prepare(Fiber& fiber, int number, dim3 shape) {
  const auto n = static_cast<unsigned>(number);
  fiber.number = number;
  fiber.meetings = 0;
  fiber.thread = {n % shape.x, n / shape.x % shape.y, n / (shape.x * shape.y)};
  auto* top = reinterpret_cast<void**>(block.stacks + static_cast<size_t>(number + 1) * kStackBytes) - 2;
  *top = reinterpret_cast<void*>(&begin);  // where the first switch returns to, the stack as after a call
  fiber.stack_place = top - 6;
}

void run_block() {
  block.num_ended = 0;
  block.num_threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  for (Warp& warp : block.warps) warp.arrived = 0;
  for (int i = 0; i < block.num_threads; ++i) {
    prepare(block.fibers[static_cast<size_t>(i)], i, blockDim);
    if (i > 0) block.ready.push_back(&block.fibers[static_cast<size_t>(i)]);
  }
  block.current = block.fibers.data();
  threadIdx = block.current->thread;
  emulation_switch(&block.outside, block.current->stack_place);
}

void run_grid(dim3 grid, dim3 threads, const std::function<void()>& kernel) {
  const std::scoped_lock lock(block_mutex);
  if (block.stacks == nullptr) {
    void* memory = mmap(nullptr, kMostThreads * kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    block.stacks = static_cast<uint8_t*>(memory);
  }
  block.kernel = &kernel;
  gridDim = grid;
  blockDim = threads;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        std::memset(shared_memory, 0xff, sizeof(shared_memory));  // NaN: nothing is there that nobody wrote
        run_block();
      }
}

}  // namespace

uint8_t* dynamic_shared() {
  return shared_memory;
}

void run(dim3 grid, dim3 threads, cudaStream_t stream, std::function<void()> kernel) {
  issue_work(stream, [=] { run_grid(grid, threads, kernel); });
}

void yield() {
  block.ready.push_back(block.current);
  leave();
}

int lane() {
  return block.current->number & 31;
}

void meet_block(int id, int threads) {
  Barrier& barrier = block.barriers[id];
  ++barrier.arrived;
  if (is_complete(barrier, threads)) {
    barrier.arrived = 0;
    release_all(barrier.waiting);
    return;
  }
  barrier.waiting.push_back(block.current);
  leave();
}

const LaneWords* meet_warp(const LaneWords& mine) {
  Fiber& fiber = *block.current;
  Warp& warp = block.warps[static_cast<size_t>(fiber.number / 32)];
  LaneWords* words = warp.words[fiber.meetings++ & 1];
  words[fiber.number & 31] = mine;
  if (++warp.arrived == std::min(32, block.num_threads - fiber.number / 32 * 32)) {
    warp.arrived = 0;
    release_all(warp.waiting);
    return words;
  }
  warp.waiting.push_back(&fiber);
  leave();
  return words;
}

}  // namespace emulation
