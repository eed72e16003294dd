#include "capi/cli/interrupt.h"

#include <csignal>
#include <unistd.h>

#include "capi/cli/failure.h"

namespace quire::cli {
namespace {

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t set = handled_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { wait_for_signals(); });
}

Interrupt::~Interrupt() {
  stopping_ = true;
  pthread_kill(thread_.native_handle(), SIGINT);
  thread_.join();
}

quire_cancel* Interrupt::cancel() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (cancel_ == nullptr) {
    cancel_ = Cancel(call(quire_cancel_create));
    if (requested()) quire_cancel_trigger(cancel_.get(), nullptr);
  }
  return cancel_.get();
}

bool Interrupt::forgive() {
  const std::lock_guard<std::mutex> lock(mutex_);
  int interrupt = SIGINT;
  if (!signal_.compare_exchange_strong(interrupt, 0)) return false;
  cancel_.reset();
  return true;
}

int Interrupt::exit_code() const {
  return kExitSignal + signal_.load();
}

void Interrupt::wait_for_signals() {
  const sigset_t set = handled_signals();
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) return;
    if (stopping_) return;
    if (requested()) _exit(kExitSignal + signal);
    const std::lock_guard<std::mutex> lock(mutex_);
    signal_ = signal;
    if (cancel_ != nullptr) quire_cancel_trigger(cancel_.get(), nullptr);
  }
}

}  // namespace quire::cli
