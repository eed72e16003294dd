// SIGINT and SIGTERM as a flag that the program checks, and as a switch that cancels calls.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include <quire/quire.hpp>

namespace quire::cli {

// Blocks the signals in the process and handles them on a thread of its own, so it must be created before any
// other thread. The first signal requests the end of the work; a second one ends the process at once.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const { return signal_.load() != 0; }
  // Clears an interrupt that was meant for the current answer, not for the program; the next one counts as
  // the first again. Returns false if there was none, or if it was another signal.
  bool forgive();
  // Returns the exit code of a process that a signal ended. Call it only after requested().
  int exit_code() const;
  // Returns a switch that is triggered together with requested(). It is created on the first call.
  quire_cancel* cancel();

 private:
  void wait_for_signals();

  std::mutex mutex_;  // protects cancel_, which two threads create and trigger
  Cancel cancel_;
  std::atomic<int> signal_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace quire::cli
