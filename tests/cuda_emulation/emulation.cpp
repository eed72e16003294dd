// Runs blocks of threads, and clusters of blocks, as fibers.
#include "tests/cuda_emulation/emulation.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "tests/cuda_emulation/stream.h"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

// void emulation_switch(void** save, void* load): pushes the callee-saved registers on the stack, stores the
// stack pointer in *save, and does the reverse from `load`.
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
constexpr size_t kMostThreads = 1024;  // threads of a block
constexpr size_t kMaxBlocks = 2;       // blocks of a cluster
constexpr int kNumBarriers = 16;

alignas(1024) uint8_t shared_memory[kMaxBlocks][kSharedBytes];

struct Fiber {
  void* stack_place = nullptr;
  uint3 thread = {};
  int number = 0;         // number in its block
  int block = 0;          // number of its block in the cluster
  uint32_t meetings = 0;  // warp-wide barriers that it has reached
  Products products;
  Copies copies;
};

struct Barrier {
  int arrived = 0;
  std::vector<Fiber*> waiting;
};

struct Warp {
  LaneWords words[2][32];
  Barrier meeting;
  std::deque<Fiber*> ready;
  uint64_t priority = 0;  // the ready thread of the warp with the highest priority usually runs
};

struct Block {
  std::vector<Warp> warps = std::vector<Warp>(kMostThreads / 32);
  std::vector<Barrier> warpgroups = std::vector<Barrier>(kMostThreads / 128);
  Barrier barriers[kNumBarriers];
  uint3 index = {};
  int num_ended = 0;
};

// The running blocks. Only one cluster at a time runs in the process. While it waits for a peer, another may.
struct Cluster {
  const std::function<void()>* kernel = nullptr;
  std::vector<Fiber> fibers = std::vector<Fiber>(kMaxBlocks * kMostThreads);
  Block blocks[kMaxBlocks];
  Barrier meeting;
  std::map<const void*, std::vector<Fiber*>> waiting;  // fibers that wait for a change at an address
  std::vector<std::function<void()>> late;             // outstanding work of the copy engine
  size_t lateness = 1;  // average number of scheduling turns that a piece of that work takes
  Fiber* current = nullptr;
  void* outside = nullptr;
  int device = 0;
  int num_blocks = 0;
  int num_threads = 0;  // threads of a block
  uint8_t* stacks = nullptr;
  int num_ended() const {
    int ended = 0;
    for (int b = 0; b < num_blocks; ++b) ended += blocks[b].num_ended;
    return ended;
  }
  int all_threads() const { return num_blocks * num_threads; }
};

Cluster* cluster = nullptr;                  // the running one
std::vector<std::unique_ptr<Cluster>> idle;  // guarded by turns

// A lock that threads get in the order in which they ask for it.
class Turns {
 public:
  void take() {
    std::unique_lock lock(mutex_);
    const uint64_t own = num_asked_++;
    changed_.wait(lock, [&] { return num_ended_ == own; });
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    ++num_ended_;
    changed_.notify_all();
  }
  // True if another thread waits for the lock that the caller has.
  bool has_waiting() {
    const std::scoped_lock lock(mutex_);
    return num_asked_ > num_ended_ + 1;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t num_asked_ = 0, num_ended_ = 0;
};
Turns turns;

uint64_t first_seed() {
  const char* text = std::getenv("QUIRE_EMULATION_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}
uint64_t random_state = first_seed();

// Mixes bits as splitmix64 does.
uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
  x = (x ^ x >> 27) * 0x94d049bb133111ebU;
  return x ^ x >> 31;
}
size_t random_below(size_t count) {
  random_state += 0x9e3779b97f4a7c15U;
  return static_cast<size_t>(mixed(random_state) % count);
}

Block& own_block() {
  return cluster->blocks[cluster->current->block];
}
Warp& warp_of(const Fiber& fiber) {
  return cluster->blocks[fiber.block].warps[static_cast<size_t>(fiber.number / 32)];
}

void go_to(Fiber* next) {
  Fiber* from = cluster->current;
  if (next == from) return;
  cluster->current = next;
  threadIdx = next->thread;
  blockIdx = cluster->blocks[next->block].index;
  emulation_switch(&from->stack_place, next->stack_place);
}

// Prints where the threads of a block wait.
void print_waiting(const Block& block) {
  const auto tell = [](const char* where, size_t number, const Barrier& barrier) {
    if (!barrier.waiting.empty())
      std::fprintf(stderr, "  %zu threads at %s %zu\n", barrier.waiting.size(), where, number);
  };
  for (size_t i = 0; i < kNumBarriers; ++i) tell("barrier", i, block.barriers[i]);
  for (size_t i = 0; i < block.warpgroups.size(); ++i)
    tell("the products of warpgroup", i, block.warpgroups[i]);
  for (size_t i = 0; i < block.warps.size(); ++i) tell("the barrier of warp", i, block.warps[i].meeting);
}

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "emulation: block %u %u %u: %s; %d of %d threads ended\n", blockIdx.x, blockIdx.y,
               blockIdx.z, what, cluster->num_ended(), cluster->all_threads());
  for (int b = 0; b < cluster->num_blocks; ++b) print_waiting(cluster->blocks[b]);
  for (const auto& [place, waiting] : cluster->waiting)
    if (!waiting.empty())
      std::fprintf(stderr, "  %zu threads for byte %td of shared memory, one of warp %d\n", waiting.size(),
                   static_cast<const uint8_t*>(place) - shared_memory[0], waiting.front()->number / 32);
  std::abort();
}

