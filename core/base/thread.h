// The interface to threads. Every thread of the library is started here. It blocks all signals, so that
// signal handlers of the host run on the host's own threads. A failure to start is an Error.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace quire {

// A running thread; the destructor joins it.
class Thread {
 public:
  virtual ~Thread() = default;
  virtual void join() = 0;
  // Lets the thread run on by itself, so that the destructor does not wait. The body must own everything it
  // uses.
  virtual void detach() = 0;
  // True on the thread itself, where a join would never return.
  virtual bool is_current() const = 0;
};

class ThreadFactory {
 public:
  virtual ~ThreadFactory() = default;
  // Starts `body`, which must not throw. `name` has at most 15 bytes (a limit of Linux). Throws
  // ErrorCode::out_of_memory if the system refuses another thread.
  virtual std::unique_ptr<Thread> start(const std::string& name, std::function<void()> body) const = 0;
};

const ThreadFactory& system_threads();

}  // namespace quire
