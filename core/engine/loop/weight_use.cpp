#include "core/engine/loop/weight_use.h"

#include <utility>

#include <gsl/gsl>

#include "core/base/contain.h"

namespace quire {

WeightUse::WeightUse(std::shared_ptr<WeightResidency> residency, std::shared_ptr<EngineSignal> signal,
                     Executor& executor)
    : residency_(std::move(residency)), signal_(std::move(signal)), executor_(executor) {
  if (residency_ != nullptr) residency_->add_listener(signal_);
}

WeightUse::~WeightUse() {
  leave();
  if (residency_ != nullptr) residency_->remove_listener(signal_.get());
}

bool WeightUse::can_compute(LiveJobs& jobs) {
  if (residency_ == nullptr) return true;
  if (jobs.empty()) {
    let_go();
    residency_->evict_if_timed_out(jobs.now());
    return true;
  }
  if (has_entered_) return true;
  bool is_resident = false;
  contain(
      "no memory to use the weights", [&] { is_resident = try_enter(jobs); },
      [&](ErrorCode code, std::string_view message) {
        if (code == ErrorCode::device_lost) throw Error(code, "{}", message);
        jobs.fail_all(code, message);
      });
  return is_resident;
}

bool WeightUse::try_enter(LiveJobs& jobs) {
  if (!residency_->enter(wake_request_)) {
    jobs.wait_for_model();
    return false;
  }
  has_entered_ = true;
  const uint64_t num_wakes = residency_->figures().wakes;
  was_reloaded_ = std::exchange(num_wakes_, num_wakes) != num_wakes;
  try {
    executor_.acquire_weights();
  } catch (...) {
    leave();
    throw;
  }
  return true;
}

void WeightUse::let_go() {
  if (residency_ != nullptr) residency_->withdraw(wake_request_);  // no job waits for the weights any more
  if (!std::exchange(has_entered_, false)) return;
  const auto left = gsl::finally([this] { residency_->leave(); });
  executor_.release_weights();
}

void WeightUse::leave() noexcept {
  contain(
      "no memory", [this] { let_go(); }, [](ErrorCode, std::string_view) {});
}

TimePoint WeightUse::next_event() const {
  return residency_ == nullptr || has_entered_ ? TimePoint::max() : residency_->idle_deadline();
}

}  // namespace quire