// Runs some outstanding work of the copy engine; returns false if there is none.
bool run_late_work() {
  if (cluster->late.empty()) return false;
  std::swap(cluster->late[random_below(cluster->late.size())], cluster->late.back());
  const auto work = std::move(cluster->late.back());
  cluster->late.pop_back();
  work();
  return true;
}

// Calls with each warp of the cluster->
template <typename Call>
void each_warp(Call call) {
  for (int b = 0; b < cluster->num_blocks; ++b)
    for (int w = 0; w < (cluster->num_threads + 31) / 32; ++w)
      call(cluster->blocks[b].warps[static_cast<size_t>(w)]);
}

// Returns a ready thread, or nullptr: one of the warp with the highest priority. Priorities change now and
// then, so that any warp may be far ahead of any other.
Fiber* take_ready() {
  constexpr size_t kTurnsOfARank = 256;
  const bool changes = random_below(kTurnsOfARank) == 0;
  Warp* first = nullptr;
  each_warp([&](Warp& warp) {
    if (!warp.ready.empty() && (first == nullptr || warp.priority > first->priority)) first = &warp;
  });
  if (first == nullptr) return nullptr;
  if (changes) first->priority = mixed(random_state);
  const size_t at = random_below(first->ready.size());
  std::swap(first->ready[at], first->ready.front());
  Fiber* taken = first->ready.front();
  first->ready.pop_front();
  return taken;
}

// Switches to the next ready thread; the current one has been queued or is waiting.
void leave() {
  if (random_below(cluster->lateness) == 0) run_late_work();
  Fiber* next = take_ready();
  for (; next == nullptr; next = take_ready())
    if (!run_late_work()) give_up("deadlock: every thread waits");
  go_to(next);
}

void make_ready(Fiber* fiber) {
  warp_of(*fiber).ready.push_back(fiber);
}
void release_all(std::vector<Fiber*>& waiting) {
  for (Fiber* fiber : waiting) make_ready(fiber);
  waiting.clear();
}

// Waits until `threads` threads have arrived.
void meet(Barrier& barrier, int threads) {
  if (++barrier.arrived >= threads) {
    barrier.arrived = 0;
    release_all(barrier.waiting);
    return;
  }
  barrier.waiting.push_back(cluster->current);
  leave();
}

// Removes an ended thread from those that the others wait for.
void end_in(Barrier& barrier, int threads) {
  if (barrier.arrived == 0 || barrier.arrived < threads) return;
  barrier.arrived = 0;
  release_all(barrier.waiting);
}

// Entry point of a fiber.
void begin() {
  (*cluster->kernel)();
  Fiber& fiber = *cluster->current;
  if (!fiber.products.asked.empty()) give_up("a thread ended without waiting for its products");
  Block& block = own_block();
  ++block.num_ended;
  end_in(block.barriers[0], cluster->num_threads - block.num_ended);
  end_in(cluster->meeting, cluster->all_threads() - cluster->num_ended());
  if (cluster->num_ended() == cluster->all_threads()) {
    if (!cluster->late.empty()) give_up("copies are outstanding after the last thread has ended");
    void* nowhere = nullptr;
    emulation_switch(&nowhere, cluster->outside);
  }
  leave();
  std::abort();
}

void prepare(Fiber& fiber, size_t place, int block, int number, dim3 shape) {
  const auto n = static_cast<unsigned>(number);
  fiber.number = number;
  fiber.block = block;
  fiber.meetings = 0;
  fiber.products = {};
  fiber.thread = {n % shape.x, n / shape.x % shape.y, n / (shape.x * shape.y)};
  auto* top = reinterpret_cast<void**>(cluster->stacks + (place + 1) * kStackBytes) - 2;
  *top = reinterpret_cast<void*>(&begin);  // return address of the first switch, with the stack as after a
                                           // call
  fiber.stack_place = top - 6;
}

