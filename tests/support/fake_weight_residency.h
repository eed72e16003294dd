// Fake models that use memory of named devices, and threads that run only when the test calls them.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/engine/residency/runtime.h"
#include "core/engine/residency/weight_residency.h"

namespace quire::testing {

class DeferredThreads final : public ThreadFactory {
 public:
  std::unique_ptr<Thread> start(const std::string& name, std::function<void()> body) const override {
    if (refuses) throw Error(ErrorCode::out_of_memory, "the thread {} could not be started", name);
    auto thread = std::make_unique<Held>();
    bodies.push_back(std::move(body));
    return thread;
  }
  // Returns false if no thread waits.
  bool run_one() const {
    if (bodies.empty()) return false;
    const auto body = std::move(bodies.front());
    bodies.pop_front();
    body();
    return true;
  }

  bool refuses = false;
  mutable std::deque<std::function<void()>> bodies;

 private:
  class Held final : public Thread {
   public:
    void join() override {}
    void detach() override {}
    bool is_current() const override { return false; }
  };
};

struct FakeWeights {
  std::string name = "m";
  std::map<std::string, uint64_t, std::less<>> bytes;  // by device
  uint64_t rest = 0;  // on each of these devices, remains allocated while the model is evicted
  std::vector<uint64_t> shard_bytes;
  bool is_there = false;
  bool has_rest = false;
  ErrorCode failure = ErrorCode::ok;  // of the next load
  bool cannot_leave = false;
  std::function<void()> while_loading;  // called by the next load after it has allocated its memory
};

class FakeEvictableWeights final : public EvictableWeights {
 public:
  FakeEvictableWeights(std::shared_ptr<Runtime> runtime, std::shared_ptr<FakeWeights> weights)
      : runtime_(std::move(runtime)), weights_(std::move(weights)) {}
  ~FakeEvictableWeights() override { weights_->is_there = weights_->has_rest = false; }

  void bring(const std::atomic<bool>&) override {
    EXPECT_FALSE(weights_->is_there);
    std::vector<MemoryLease> leases;
    for (const auto& [device, bytes] : weights_->bytes) {
      const uint64_t here = weights_->has_rest ? weights_->rest : 0;
      MemoryRequest memory_request{device, bytes - here, "the weights of " + weights_->name};
      memory_request.is_evictable = true;
      memory_request.beside = &rests_;
      leases.push_back(runtime_->lease_memory(memory_request));
    }
    if (const auto meanwhile = std::exchange(weights_->while_loading, nullptr)) meanwhile();
    const ErrorCode failure = std::exchange(weights_->failure, ErrorCode::ok);
    if (failure != ErrorCode::ok) throw Error(failure, "{}: it does not load", weights_->name);
    leases_ = std::move(leases);
    weights_->is_there = true;
  }
  void take_away(ResidencyState to) override {
    if (weights_->cannot_leave) throw Error(ErrorCode::io, "the disk is gone");
    const bool keeps_rest = to == ResidencyState::standing_by && weights_->is_there && weights_->rest > 0;
    if (!keeps_rest) {
      rests_.clear();
    } else if (!weights_->has_rest) {
      for (MemoryLease& lease : leases_) lease.shrink(weights_->rest);
      rests_ = std::move(leases_);
    }
    weights_->has_rest = keeps_rest;
    weights_->is_there = false;
    leases_.clear();
  }
  uint64_t remaining_bytes_on(std::string_view device) const override {
    return weights_->has_rest && bytes_on(device) > 0 ? weights_->rest : 0;
  }
  const std::string& name() const override { return weights_->name; }
  uint64_t bytes_on(std::string_view device) const override {
    const auto entry = weights_->bytes.find(device);
    return entry == weights_->bytes.end() ? 0 : entry->second;
  }
  const std::vector<uint64_t>& shard_bytes() const override { return weights_->shard_bytes; }

 private:
  const std::shared_ptr<Runtime> runtime_;
  const std::shared_ptr<FakeWeights> weights_;
  std::vector<MemoryLease> rests_;
  std::vector<MemoryLease> leases_;
};

}  // namespace quire::testing
