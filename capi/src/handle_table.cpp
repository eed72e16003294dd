#include "capi/src/handle_table.h"

#include <new>
#include <type_traits>

#include "core/base/error.h"

namespace quire::capi {
namespace {

constexpr uint64_t kTokenMark = 0x40;  // 010 in the top three bits
constexpr uint64_t kTypeMask = 0x1f;
constexpr uint32_t kSlotBits = 24;
constexpr uint32_t kGenerationShift = 24;
constexpr uint32_t kTypeShift = 56;
static_assert(kNumHandleTypes <= kTypeMask + 1);
static_assert(HandleTable::kMaxSlots <= uint32_t{1} << kSlotBits);

// State of a slot: [ generation 32 | closed 1 | pins 31 ]. The handle itself has one pin until it is freed.
constexpr uint64_t kClosed = uint64_t{1} << 31;
constexpr uint64_t kPinsMask = kClosed - 1;
constexpr uint32_t kStateGenerationShift = 32;

uint64_t make_token(HandleType type, uint32_t generation, uint32_t slot_idx) noexcept {
  return (kTokenMark | static_cast<uint64_t>(type)) << kTypeShift |
         static_cast<uint64_t>(generation) << kGenerationShift | slot_idx;
}

HandleType tag_of(uint64_t token) noexcept {
  const uint64_t top = token >> kTypeShift;
  const uint64_t type = top & kTypeMask;
  if ((top & ~kTypeMask) != kTokenMark || type >= kNumHandleTypes) return HandleType::none;
  return static_cast<HandleType>(type);
}

uint32_t generation_of(uint64_t token) noexcept {
  return static_cast<uint32_t>(token >> kGenerationShift);
}
uint32_t slot_of(uint64_t token) noexcept {
  return static_cast<uint32_t>(token & ((1U << kSlotBits) - 1));
}

// Scatters the first generations of neighbouring slots (finaliser of MurmurHash3).
uint32_t first_generation(uint32_t slot_idx) noexcept {
  uint32_t h = slot_idx + 0x9e3779b9U;
  h = (h ^ (h >> 16)) * 0x85ebca6bU;
  h = (h ^ (h >> 13)) * 0xc2b2ae35U;
  return h ^ (h >> 16);
}

constinit HandleTable table;
static_assert(std::is_trivially_destructible_v<HandleTable>);

}  // namespace

const char* handle_type_name(HandleType type) noexcept {
  static constexpr std::array<const char*, kNumHandleTypes> kNames = {"nothing",
                                                                      "quire_error",
                                                                      "quire_runtime_options",
                                                                      "quire_model_options",
                                                                      "quire_cache_options",
                                                                      "quire_job_request",
                                                                      "quire_runtime",
                                                                      "quire_model",
                                                                      "quire_cache",
                                                                      "quire_stats",
                                                                      "quire_job",
                                                                      "quire_queue",
                                                                      "quire_event",
                                                                      "quire_cancel",
                                                                      "quire_plan",
                                                                      "quire_constraint",
                                                                      "quire_matcher",
                                                                      "quire_chat_template",
                                                                      "quire_alias",
                                                                      "quire_response_parser"};
  return kNames[static_cast<size_t>(type)];
}

struct HandleTable::Slot {
  std::atomic<uint64_t> state{0};
  Object* object = nullptr;  // written while no thread can pin the slot
  HandleType type = HandleType::none;
  uint32_t next_free = kNoSlot;  // guarded by mutex_
};

HandleTable& HandleTable::instance() noexcept {
  return table;
}

HandleTable::Slot* HandleTable::find(uint64_t token) noexcept {
  const uint32_t slot_idx = slot_of(token);
  if (slot_idx >= kMaxSlots) return nullptr;
  Slot* const chunk = chunks_[slot_idx / kChunkSlots].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : &chunk[slot_idx % kChunkSlots];
}

uint32_t HandleTable::take_slot() {
  const std::lock_guard lock(mutex_);
  if (first_free_ != kNoSlot) {
    const uint32_t slot_idx = first_free_;
    first_free_ = find(slot_idx)->next_free;
    return slot_idx;
  }
  if (num_slots_ == kMaxSlots) {
    throw Error(ErrorCode::out_of_memory, "{} handles are alive, which is the limit; free some", kMaxSlots);
  }
  if (num_slots_ % kChunkSlots == 0) {
    auto* const chunk = new Slot[kChunkSlots];  // never freed
    for (uint32_t i = 0; i < kChunkSlots; ++i) {
      const uint64_t generation = first_generation(num_slots_ + i);
      chunk[i].state.store(generation << kStateGenerationShift | kClosed, std::memory_order_relaxed);
    }
    chunks_[num_slots_ / kChunkSlots].store(chunk, std::memory_order_release);
  }
  return num_slots_++;
}

uint64_t HandleTable::insert(HandleType type, std::unique_ptr<Object> object) {
  const uint32_t slot_idx = take_slot();
  Slot& slot = *find(slot_idx);
  slot.object = object.release();
  slot.type = type;
  num_live_[static_cast<size_t>(type)].fetch_add(1, std::memory_order_relaxed);
  const uint64_t generation = slot.state.load(std::memory_order_relaxed) >> kStateGenerationShift;
  slot.state.store(generation << kStateGenerationShift | 1, std::memory_order_release);
  return make_token(type, static_cast<uint32_t>(generation), slot_idx);
}

bool HandleTable::try_pin(Slot& slot, uint32_t generation) noexcept {
  uint64_t state = slot.state.load(std::memory_order_relaxed);
  do {
    if (state >> kStateGenerationShift != generation || (state & kClosed) != 0) return false;
  } while (!slot.state.compare_exchange_weak(state, state + 1, std::memory_order_acquire,
                                             std::memory_order_relaxed));
  return true;
}

Object* HandleTable::pin(uint64_t token, HandleType type) noexcept {
  if (tag_of(token) != type) return nullptr;
  Slot* const slot = find(token);
  if (slot == nullptr || !try_pin(*slot, generation_of(token))) return nullptr;
  if (slot->type == type) return slot->object;
  release(token, *slot);
  return nullptr;
}

void HandleTable::unpin(uint64_t token) noexcept {
  release(token, *find(token));
}

void HandleTable::release(uint64_t token, Slot& slot) noexcept {
  const uint64_t before = slot.state.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & kPinsMask) != 1) return;
  // No thread uses the slot or can pin it: the handle had a pin until it was closed.
  std::unique_ptr<Object> object(slot.object);
  slot.object = nullptr;
  num_live_[static_cast<size_t>(slot.type)].fetch_sub(1, std::memory_order_relaxed);
  give_back(slot_of(token), slot);
  object.reset();
}

