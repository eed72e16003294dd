#include "tests/support/wrapped_backend.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <utility>

namespace quire::testing {
namespace {

using kernels::Context;
using kernels::Status;
using kernels::Weight;

// Functions of a kernel table receive only their device. So the state of each backend is in a slot, and its
// functions get the index of the slot as a template argument.
struct Slot {
  std::atomic<bool> is_used{false};
  const kernels::Backend* real = nullptr;
  const kernels::KernelTable* real_table = nullptr;
  kernels::KernelTable table;
  kernels::Backend backend;
  std::atomic<int64_t> allowed{WrappedBackend::kUnlimited};
  std::atomic<int64_t> num_live{0};
  std::atomic<bool> is_lost{false};
  std::atomic<bool> fails_recordings{false};
  std::atomic<bool> is_recording{false};
  std::atomic<int32_t> last_page_tokens{-1};

  template <typename Take>
  Status take(Take&& take_it) {
    if (allowed.load() != WrappedBackend::kUnlimited && allowed.fetch_sub(1) <= 0) {
      allowed.store(0);
      return Status::out_of_memory;
    }
    const Status status = take_it();
    if (status == Status::ok) num_live.fetch_add(1);
    return status;
  }
};

std::array<Slot, WrappedBackend::kMaxWrapped> slots;

template <int I>
struct Entries {
  static Slot& slot() { return slots[I]; }

  static Status open_device(int32_t index, const kernels::DeviceOptions* options, kernels::Device** device) {
    const Status status = slot().real->open_device(index, options, device);
    if (status != Status::ok) return status;
    slot().real_table = slot().real->table(*device);
    slot().table = *slot().real_table;
    slot().table.allocate = allocate;
    slot().table.release = release;
    slot().table.reserve = reserve;
    slot().table.map = map;
    slot().table.unreserve = unreserve;
    slot().table.prepare_weights = prepare_weights;
    slot().table.prepare_table = prepare_table;
    slot().table.release_weight = release_weight;
    slot().table.create_context = create_context;
    slot().table.release_context = release_context;
    slot().table.begin_step = begin_step;
    slot().table.end_step = end_step;
    slot().table.attention_block = attention_block;
    slot().table.mlp_block = mlp_block;
    return status;
  }
  static const kernels::KernelTable* table(const kernels::Device*) { return &slot().table; }

  static Status allocate(kernels::Device* device, size_t bytes, void** memory) {
    return slot().take([&] { return slot().real_table->allocate(device, bytes, memory); });
  }
  static void release(kernels::Device* device, void* memory) {
    if (memory != nullptr) slot().num_live.fetch_sub(1);
    slot().real_table->release(device, memory);
  }
  static Status reserve(kernels::Device* device, size_t bytes, void** range) {
    return slot().take([&] { return slot().real_table->reserve(device, bytes, range); });
  }
  // Counts the range only, because a piece lives no longer than its range.
  static Status map(kernels::Device* device, void* range, size_t offset, size_t bytes) {
    const Status status = slot().take([&] { return slot().real_table->map(device, range, offset, bytes); });
    if (status == Status::ok) slot().num_live.fetch_sub(1);
    return status;
  }
  static void unreserve(kernels::Device* device, void* range) {
    if (range != nullptr) slot().num_live.fetch_sub(1);
    slot().real_table->unreserve(device, range);
  }
  static Status prepare_weights(kernels::Device* device, const kernels::MatrixSource* matrices,
                                int32_t num_matrices, Weight** weights) {
    const Status status = slot().take(
        [&] { return slot().real_table->prepare_weights(device, matrices, num_matrices, weights); });
    if (status == Status::ok) slot().num_live.fetch_add(num_matrices - 1);
    return status;
  }
  static Status prepare_table(kernels::Device* device, const kernels::TableSource* source, Weight** weight) {
    return slot().take([&] { return slot().real_table->prepare_table(device, source, weight); });
  }
  static void release_weight(kernels::Device* device, Weight* weight) {
    slot().num_live.fetch_sub(1);
    slot().real_table->release_weight(device, weight);
  }
  static Status create_context(kernels::Device* device, const kernels::ContextLimits* limits,
                               Context** context) {
    return slot().take([&] { return slot().real_table->create_context(device, limits, context); });
  }
  static void release_context(Context* context) {
    slot().num_live.fetch_sub(1);
    slot().real_table->release_context(context);
  }
  static Status begin_step(Context* context, const kernels::BatchView* batch, kernels::StepAction* action) {
    slot().is_recording = slot().fails_recordings.load() && !slot().is_recording.load();
    slot().last_page_tokens = batch->page_tokens;
    return slot().real_table->begin_step(context, batch, action);
  }
  static Status end_step(Context* context, kernels::StepAction* action) {
    const Status status = slot().real_table->end_step(context, action);
    if (slot().is_recording.load()) *action = kernels::StepAction::run;
    return status;
  }
  static Status attention_block(Context* context, const kernels::AttentionBlockParams* params) {
    if (slot().is_lost.load()) return Status::device_lost;
    return slot().is_recording.load() ? Status::ok : slot().real_table->attention_block(context, params);
  }
  static Status mlp_block(Context* context, const kernels::MlpBlockParams* params) {
    return slot().is_recording.load() ? Status::ok : slot().real_table->mlp_block(context, params);
  }

  static void install(const kernels::Backend& real) {
    slot().real = &real;
    slot().backend = real;
    slot().backend.open_device = open_device;
    slot().backend.table = table;
    slot().allowed = WrappedBackend::kUnlimited;
    slot().num_live = 0;
    slot().is_lost = false;
    slot().fails_recordings = false;
    slot().is_recording = false;
  }
};

template <int... I>
void install(int slot, const kernels::Backend& real, std::integer_sequence<int, I...> /*slots*/) {
  ((slot == I ? Entries<I>::install(real) : void()), ...);
}

}  // namespace

WrappedBackend::WrappedBackend(const kernels::Backend& real, const char* name) : slot_(0) {
  while (slots[static_cast<size_t>(slot_)].is_used.exchange(true)) {
    if (++slot_ == kMaxWrapped) std::abort();  // a test uses too many
  }
  install(slot_, real, std::make_integer_sequence<int, kMaxWrapped>());
  if (name != nullptr) slots[static_cast<size_t>(slot_)].backend.name = name;
}

WrappedBackend::~WrappedBackend() {
  slots[static_cast<size_t>(slot_)].is_used = false;
}

const kernels::Backend& WrappedBackend::backend() const {
  return slots[static_cast<size_t>(slot_)].backend;
}

void WrappedBackend::allow_allocations(int64_t count) {
  slots[static_cast<size_t>(slot_)].allowed = count;
}

int64_t WrappedBackend::num_live() const {
  return slots[static_cast<size_t>(slot_)].num_live.load();
}

void WrappedBackend::lose(bool lost) {
  slots[static_cast<size_t>(slot_)].is_lost = lost;
}

void WrappedBackend::fail_recordings(bool fail) {
  slots[static_cast<size_t>(slot_)].fails_recordings = fail;
}

int32_t WrappedBackend::last_page_tokens() const {
  return slots[static_cast<size_t>(slot_)].last_page_tokens;
}

}  // namespace quire::testing
