// Typed access to the handle table: maps C types to objects.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include <quire/base.h>

#include "capi/src/fork_guard.h"
#include "capi/src/handle_table.h"

namespace quire::capi {

// Specialised next to each object: `using Object = ...; static constexpr HandleType type = ...;`.
template <typename Handle>
struct HandleTraits;

template <typename Handle>
using ObjectOf = typename HandleTraits<Handle>::Object;

template <typename Handle>
uint64_t token_of(Handle* handle) noexcept {
  static_assert(sizeof(void*) == sizeof(uint64_t), "a token needs 64 bits");
  return reinterpret_cast<uint64_t>(handle);
}

// Throws ErrorCode::invalid_argument for NULL, otherwise ErrorCode::bad_handle, naming the parameter.
[[noreturn]] void refuse_handle(uint64_t token, HandleType expected, std::string_view name);

// Keeps an object alive during a call.
template <typename Handle>
class Pinned {
 public:
  // `name`: name of the parameter, for error messages.
  Pinned(Handle* handle, std::string_view name) : token_(token_of(handle)) {
    constexpr HandleType type = HandleTraits<Handle>::type;
    object_ = static_cast<ObjectOf<Handle>*>(HandleTable::instance().pin(token_, type));
    if (object_ == nullptr) refuse_handle(token_, type, name);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { HandleTable::instance().unpin(token_); }

  ObjectOf<Handle>* operator->() const { return object_; }
  ObjectOf<Handle>& operator*() const { return *object_; }

  // Closes the handle. Throws ErrorCode::bad_handle if another thread closed it after it was pinned.
  void close(std::string_view name) {
    if (!HandleTable::instance().close(token_)) refuse_handle(token_, HandleTraits<Handle>::type, name);
  }

 private:
  uint64_t token_;
  ObjectOf<Handle>* object_;
};

// Creates an object and returns its new handle.
template <typename Handle, typename... Args>
Handle* make_handle(Args&&... args) {
  if constexpr (HandleTraits<Handle>::type != HandleType::error) install_fork_guard();
  auto object = std::make_unique<ObjectOf<Handle>>(std::forward<Args>(args)...);
  const uint64_t token = HandleTable::instance().insert(HandleTraits<Handle>::type, std::move(object));
  return reinterpret_cast<Handle*>(token);
}

}  // namespace quire::capi
