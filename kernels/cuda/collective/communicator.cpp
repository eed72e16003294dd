#include "kernels/cuda/collective/communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

namespace quire::kernels {
namespace {

constexpr uint64_t kFirstEpoch = 2;
// Time between two checks of the cards of the other shards.
constexpr std::chrono::milliseconds kCheckTime{2};

// The kernels write to the flags in pinned memory, and the host does.
uint32_t load_control(const uint32_t& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
void store_control(uint32_t& word, uint32_t value) {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

Inbox inbox_of(const Context& context, const InboxLayout& layout) {
  uint8_t* const inbox = context.gathers.inbox;
  return {reinterpret_cast<uint64_t*>(inbox), reinterpret_cast<uint64_t*>(inbox + layout.words_at),
          inbox + layout.bytes_at};
}

// Returns the layout of all inboxes, which fits into the smallest. Bounds of the shards' results may differ.
InboxLayout common_layout(const Communicator& all) {
  uint64_t bytes = UINT64_MAX;
  for (const Context* context : all.contexts) bytes = std::min(bytes, context->limits.gather_bytes);
  return inbox_layout(static_cast<int32_t>(all.contexts.size()), bytes);
}

int32_t shards_on(const Device& device, const Communicator& all) {
  return static_cast<int32_t>(std::count_if(all.contexts.begin(), all.contexts.end(), [&](const Context* c) {
    return c->device->ordinal == device.ordinal;
  }));
}

// Gives each card access to the inboxes on the others.
Status connect_cards(const Communicator& all) {
  for (const Context* from : all.contexts) {
    for (const Context* to : all.contexts) {
      if (to->limits.gathers_on_host != 0 || enable_peer_access(*from->device, *to->device)) continue;
      return Device::fail(Status::unsupported, "the cards " + std::to_string(from->device->ordinal) +
                                                   " and " + std::to_string(to->device->ordinal) +
                                                   " cannot access each other's memory");
    }
  }
  return Status::ok;
}

Status check_contexts(const Communicator& all) {
  for (const Context* context : all.contexts) {
    if (context->gathers.inbox != nullptr && context->communicator == nullptr &&
        context->limits.num_shards == static_cast<int32_t>(all.contexts.size()))
      continue;
    return Device::fail(Status::invalid_argument,
                        "connect_shards: the contexts have other limits than shards of one stage");
  }
  return Status::ok;
}

Status make_communicator(Communicator& all) {
  if (const Status s = check_contexts(all); s != Status::ok) return s;
  all.layout = common_layout(all);
  if (const Status s = connect_cards(all); s != Status::ok) return s;
  GatherArguments& a = all.arguments;
  a.num_shards = static_cast<int32_t>(all.contexts.size());
  a.source_words = all.layout.source_words;
  a.round_bytes = all.layout.round_bytes;
  a.control = all.contexts.front()->gathers.control;
  a.max_blocks = kMaxGatherBlocks;
  for (size_t r = 0; r < all.contexts.size(); ++r) {
    const Context& context = *all.contexts[r];
    a.inboxes[r] = inbox_of(context, all.layout);
    const int32_t blocks =
        max_gather_blocks(context.device->num_multiprocessors, shards_on(*context.device, all));
    a.max_blocks = std::min(a.max_blocks, blocks);
  }
  return Status::ok;
}

// Waits for the work of all shards; returns true if none failed.
bool wait_for_all(const Communicator& all) {
  bool is_well = true;
  for (const Context* context : all.contexts) {
    is_well = cudaSetDevice(context->device->ordinal) == cudaSuccess &&
              cudaStreamSynchronize(context->stream) == cudaSuccess && is_well;
  }
  static_cast<void>(cudaGetLastError());
  return is_well;
}

// Loses the communicator if the card of another shard is lost: its gathers never come.
void check_others(Communicator& all, const Context& own) {
  for (const Context* other : all.contexts) {
    if (other == &own) continue;
    const cudaError_t error = cudaStreamQuery(other->stream);
    if (error == cudaSuccess) continue;
    static_cast<void>(cudaGetLastError());
    if (error == cudaErrorNotReady) continue;
    const Status status = other->device->check(error, "running a shard");
    return all.lose("card " + std::to_string(other->device->ordinal) + ": " + status.words);
  }
}

// Loses the communicator if a kernel has given up waiting.
void check_late(Communicator& all) {
  const uint32_t late = load_control(all.arguments.control->late);
  if (late == 0) return;
  all.lose("shard " + std::to_string(late - 1) + " waited too long for the columns of another card, which " +
           "computes no more");
}

}  // namespace

void Communicator::interrupt() {
  interrupted.store(true, std::memory_order_release);
  store_control(arguments.control->stop, 1);
}

void Communicator::lose(const std::string& words) {
  {
    const std::scoped_lock lock(loss_mutex);
    if (loss.empty()) loss = words;
  }
  lost.store(true, std::memory_order_release);
  store_control(arguments.control->stop, 1);
}

Status Communicator::status() {
  if (lost.load(std::memory_order_acquire)) {
    const std::scoped_lock lock(loss_mutex);
    return Device::fail(Status::device_lost, loss);
  }
  return interrupted.load(std::memory_order_acquire) ? Status::interrupted : Status::ok;
}

bool enable_peer_access(const Device& device, const Device& other) {
  if (device.ordinal == other.ordinal) return true;
  int can = 0;
  cudaError_t error = cudaDeviceCanAccessPeer(&can, device.ordinal, other.ordinal);
  if (error == cudaSuccess && can != 0) error = cudaSetDevice(device.ordinal);
  if (error == cudaSuccess && can != 0) error = cudaDeviceEnablePeerAccess(other.ordinal, 0);
  static_cast<void>(cudaGetLastError());
  return can != 0 && (error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t clear_gathers(Context& c) {
  const GatherMemory& g = c.gathers;
  c.delayed_gather.reset();
  c.announced_weights = false;
  *g.control = {};
  if (c.limits.gathers_on_host != 0) std::memset(g.inbox, 0, g.layout.total_bytes);
  cudaError_t error = cudaSuccess;
  if (c.limits.gathers_on_host == 0) error = cudaMemsetAsync(g.inbox, 0, g.layout.total_bytes, c.stream);
  const GatherState state = {kFirstEpoch, 0};
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(g.state, &state, sizeof(state), cudaMemcpyHostToDevice, c.stream);
  return error == cudaSuccess ? cudaStreamSynchronize(c.stream) : error;
}

Status wait_with_shards(Context& c, cudaEvent_t event) {
  Communicator& all = *c.communicator;
  auto next_check = std::chrono::steady_clock::now() + kCheckTime;
  for (;;) {
    const cudaError_t error = cudaEventQuery(event);
    if (error != cudaErrorNotReady) {
      QUIRE_RETURN_IF_FAILED(c.device->check(error, "running a step"));
      break;
    }
    static_cast<void>(cudaGetLastError());
    if (std::chrono::steady_clock::now() >= next_check) {
      check_others(all, c);
      check_late(all);
      // The work of this card may never end, if it waits for something else than its peers.
      if (all.lost.load(std::memory_order_acquire)) break;
      next_check = std::chrono::steady_clock::now() + kCheckTime;
    }
    std::this_thread::yield();
  }
  check_late(all);
  return all.lost.load(std::memory_order_acquire) ? all.status() : Status(Status::ok);
}

int32_t reaches(Device* device, Device* other) {
  if (device->ordinal == other->ordinal) return 1;
  int there = 0, back = 0;
  const bool is_known = cudaDeviceCanAccessPeer(&there, device->ordinal, other->ordinal) == cudaSuccess &&
                        cudaDeviceCanAccessPeer(&back, other->ordinal, device->ordinal) == cudaSuccess;
  if (!is_known) static_cast<void>(cudaGetLastError());
  return is_known && there != 0 && back != 0 ? 1 : 0;
}

Status connect_shards(Context* const* contexts, int32_t num_shards, Communicator** communicator) {
  *communicator = nullptr;
  try {
    auto made = std::make_unique<Communicator>(std::vector<Context*>(contexts, contexts + num_shards));
    if (const Status s = make_communicator(*made); s != Status::ok) return s;
    for (int32_t rank = 0; rank < num_shards; ++rank) {
      contexts[rank]->communicator = made.get();
      contexts[rank]->rank = rank;
    }
    *communicator = made.release();
  } catch (const std::bad_alloc&) {
    return Device::fail(Status::out_of_memory, "connecting shards: out of host memory");
  }
  return Status::ok;
}

// Waits first, since kernels of a shard may still write to the inboxes of others.
void release_communicator(Communicator* communicator) {
  if (communicator == nullptr) return;
  static_cast<void>(wait_for_all(*communicator));
  for (Context* context : communicator->contexts) context->communicator = nullptr;
  delete communicator;
}

namespace {

// Returns true if a norm may read the result of a gather: such a gather is put off.
bool may_be_normalized(const AllGatherParams& params, const GatherPlan& plan) {
  return params.dtype == DType::f32 && params.output != nullptr && plan.is_inline;
}

Status run_gather(Context& c, const DelayedGather& gather) {
  QUIRE_RETURN_IF_FAILED(c.device->enter());
  return c.device->check(launch_gather(gather.arguments, gather.plan, c.launch()),
                         "gathering the columns of shards");
}

}  // namespace

Status all_gather(Context* context, const AllGatherParams* params) {
  Context& c = *context;
  const ColumnSplit& columns = params->columns;
  if (c.communicator == nullptr || !columns.is_split() ||
      columns.num_shards != static_cast<int32_t>(c.communicator->contexts.size()) || columns.rank != c.rank)
    return c.device->fail(
        Status::invalid_argument,
        "all_gather: the context is not connected to these shards, or the columns are not split");
  Communicator& all = *c.communicator;
  if (const Status s = all.status(); s != Status::ok) return s;
  if (params->rows <= 0) return Status::ok;
  const auto element = static_cast<int32_t>(dtype_bytes(params->dtype));
  DelayedGather gather{all.arguments,
                       plan_gather(all.layout, columns, params->rows, element, all.arguments.max_blocks)};
  if (gather.plan.rounds == 0)
    return c.device->fail(Status::invalid_argument,
                          "all_gather: a row has more bytes than the limits of the context allow");
  GatherArguments& a = gather.arguments;
  for (int32_t r = 0; r <= columns.num_shards; ++r) a.starts[r] = columns.starts[r] * element;
  a.rank = columns.rank;
  a.rows = params->rows;
  a.rows_per_round = gather.plan.rows_per_round;
  a.rounds = gather.plan.rounds;
  a.is_alone = shards_on(*c.device, all) == 1;
  a.input = static_cast<const uint8_t*>(params->input);
  a.input_stride = (params->input_stride != 0 ? params->input_stride : columns.own()) * element;
  a.output = static_cast<uint8_t*>(params->output);
  a.place = params->place;
  a.state = c.gathers.state;
  if (!may_be_normalized(*params, gather.plan)) return run_gather(c, gather);
  c.delayed_gather = gather;
  return Status::ok;
}

Status run_delayed_gather(Context& c) {
  if (!c.delayed_gather) return Status::ok;
  const DelayedGather gather = *c.delayed_gather;
  c.delayed_gather.reset();
  return run_gather(c, gather);
}

bool gathers_within(const Context& c, const NormParams& norm) {
  return c.delayed_gather && gathers_within(c.delayed_gather->arguments, c.delayed_gather->plan, norm);
}

Status normalize(Context& c, const NormParams& norm, const int32_t* place) {
  if (!gathers_within(c, norm)) {
    QUIRE_RETURN_IF_FAILED(run_delayed_gather(c));
    return c.device->check(launch_norm(norm, place, c.launch()), "normalising");
  }
  const DelayedGather gather = *c.delayed_gather;
  c.delayed_gather.reset();
  QUIRE_RETURN_IF_FAILED(c.device->enter());
  return c.device->check(launch_gather_norm(gather.arguments, norm, place, c.launch()),
                         "gathering and normalising the columns of shards");
}

Status announce_weights(Context& c, bool awaits) {
  if (c.communicator == nullptr || c.announced_weights == awaits) return Status::ok;
  c.announced_weights = awaits;
  return c.device->check(
      launch_announce_weights(c.communicator->arguments.control, c.rank, awaits, c.launch()),
      "announcing a wait for weights");
}

void interrupt_shards(Communicator* communicator) {
  communicator->interrupt();
}

// After an interruption the shards have run different numbers of gathers, so all begin again.
void resume_shards(Communicator* communicator) {
  Communicator& all = *communicator;
  if (!all.interrupted.load(std::memory_order_acquire) || all.lost.load(std::memory_order_acquire)) return;
  if (!wait_for_all(all)) return;
  for (Context* context : all.contexts) {
    if (cudaSetDevice(context->device->ordinal) != cudaSuccess || clear_gathers(*context) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return;
    }
  }
  all.interrupted.store(false, std::memory_order_release);
}

}  // namespace quire::kernels
