// Handles are tokens. A token names a slot of a table whose memory is never given back, so that looking up
// any 64 bits at all is safe: what is not a live handle of the expected type is simply not found.
//
//   63      56 55                      24 23                0
//   [ 010 | type ] [     generation      ] [      slot       ]
//
// The top bits make the token a non-canonical address, so that a caller that dereferences one faults at once.
// A slot counts its generation up each time it is reused and is retired before it would repeat one; slots
// start at generations far apart, so that a flipped bit does not turn one live token into another.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace quire::capi {

enum class HandleType : uint8_t {
  none = 0,
  error,
  runtime_options,
  model_options,
  cache_options,
  job_request,
  runtime,
  model,
  cache,
  stats,
  job,
  queue,
  event,
  cancel,
  plan,
  constraint,
  matcher,
  chat_template,
  alias,
  response_parser,
};
inline constexpr size_t kNumHandleTypes = 20;

// The name of the C type, such as "quire_job".
const char* handle_type_name(HandleType type) noexcept;

// What a handle stands for. Destroyed by whoever unpins it last after its handle was freed.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  // Called once, by the call that frees the handle, before it gives up its reference: wakes what waits in the
  // object. Must not wait itself.
  virtual void close() noexcept {}
};

// Any thread. Pinning and unpinning are lock-free; making and destroying take one short lock.
class HandleTable {
 public:
  constexpr HandleTable() = default;
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // The one table. Constant-initialised and trivially destroyed: usable from any static constructor or
  // destructor of the host. It is not state of the library: a token leads to its own object and to no other.
  static HandleTable& instance() noexcept;

  // Throws ErrorCode::out_of_memory where there is no room; `object` is destroyed then.
  uint64_t insert(HandleType type, std::unique_ptr<Object> object);

  // The object, kept alive until unpin; nullptr where the token is no live handle of this type.
  Object* pin(uint64_t token, HandleType type) noexcept;
  // The token must be pinned by the caller.
  void unpin(uint64_t token) noexcept;
  // Ends the handle: later pins fail, the object goes with the last unpin. The token must be pinned by the
  // caller. False where another thread ended it first.
  bool close(uint64_t token) noexcept;

  // The type whose live handle a token is; none where it is no live handle.
  HandleType type_of(uint64_t token) noexcept;
  int64_t num_live(HandleType type) const noexcept;
  // Live handles but errors, which stand alone.
  int64_t num_live_objects() const noexcept;

  // For fork: between lock and unlock no slot changes hands.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  static constexpr uint32_t kMaxSlots = uint32_t{1} << 20;

 private:
  static constexpr uint32_t kChunkSlots = 1024;
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  struct Slot;

  Slot* find(uint64_t token) noexcept;
  uint32_t take_slot();
  void give_back(uint32_t slot_idx, Slot& slot) noexcept;
  bool try_pin(Slot& slot, uint32_t generation) noexcept;
  void release(uint64_t token, Slot& slot) noexcept;

  std::array<std::atomic<Slot*>, kMaxSlots / kChunkSlots> chunks_{};
  std::array<std::atomic<int64_t>, kNumHandleTypes> num_live_{};
  std::mutex mutex_;  // guards the free list and the making of chunks
  uint32_t first_free_ = kNoSlot;
  uint32_t num_slots_ = 0;
};

}  // namespace quire::capi