void HandleTable::give_back(uint32_t slot_idx, Slot& slot) noexcept {
  const auto generation =
      static_cast<uint32_t>(slot.state.load(std::memory_order_relaxed) >> kStateGenerationShift);
  const uint32_t next = generation + 1;
  slot.state.store(static_cast<uint64_t>(next) << kStateGenerationShift | kClosed, std::memory_order_relaxed);
  if (next == first_generation(slot_idx)) return;  // retired: every generation was used once
  const std::lock_guard lock(mutex_);
  slot.next_free = first_free_;
  first_free_ = slot_idx;
}

bool HandleTable::close(uint64_t token) noexcept {
  Slot& slot = *find(token);
  if ((slot.state.fetch_or(kClosed, std::memory_order_relaxed) & kClosed) != 0) return false;
  slot.object->close();
  release(token, slot);  // the handle's own pin; the caller still has one
  return true;
}

HandleType HandleTable::type_of(uint64_t token) noexcept {
  const HandleType type = tag_of(token);
  if (type == HandleType::none || pin(token, type) == nullptr) return HandleType::none;
  unpin(token);
  return type;
}

int64_t HandleTable::num_live(HandleType type) const noexcept {
  return num_live_[static_cast<size_t>(type)].load(std::memory_order_relaxed);
}

int64_t HandleTable::num_live_objects() const noexcept {
  int64_t sum = 0;
  for (size_t i = 0; i < kNumHandleTypes; ++i) {
    if (i != static_cast<size_t>(HandleType::error)) sum += num_live_[i].load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace quire::capi
