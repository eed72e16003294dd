// Executor that measures the time of its calls, to tell the host's time of a step from that of the device.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/deadline.h"
#include "core/step/executor.h"

namespace quire::bench {

// Passes the calls of an engine on to another executor. Does not store pages or states.
class TimedExecutor final : public Executor {
 public:
  struct Pass {
    Ticket ticket;
    int32_t num_tokens = 0;
    int32_t num_sequences = 0;
    bool generates = false;  // each token has its row of logits
  };
  // Seconds since the executor was created.
  struct Times {
    double issue = 0.0;  // in forward and draw; a device that computes within the call does so there
    double wait = 0.0;
  };

  explicit TimedExecutor(std::unique_ptr<Executor> inner) : inner_(std::move(inner)) {}

  const Times& times() const { return times_; }
  // Returns the pass that was waited for last.
  const Pass& last_pass() const { return last_; }

  const ExecutorLimits& limits() const override { return inner_->limits(); }
  void acquire_weights() override { inner_->acquire_weights(); }
  void release_weights() override { inner_->release_weights(); }
  void set_breaks(StepBreaks* breaks) override { inner_->set_breaks(breaks); }
  DraftNetwork* draft_network() override { return inner_->draft_network(); }

  Ticket forward(const Batch& batch) override {
    const Stopwatch watch(times_.issue);
    const Ticket ticket = inner_->forward(batch);
    passes_[num_passes_++ % passes_.size()] = {ticket, batch.num_tokens(), batch.num_sequences(),
                                               batch.num_logit_rows() == batch.num_tokens()};
    return ticket;
  }
  void draw(Ticket ticket, const DeviceDraws& draws) override {
    const Stopwatch watch(times_.issue);
    inner_->draw(ticket, draws);
  }
  Drawn wait(Ticket ticket) override {
    const Stopwatch watch(times_.wait);
    for (const Pass& pass : passes_)
      if (pass.ticket == ticket) last_ = pass;
    return inner_->wait(ticket);
  }

 private:
  class Stopwatch {
   public:
    explicit Stopwatch(double& seconds) : seconds_(seconds) {}
    ~Stopwatch() { seconds_ += in_seconds(std::chrono::steady_clock::now() - start_); }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

   private:
    double& seconds_;
    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  };

  std::unique_ptr<Executor> inner_;
  Times times_;
  std::array<Pass, 4> passes_{};  // the last ones: one is waited for, one may be issued ahead
  size_t num_passes_ = 0;
  Pass last_;
};

}  // namespace quire::bench
