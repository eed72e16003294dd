// The functions of the CUDA runtime library that the backend calls, on host memory. Work is executed when it
// is issued, except for large copies to the device: those are executed as late as a card may execute them,
// when something waits for them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/cuda_emulation/card_memory.h"
#include "tests/cuda_emulation/stream.h"

using Work = std::function<void()>;

struct CUgraph_st {
  std::vector<Work> works;
};
struct CUgraphExec_st {
  std::vector<Work> works;
};

namespace {

std::atomic<int64_t> num_late{0};               // copies in flight in the process
std::atomic<int64_t> host_allocations_left{0};  // allocations until one fails; below 1: none fails

// Outstanding copies of one stream, in order.
class LateCopies {
 public:
  void add(Work copy) {
    const std::scoped_lock lock(mutex_);
    copies_.push_back(std::move(copy));
    ++num_added_;
    ++num_late;
  }
  uint64_t num_added() {
    const std::scoped_lock lock(mutex_);
    return num_added_;
  }
  // Executes the copies up to number `count` of all that were ever added.
  void come(uint64_t count) {
    const std::scoped_lock lock(mutex_);
    for (; num_done_ < std::min(count, num_added_); ++num_done_) {
      copies_.front()();
      copies_.pop_front();
      --num_late;
    }
  }
  void come() { come(UINT64_MAX); }
  bool came(uint64_t count) {
    const std::scoped_lock lock(mutex_);
    return num_done_ >= std::min(count, num_added_);
  }
  bool all_came() {
    const std::scoped_lock lock(mutex_);
    return copies_.empty();
  }

 private:
  std::mutex mutex_;
  std::deque<Work> copies_;
  uint64_t num_added_ = 0, num_done_ = 0;
};

constexpr size_t kLateBytes = size_t{1} << 20;

// Fills only the beginning, to save time.
void fill_with_nan(void* memory, size_t bytes) {
  std::memset(memory, 0xff, std::min(bytes, kLateBytes));
}

struct Piece {
  size_t bytes;
  int card;
};
std::mutex pieces_mutex;
std::map<uintptr_t, Piece> pieces;  // card memory; guarded by pieces_mutex

thread_local int current_card = 0;
std::atomic<bool> reaches[kQuireMaxEmulatedCards][kQuireMaxEmulatedCards];  // [from][to], with access
std::atomic<bool> is_lost[kQuireMaxEmulatedCards];
std::atomic<uint64_t> time_of_waits{0};  // ns

cudaError_t state_of(int card) {
  return is_lost[card] ? cudaErrorLaunchFailure : cudaSuccess;
}

}  // namespace

struct CUstream_st {
  const int card = current_card;
  CUgraph_st* recording = nullptr;
  std::shared_ptr<LateCopies> late = std::make_shared<LateCopies>();
};
struct CUevent_st {
  const int card = current_card;
  std::chrono::steady_clock::time_point time;
  std::shared_ptr<LateCopies> late;  // copies that precede the event: the first num_copies of these
  uint64_t num_copies = 0;
};

namespace emulation {

int device_of(cudaStream_t stream) {
  return stream == nullptr ? current_card : stream->card;
}

bool may_access(int device, const void* place) {
  const std::scoped_lock lock(pieces_mutex);
  auto piece = pieces.upper_bound(reinterpret_cast<uintptr_t>(place));
  if (piece == pieces.begin()) return true;
  --piece;
  if (reinterpret_cast<uintptr_t>(place) >= piece->first + piece->second.bytes) return true;
  return piece->second.card == device || reaches[device][piece->second.card];
}

uint64_t wait_time() {
  return time_of_waits;
}

size_t shared_per_multiprocessor() {
  const char* const kib = std::getenv("QUIRE_EMULATED_SHARED_KIB");
  const size_t shared = kib != nullptr               ? std::strtoul(kib, nullptr, 10)
                        : QUIRE_EMULATED_ARCH == 900 ? 228
                        : QUIRE_EMULATED_ARCH == 750 ? 64
                                                     : 164;
  return shared << 10;
}
// Cards before compute capability 8.0 reserve nothing.
size_t shared_per_block() {
  return shared_per_multiprocessor() - (QUIRE_EMULATED_ARCH == 750 ? 0 : size_t{1} << 10);
}

void issue_work(cudaStream_t stream, Work work) {
  if (is_lost[device_of(stream)]) return;
  if (stream != nullptr && stream->recording != nullptr) {
    stream->recording->works.push_back(std::move(work));
  } else {
    if (stream != nullptr) stream->late->come();
    work();
  }
}

}  // namespace emulation

