// Blocks signals for threads that are started meanwhile.
#pragma once

#include <csignal>
#include <pthread.h>

namespace quire {

// Guard that blocks every signal on its thread during its lifetime; a thread started meanwhile inherits the
// mask.
class SignalBlocker {
 public:
  SignalBlocker() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous_);
  }
  SignalBlocker(const SignalBlocker&) = delete;
  SignalBlocker& operator=(const SignalBlocker&) = delete;
  ~SignalBlocker() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }

 private:
  sigset_t previous_{};
};

}  // namespace quire
