#include "core/base/thread.h"

#include <pthread.h>
#include <system_error>
#include <thread>

#include "core/base/error.h"
#include "core/base/signal_blocker.h"

namespace quire {
namespace {

class SystemThread final : public Thread {
 public:
  SystemThread() = default;
  SystemThread(const SystemThread&) = delete;
  SystemThread& operator=(const SystemThread&) = delete;
  ~SystemThread() override {
    if (thread_.joinable()) thread_.join();
  }
  // Nothing may fail after the thread has started: destroying a joinable thread would end the process.
  void take(std::thread thread) noexcept { thread_ = std::move(thread); }
  void join() override {
    if (thread_.joinable()) thread_.join();
  }
  void detach() override {
    if (thread_.joinable()) thread_.detach();
  }
  bool is_current() const override { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  std::thread thread_;
};

class SystemThreadFactory final : public ThreadFactory {
 public:
  std::unique_ptr<Thread> start(const std::string& name, std::function<void()> body) const override {
    auto thread = std::make_unique<SystemThread>();
    const SignalBlocker blocked;
    try {
      thread->take(std::thread([name, body = std::move(body)] {
        pthread_setname_np(pthread_self(), name.c_str());
        body();
      }));
    } catch (const std::system_error& failure) {
      throw Error(ErrorCode::out_of_memory, "the thread \"{}\" could not be started: {}", name,
                  failure.what());
    }
    return thread;
  }
};

}  // namespace

const ThreadFactory& system_threads() {
  // Never destroyed: threads of the engine may outlive the end of main.
  static const auto* const instance = new SystemThreadFactory;
  return *instance;
}

}  // namespace quire
