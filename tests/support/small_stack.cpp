#include "tests/support/small_stack.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <pthread.h>
#include <stdexcept>
#include <sys/mman.h>

#include "core/base/error.h"

namespace quire::testing {
namespace {

constexpr size_t kLargeStackBytes = size_t{64} << 20;
constexpr size_t kGuardBytes = size_t{64} << 10;
constexpr unsigned char kUnused = 0xA5;

void check(bool worked, const char* what) {
  if (!worked) throw std::runtime_error(what);
}

// Memory of a stack, with a part below it that nothing may touch.
class Stack {
 public:
  explicit Stack(size_t bytes) : bytes_(bytes) {
    room_ = ::mmap(nullptr, bytes + kGuardBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(room_ != MAP_FAILED, "no memory for a stack");
    check(::mprotect(room_, kGuardBytes, PROT_NONE) == 0, "no guard for a stack");
    std::memset(begin(), kUnused, bytes);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack() { ::munmap(room_, bytes_ + kGuardBytes); }

  unsigned char* begin() const { return static_cast<unsigned char*>(room_) + kGuardBytes; }
  size_t num_used() const {
    const unsigned char* const end = begin() + bytes_;
    return static_cast<size_t>(end -
                               std::find_if(begin(), begin() + bytes_, [](auto b) { return b != kUnused; }));
  }

 private:
  void* room_;
  size_t bytes_;
};

struct Call {
  const std::function<void()>* body;
  std::exception_ptr failure;
};

void* run(void* call_pointer) {
  auto& call = *static_cast<Call*>(call_pointer);
  try {
    (*call.body)();
  } catch (...) {
    call.failure = std::current_exception();
  }
  return nullptr;
}

}  // namespace

size_t run_on_stack(size_t stack_bytes, const std::function<void()>& body) {
  const Stack stack(stack_bytes);
  Call call{&body, nullptr};
  pthread_attr_t attributes;
  pthread_t thread{};
  check(pthread_attr_init(&attributes) == 0, "no attributes of a thread");
  check(pthread_attr_setstack(&attributes, stack.begin(), stack_bytes) == 0, "no such stack");
  const bool is_started = pthread_create(&thread, &attributes, run, &call) == 0;
  pthread_attr_destroy(&attributes);
  check(is_started, "no thread");
  pthread_join(thread, nullptr);
  if (call.failure != nullptr) std::rethrow_exception(call.failure);
  return stack.num_used();
}

size_t deepest_accepted(size_t most, const std::function<void(size_t)>& body) {
  size_t accepted = 0;
  size_t refused = most + 1;
  run_on_stack(kLargeStackBytes, [&] {
    while (accepted + 1 < refused) {
      // The largest is tried first: many inputs have no limit.
      const size_t n = refused > most ? most : (accepted + refused) / 2;
      try {
        body(n);
        accepted = n;
      } catch (const Error&) {
        refused = n;
      }
    }
  });
  return accepted;
}

}  // namespace quire::testing
