// Table of handles. A handle is a token that names a slot of a table whose memory is never freed. So any 64
// bits can be looked up safely: a value that is not a live handle of the expected type is not found.
//
//   63      56 55                      24 23                0
//   [ 010 | type ] [     generation      ] [      slot       ]
//
// The top bits make the token a non-canonical address, so that dereferencing it faults at once. A slot
// increments its generation at each reuse, and is retired before a generation would repeat. Slots start at
// generations far apart, so that a flipped bit does not turn one live token into another.
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

// Returns the name of the C type, such as "quire_job".
const char* handle_type_name(HandleType type) noexcept;

// Object of a handle. Destroyed when the last pin is removed after the handle was freed.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  // Called once by the call that frees the handle, before that call removes its pin. Wakes threads that wait
  // in the object. Must not wait itself.
  virtual void close() noexcept {}
};

// Thread-safe. Pinning and unpinning are lock-free; creating and destroying take one short lock.
class HandleTable {
 public:
  constexpr HandleTable() = default;
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // Returns the only table. It is constant-initialised and trivially destructible, and so usable in static
  // constructors and destructors of the host. It is not global state of the library: a token leads to its own
  // object only.
  static HandleTable& instance() noexcept;

  // Adds an object. Throws ErrorCode::out_of_memory if the table is full; `object` is destroyed then.
  uint64_t insert(HandleType type, std::unique_ptr<Object> object);

  // Returns the object, kept alive until unpin, or nullptr if the token is not a live handle of this type.
  Object* pin(uint64_t token, HandleType type) noexcept;
  // The token must be pinned by the caller.
  void unpin(uint64_t token) noexcept;
  // Closes the handle: later pins fail, and the last unpin destroys the object. The token must be pinned by
  // the caller. Returns false if another thread closed it first.
  bool close(uint64_t token) noexcept;

  // Returns the type of a live handle; `none` if the token is not a live handle.
  HandleType type_of(uint64_t token) noexcept;
  int64_t num_live(HandleType type) const noexcept;
  // Returns the number of live handles except errors, which are independent of other objects.
  int64_t num_live_objects() const noexcept;

  // For fork: between lock and unlock no slot is allocated or freed.
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
  std::mutex mutex_;  // guards the free list and the creation of chunks
  uint32_t first_free_ = kNoSlot;
  uint32_t num_slots_ = 0;
};

}  // namespace quire::capi