extern "C" {

// For tests: number of copies in flight.
__attribute__((visibility("default"))) int64_t quire_emulated_late_copies() {
  return num_late;
}

// For tests: makes the nth allocation of pinned memory from now on fail, and no other; 0: none.
__attribute__((visibility("default"))) void quire_emulated_refuse_pinned(int64_t nth) {
  host_allocations_left = nth;
}

// For tests: lets time pass for waits for peers, which are bounded by it. It does not pass by itself.
__attribute__((visibility("default"))) void quire_emulated_pass_wait_time(uint64_t nanoseconds) {
  time_of_waits += nanoseconds;
}

// For tests: loses a card, or repairs it. A lost card computes nothing, and its calls fail.
__attribute__((visibility("default"))) void quire_emulated_lose(int card, bool lost) {
  is_lost[card] = lost;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = quire_emulated_cards();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int card) {
  if (card < 0 || card >= quire_emulated_cards()) return cudaErrorInvalidDevice;
  current_card = card;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "emulated device");
  properties->major = QUIRE_EMULATED_ARCH / 100;
  properties->minor = QUIRE_EMULATED_ARCH / 10 % 10;
  properties->multiProcessorCount = 16;
  properties->sharedMemPerMultiprocessor = emulation::shared_per_multiprocessor();
  properties->sharedMemPerBlockOptin = emulation::shared_per_block();
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaError";
}
const char* cudaGetErrorString(cudaError_t) {
  return "emulated";
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *total_bytes = quire_emulated_total(current_card);
  *free_bytes = quire_emulated_free(current_card);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = nullptr;
  const size_t whole = (bytes + 255) / 256 * 256;
  const int card = current_card;
  if (!quire_emulated_take(card, whole)) return cudaErrorMemoryAllocation;
  *memory = std::aligned_alloc(256, whole);
  if (*memory == nullptr) {
    quire_emulated_give(card, whole);
    return cudaErrorMemoryAllocation;
  }
  fill_with_nan(*memory, whole);
  const std::scoped_lock lock(pieces_mutex);
  pieces[reinterpret_cast<uintptr_t>(*memory)] = {whole, card};
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  {
    const std::scoped_lock lock(pieces_mutex);
    const auto piece = pieces.find(reinterpret_cast<uintptr_t>(memory));
    quire_emulated_give(piece->second.card, piece->second.bytes);
    pieces.erase(piece);
  }
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = nullptr;
  if (--host_allocations_left == 0) return cudaErrorMemoryAllocation;
  const size_t whole = (bytes + 255) / 256 * 256;
  *memory = std::aligned_alloc(256, whole);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  fill_with_nan(*memory, whole);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, cudaMemcpyKind) {
  std::memcpy(target, source, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const auto copy = [=] { std::memcpy(target, source, bytes); };
  const bool may_be_late = stream != nullptr && stream->recording == nullptr && bytes >= kLateBytes;
  try {
    if (kind == cudaMemcpyHostToDevice && may_be_late) {
      stream->late->add(copy);
    } else {
      emulation::issue_work(stream, copy);
    }
  } catch (const std::bad_alloc&) {  // functions of CUDA do not throw
    return cudaErrorMemoryAllocation;
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* target, int, const void* source, int, size_t bytes,
                                cudaStream_t stream) {
  return cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaMemset(void* target, int byte, size_t bytes) {
  std::memset(target, byte, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* target, int byte, size_t bytes, cudaStream_t stream) {
  emulation::issue_work(stream, [=] { std::memset(target, byte, bytes); });
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int from, int to) {
  *can = from != to && std::getenv("QUIRE_EMULATED_NO_PEERS") == nullptr ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int to, unsigned) {
  if (std::getenv("QUIRE_EMULATED_NO_PEERS") != nullptr) return cudaErrorPeerAccessUnsupported;
  return reaches[current_card][to].exchange(true) ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  try {
    *stream = new CUstream_st;
  } catch (const std::bad_alloc&) {
    return cudaErrorMemoryAllocation;
  }
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->late->come();
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream != nullptr) stream->late->come();
  return state_of(emulation::device_of(stream));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (is_lost[stream->card]) return cudaErrorLaunchFailure;
  return stream->late->all_came() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t event, unsigned) {
  return cudaEventSynchronize(event);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new (std::nothrow) CUevent_st;
  return *event == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (is_lost[emulation::device_of(stream)]) return cudaErrorLaunchFailure;
  event->time = std::chrono::steady_clock::now();
  event->late = stream == nullptr ? nullptr : stream->late;
  event->num_copies = event->late == nullptr ? 0 : event->late->num_added();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (is_lost[event->card]) return cudaErrorLaunchFailure;
  const bool has_come = event->late == nullptr || event->late->came(event->num_copies);
  return has_come ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->late != nullptr) event->late->come(event->num_copies);
  return state_of(event->card);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  stream->recording = new CUgraph_st;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = stream->recording;
  stream->recording = nullptr;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = graph->works.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->works};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (is_lost[emulation::device_of(stream)]) return cudaErrorLaunchFailure;
  if (stream != nullptr) stream->late->come();
  for (const Work& work : executable->works) work();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute attribute, int value) {
  const bool fits = attribute != cudaFuncAttributeMaxDynamicSharedMemorySize ||
                    static_cast<size_t>(value) <= emulation::shared_per_block();
  return fits ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->binaryVersion = 80;
  return cudaSuccess;
}

}  // extern "C"
