// SIGINT and SIGTERM, turned into something that a program can ask about and a call can be stopped by.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "capi/cli/library.h"

namespace quire::cli {

// Blocks the signals in the process and takes them on a thread of its own, so it must exist before any other
// thread does. The first signal asks the work to end; a second one ends the process at once.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const { return signal_.load() != 0; }
  // An interrupt that was meant for less than the program: the next one is the first again. False where none
  // was requested, or another signal.
  bool forgive();
  // The exit code of a process that a signal ended; only after requested().
  int exit_code() const;
  // Triggered together with requested(). Made when it is first asked for.
  quire_cancel* cancel();

 private:
  void wait_for_signals();

  std::mutex mutex_;  // of cancel_, which two threads make and trigger
  Cancel cancel_;
  std::atomic<int> signal_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace quire::cli