void run_cluster() {
  cluster->num_threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  cluster->lateness = size_t{1} << random_below(10);
  each_warp([](Warp& warp) { warp.priority = random_below(~size_t{0}); });
  size_t place = 0;
  for (int b = 0; b < cluster->num_blocks; ++b) {
    Block& block = cluster->blocks[b];
    block.num_ended = 0;
    std::memset(shared_memory[b], 0xff, kSharedBytes);  // NaN, so that reads of unwritten memory are noticed
    for (int i = 0; i < cluster->num_threads; ++i, ++place) {
      prepare(cluster->fibers[place], place, b, i, blockDim);
      if (place > 0) make_ready(&cluster->fibers[place]);
    }
  }
  cluster->current = cluster->fibers.data();
  threadIdx = cluster->current->thread;
  blockIdx = cluster->blocks[0].index;
  emulation_switch(&cluster->outside, cluster->current->stack_place);
}

std::unique_ptr<Cluster> idle_cluster() {
  if (!idle.empty()) {
    std::unique_ptr<Cluster> taken = std::move(idle.back());
    idle.pop_back();
    return taken;
  }
  auto made = std::make_unique<Cluster>();
  void* memory = mmap(nullptr, kMaxBlocks * kMostThreads * kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  made->stacks = static_cast<uint8_t*>(memory);
  return made;
}

// Lets kernels of other threads run.
void give_turn(bool is_asked_for) {
  Cluster* const own = cluster;
  const uint3 thread = threadIdx, block = blockIdx;
  const dim3 threads = blockDim, blocks = gridDim;
  turns.end();
  if (!is_asked_for) std::this_thread::sleep_for(std::chrono::microseconds(20));
  turns.take();
  cluster = own;
  threadIdx = thread;
  blockIdx = block;
  blockDim = threads;
  gridDim = blocks;
}

void run_grid(const Place& place, const std::function<void()>& kernel) {
  turns.take();
  std::unique_ptr<Cluster> own = idle_cluster();
  cluster = own.get();
  cluster->kernel = &kernel;
  cluster->device = device_of(place.stream);
  cluster->num_blocks = place.blocks_of_cluster;
  gridDim = place.grid;
  blockDim = place.block;
  const auto step = static_cast<unsigned>(place.blocks_of_cluster);
  for (unsigned z = 0; z < place.grid.z; ++z)
    for (unsigned x = 0; x < place.grid.x; ++x)
      for (unsigned y = 0; y < place.grid.y; y += step) {
        for (unsigned b = 0; b < step; ++b) cluster->blocks[b].index = {x, y + b, z};
        run_cluster();
      }
  idle.push_back(std::move(own));
  turns.end();
}

}  // namespace

void wait_for_peers() {
  static uint32_t num_idle_polls = 0;
  constexpr uint32_t kPollsBetweenSleeps = 64;
  const bool is_asked_for = turns.has_waiting();
  if (is_asked_for || ++num_idle_polls % kPollsBetweenSleeps == 0) give_turn(is_asked_for);
  make_ready(cluster->current);
  leave();
}

void check_peer(const void* place) {
  if (!may_access(cluster->device, place)) give_up("access to the memory of a card without peer access");
}

uint8_t* dynamic_shared() {
  return shared_memory[cluster->current->block];
}

int block_of_cluster() {
  return cluster->current->block;
}

cudaError_t run(const Place& place, std::function<void()> kernel) {
  if (place.shared_bytes > shared_per_block()) return cudaErrorInvalidValue;
  issue_work(place.stream, [=] { run_grid(place, kernel); });
  return cudaSuccess;
}

void wait_for_change(const void* place) {
  cluster->waiting[place].push_back(cluster->current);
  leave();
}
void notify_change(const void* place) {
  if (const auto found = cluster->waiting.find(place); found != cluster->waiting.end())
    release_all(found->second);
}
void run_later(std::function<void()> work) {
  cluster->late.push_back(std::move(work));
}

Products& own_products() {
  return cluster->current->products;
}
Copies& own_copies() {
  return cluster->current->copies;
}
// The result is the same for all threads of a warp, which issue the same work.
bool executes_early(uint32_t number) {
  const Fiber& fiber = *cluster->current;
  const auto warp = static_cast<uint64_t>(fiber.number / 32 + 64 * fiber.block);
  return (mixed(first_seed() << 48 ^ warp << 32 ^ number) & 1) != 0;
}

int lane() {
  return cluster->current->number & 31;
}

void sync_block(int id, int threads) {
  Block& block = own_block();
  meet(block.barriers[id], threads != 0 ? threads : cluster->num_threads - block.num_ended);
}
void sync_cluster() {
  meet(cluster->meeting, cluster->all_threads() - cluster->num_ended());
}
void sync_warpgroup() {
  meet(own_block().warpgroups[static_cast<size_t>(cluster->current->number / 128)], 128);
}

const LaneWords* sync_warp(const LaneWords& mine) {
  Fiber& fiber = *cluster->current;
  Warp& warp = warp_of(fiber);
  LaneWords* words = warp.words[fiber.meetings++ & 1];
  words[fiber.number & 31] = mine;
  meet(warp.meeting, std::min(32, cluster->num_threads - fiber.number / 32 * 32));
  return words;
}

}  // namespace emulation
